// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Numbers to train with, and the distance of results from the right ones.

#include <penstock/callables/deferred.hpp>
#include <penstock/cuda.hpp>
#include <penstock/cuda/algorithm.cuh>
#include <penstock/data/float16.hpp>
#include <penstock/device/device_array.hpp>
#include <penstock/host/device.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace penstock_bench {

namespace ps = penstock;

/// Multiplications and additions a second that the tensor cores of an H200 reach with bf16, by the
/// data sheet: https://www.nvidia.com/en-us/data-center/h200/
inline constexpr double tensor_peak = 989.5e12;

/// Returns the i-th number of an array: from -1 to 1, and exact in bf16.
PENSTOCK_HD inline float number(std::size_t i, std::uint64_t array) {
  std::uint64_t mixed = (i + 1) * 0x9e3779b97f4a7c15 + array * 0xd1342543de82ef95;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
  return static_cast<float>(static_cast<std::int64_t>(mixed) >> 56) / 128;
}

/// For ps::for_each: shift + scale * number(i, array).
template <class T> struct FillNumbers {
  T* at;
  std::uint64_t array;
  float scale = 1;
  float shift = 0;
  PENSTOCK_HD void operator()(std::size_t i) const {
    at[i] = static_cast<T>(shift + scale * number(i, array));
  }
};

/// The two sums of Distance.
struct Squares {
  double off, wanted;
};
template <class T> struct SquaresOf {
  const T* found;
  const T* wanted;
  PENSTOCK_HD Squares operator()(std::size_t i) const {
    const auto is = static_cast<double>(static_cast<float>(wanted[i]));
    const double off = static_cast<double>(static_cast<float>(found[i])) - is;
    return {off * off, is * is};
  }
};
struct SquaresAt {
  const Squares* parts;
  PENSTOCK_HD Squares operator()(std::size_t i) const { return parts[i]; }
};
/// For ps::for_each: adds up every `strands`-th number, from the strand's own on.
template <class Get> struct SumStrand {
  Get get;
  std::size_t count;
  Squares* sums;
  std::size_t strands;
  PENSTOCK_HD void operator()(std::size_t strand) const {
    Squares sum{};
    for (std::size_t i = strand; i < count; i += strands) {
      const Squares one = get(i);
      sum.off += one.off;
      sum.wanted += one.wanted;
    }
    sums[strand] = sum;
  }
};

/// Measures how far two arrays in device memory are from each other. One comparison at a time.
class Distance {
 public:
  explicit Distance(ps::CudaDevice& gpu)
      : many_{gpu, std::size_t{1} << 18}, few_{gpu, std::size_t{1} << 9}, all_{gpu, 1},
        read_{gpu, {.results = 1}} {}

  /// Returns the length of `found` - `wanted`, as a share of that of `wanted`. Blocks until the
  /// stream's work so far is done.
  template <class T>
  double operator()(const T* found, const T* wanted, std::size_t count, cudaStream_t stream) {
    add_up(SquaresOf<T>{found, wanted}, count, many_, stream);
    add_up(SquaresAt{many_.data()}, many_.size(), few_, stream);
    add_up(SquaresAt{few_.data()}, few_.size(), all_, stream);
    read_.clear();
    const Squares squares = read_.put(all_.data(), stream).get();
    return std::sqrt(squares.off / squares.wanted);
  }

 private:
  using Sums = ps::DeviceArray<Squares, ps::CudaDevice>;

  template <class Get>
  static void add_up(Get get, std::size_t count, const Sums& to, cudaStream_t stream) {
    ps::for_each(stream, to.size(), SumStrand<Get>{get, count, to.data(), to.size()});
  }

  Sums many_, few_, all_;
  ps::Deferred<Squares, ps::CudaDevice> read_;
};

} // namespace penstock_bench
