// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "on_device.hpp"

#include <penstock/device/device_array.hpp>

#include <algorithm>
#include <cstddef>

namespace transformer {

/// Gets a number that is added up. For Sum.
/// @{
template <class T> struct Number {
  const T* at;
  PENSTOCK_HD double operator()(std::size_t i) const { return static_cast<double>(at[i]); }
};
/// The sum of four squares.
template <class T> struct FourSquares {
  const Four<T>* at;
  PENSTOCK_HD double operator()(std::size_t i) const {
    const Four<T> four = at[i];
    double sum = 0;
    for (const T& value : four.at) {
      sum += static_cast<double>(value) * static_cast<double>(value);
    }
    return sum;
  }
};
/// @}

/// Adds up every `strands`-th number, from the strand's own on.
template <class Get> struct SumStrand {
  Get get;
  std::size_t count;
  double* sums;
  std::size_t strands;
  PENSTOCK_HD void operator()(std::size_t strand) const {
    double sum = 0;
    for (std::size_t i = strand; i < count; i += strands) {
      sum += get(i);
    }
    sums[strand] = sum;
  }
};

/// Adds up `count` numbers in doubles, always in the same order.
template <class D> class Sum {
 public:
  Sum(D& device, std::size_t count)
      : count_{count}, many_{device, std::clamp<std::size_t>(count / 32, 1, most)},
        few_{device, std::min<std::size_t>(many_.size(), 512)}, all_{device, 1} {}

  /// Enqueues the sum of get(i), and returns where in device memory it will be.
  template <class Get> const double* operator()(penstock::Stream<D> stream, Get get) {
    add_up(stream, get, count_, many_);
    add_up(stream, Number<double>{many_.data()}, many_.size(), few_);
    add_up(stream, Number<double>{few_.data()}, few_.size(), all_);
    return all_.data();
  }

 private:
  using Sums = penstock::DeviceArray<double, D>;
  // Enough to fill a GPU.
  static constexpr std::size_t most = std::size_t{1} << 18;

  template <class Get>
  static void add_up(penstock::Stream<D> stream, Get get, std::size_t count, const Sums& to) {
    penstock::for_each(stream, to.size(), SumStrand<Get>{get, count, to.data(), to.size()});
  }

  std::size_t count_;
  Sums many_, few_, all_;
};

} // namespace transformer
