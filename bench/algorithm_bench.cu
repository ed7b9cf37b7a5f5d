// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// How near to the GPU's memory do the algorithms of cuda/*.cuh come, and to what one would take
// instead?
//
// A run is twenty calls on one stream, from the first to the wait for the last. Bytes are those
// read and those written. algorithm/CONTENDER/SIZE, of 256 MiB of input if the name says nothing:
//   copy                   cudaMemcpyAsync on the device: the limit
//   u8_to_bf16, u8_to_f32, bf16_to_u8
//                          convert()
//   square, square_thrust  transform(), and thrust::transform with par_nosync, of floats
//   planes_u8, planes_f32  transpose() of records of 3 bytes, and of 16 floats
//   odd_planes_u8          the same of a number of records that is no multiple of 16
//   pixels_u8              transpose() of 3 arrays of bytes into records
//   sums, sums_cub         exclusive_sum() of 32-bit numbers into 64-bit ones, and CUB's
//   select, select_cub     select() that keeps every third 32-bit number, and CUB's
//   sort, sort_cub         sort() of 16 M 32-bit keys, and CUB's DeviceRadixSort
//   top_10, top_100, sorted_segments_cub
//                          segmented_top_k() of 256 segments of 65536 floats, and CUB's sort of
//                          all segments
//   runs                   run_length_decode() of runs of 1 to 31 bytes
// To be run with --benchmark_repetitions=5 --benchmark_enable_random_interleaving=true. What they
// compute is checked by the tests.

#include "support/contender.hpp"
#include "support/gpu.hpp"

#include <penstock/cuda.hpp>
#include <penstock/cuda/algorithm.cuh>
#include <penstock/cuda/convert.cuh>
#include <penstock/cuda/select.cuh>
#include <penstock/cuda/sort.cuh>
#include <penstock/float16.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>
#include <cub/device/device_segmented_radix_sort.cuh>
#include <cub/device/device_select.cuh>
#include <thrust/execution_policy.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <thrust/transform.h>

namespace {

namespace ps = penstock;
using namespace penstock_bench;

constexpr std::size_t MiB = std::size_t{1} << 20;
constexpr std::size_t in_bytes = 256 * MiB;
constexpr std::size_t out_bytes = 1024 * MiB;
constexpr int calls = 20;

struct Square {
  PENSTOCK_HD float operator()(float x) const { return x * x; }
};
struct EveryThird {
  PENSTOCK_HD bool operator()(std::uint32_t x) const { return x % 3 == 0; }
};
struct Scramble {
  std::uint32_t* at;
  PENSTOCK_HD void operator()(std::size_t i) const {
    std::uint32_t x = static_cast<std::uint32_t>(i) * 2654435761U;
    x ^= x >> 15;
    at[i] = x * 2246822519U >> 1; // a float that is no NaN
  }
};
struct SegmentBegin {
  PENSTOCK_HD int operator()(int segment) const { return segment * 65536; }
};
struct Lengths {
  std::uint32_t* at;
  PENSTOCK_HD void operator()(std::size_t i) const {
    at[i] = 1 + static_cast<std::uint32_t>(i * 7 % 31);
  }
};

/// What all share: memory filled with numbers.
class Memory {
 public:
  Memory() {
    ps::for_each(stream, in_bytes / 4, Scramble{in_as<std::uint32_t>()});
    gpu.sync(stream);
  }
  template <class T> T* in_as() const noexcept { return reinterpret_cast<T*>(in.get()); }
  template <class T> T* out_as() const noexcept { return reinterpret_cast<T*>(out.get()); }

  ps::CudaDevice gpu;
  ps::CudaStream stream = gpu.stream();
  DeviceBytes in = make_on_device(in_bytes);
  DeviceBytes out = make_on_device(out_bytes);
  DeviceBytes scratch_bytes = make_on_device(out_bytes);
  DeviceBytes count = make_on_device(256);
  ps::Workspace<ps::CudaDevice> workspace{gpu, out_bytes};
};

/// CUB asks how much it needs, and is then given all there is.
template <class F> void by_cub(const Memory& memory, F call) {
  std::size_t bytes = 0;
  check(call(nullptr, bytes), "CUB's question");
  if (bytes > out_bytes) {
    throw std::runtime_error{"CUB needs " + std::to_string(bytes) + " bytes"};
  }
  check(call(memory.scratch_bytes.get(), bytes), "CUB");
}

class Calls : public Contender {
 public:
  Calls(Memory& memory, std::function<void()> call) : memory_{memory}, call_{std::move(call)} {}
  std::uint64_t run() override {
    for (int i = 0; i < calls; ++i) {
      call_();
    }
    memory_.gpu.sync(memory_.stream);
    return 0;
  }

 private:
  Memory& memory_;
  std::function<void()> call_;
};

/// `bytes`: read and written by a call.
void add_call(Memory& memory, const std::string& name, std::size_t bytes,
              std::function<void()> call) {
  add(
      "algorithm/" + name, calls * bytes, [] { return std::uint64_t{0}; },
      [&memory, call = std::move(call)](bool) { return std::make_unique<Calls>(memory, call); });
}

void add_maps(Memory& m) {
  const auto* u8 = m.in_as<std::uint8_t>();
  const auto* f32 = m.in_as<float>();
  constexpr std::size_t floats = in_bytes / 4;
  add_call(m, "copy/256MiB", 2 * in_bytes, [&m] {
    check(cudaMemcpyAsync(m.out.get(), m.in.get(), in_bytes, cudaMemcpyDeviceToDevice,
                          m.stream.get()),
          "cudaMemcpyAsync");
  });
  add_call(m, "u8_to_bf16/256MiB", 3 * in_bytes,
           [&m, u8] { ps::convert(m.stream, u8, in_bytes, m.out_as<ps::BFloat16>(), 1 / 255.0F); });
  add_call(m, "u8_to_f32/256MiB", 5 * in_bytes,
           [&m, u8] { ps::convert(m.stream, u8, in_bytes, m.out_as<float>(), 1 / 255.0F); });
  add_call(m, "bf16_to_u8/256MiB", in_bytes + in_bytes / 2, [&m] {
    ps::convert(m.stream, m.in_as<const ps::BFloat16>(), in_bytes / 2, m.out_as<std::uint8_t>(),
                255.0F);
  });
  add_call(m, "square/256MiB", 2 * in_bytes,
           [&m, f32] { ps::transform(m.stream, f32, floats, m.out_as<float>(), Square{}); });
  add_call(m, "square_thrust/256MiB", 2 * in_bytes, [&m, f32] {
    thrust::transform(thrust::cuda::par_nosync.on(m.stream.get()), f32, f32 + floats,
                      m.out_as<float>(), Square{});
  });
  constexpr std::size_t pixels = in_bytes / 48 * 16;
  add_call(m, "planes_u8/256MiB", 6 * pixels,
           [&m, u8] { ps::transpose(m.stream, u8, pixels, 3, m.out_as<std::uint8_t>()); });
  add_call(m, "odd_planes_u8/256MiB", 6 * (pixels - 1),
           [&m, u8] { ps::transpose(m.stream, u8, pixels - 1, 3, m.out_as<std::uint8_t>()); });
  add_call(m, "pixels_u8/256MiB", 6 * pixels,
           [&m, u8] { ps::transpose(m.stream, u8, 3, pixels, m.out_as<std::uint8_t>()); });
  add_call(m, "planes_f32/256MiB", 2 * in_bytes,
           [&m, f32] { ps::transpose(m.stream, f32, floats / 16, 16, m.out_as<float>()); });
}

void add_selections(Memory& m) {
  const auto* u32 = m.in_as<std::uint32_t>();
  constexpr std::size_t n = in_bytes / 4;
  auto* const count = reinterpret_cast<std::uint64_t*>(m.count.get());
  add_call(m, "sums/256MiB", 3 * in_bytes, [&m, u32] {
    ps::exclusive_sum(m.stream, u32, n, m.out_as<std::uint64_t>(), m.workspace);
  });
  add_call(m, "sums_cub/256MiB", 3 * in_bytes, [&m, u32] {
    by_cub(m, [&](void* at, std::size_t& bytes) {
      return cub::DeviceScan::ExclusiveScan(at, bytes, u32, m.out_as<std::uint64_t>(),
                                            cuda::std::plus<>{}, std::uint64_t{0}, n,
                                            m.stream.get());
    });
  });
  add_call(m, "select/256MiB", in_bytes + in_bytes / 3, [&m, u32, count] {
    ps::select(m.stream, u32, n, EveryThird{}, m.out_as<std::uint32_t>(), count, m.workspace);
  });
  add_call(m, "select_cub/256MiB", in_bytes + in_bytes / 3, [&m, u32, count] {
    by_cub(m, [&](void* at, std::size_t& bytes) {
      return cub::DeviceSelect::If(at, bytes, u32, m.out_as<std::uint32_t>(), count, n,
                                   EveryThird{}, m.stream.get());
    });
  });
  constexpr std::size_t runs = 4 * MiB;
  auto* const lengths = reinterpret_cast<std::uint32_t*>(m.scratch_bytes.get() + 512 * MiB);
  ps::for_each(m.stream, runs, Lengths{lengths});
  m.gpu.sync(m.stream);
  add_call(m, "runs/64MiB", runs * (1 + 4 + 16), [&m, lengths, count] {
    ps::run_length_decode(m.stream, m.in_as<const std::uint8_t>(), lengths, runs,
                          m.out_as<std::uint8_t>(), 16 * runs, count, m.workspace);
  });
}

void add_sorts(Memory& m) {
  const auto* u32 = m.in_as<std::uint32_t>();
  const auto* f32 = m.in_as<float>();
  constexpr std::size_t keys = 16 * MiB;
  add_call(m, "sort/64MiB", 2 * 4 * keys,
           [&m, u32] { ps::sort(m.stream, u32, keys, m.out_as<std::uint32_t>(), m.workspace); });
  add_call(m, "sort_cub/64MiB", 2 * 4 * keys, [&m, u32] {
    by_cub(m, [&](void* at, std::size_t& bytes) {
      return cub::DeviceRadixSort::SortKeys(at, bytes, u32, m.out_as<std::uint32_t>(), keys, 0, 32,
                                            m.stream.get());
    });
  });
  constexpr std::size_t segments = 256;
  constexpr std::size_t width = 65536;
  for (const std::size_t k : {10, 100}) {
    add_call(m, "top_" + std::to_string(k) + "/64MiB", 4 * segments * width, [&m, f32, k] {
      ps::segmented_top_k(m.stream, f32, segments, width, k, m.out_as<float>(),
                          m.out_as<std::uint32_t>() + 64 * MiB);
    });
  }
  add_call(m, "sorted_segments_cub/64MiB", 4 * segments * width, [&m, f32] {
    const auto begins =
        thrust::make_transform_iterator(thrust::make_counting_iterator(0), SegmentBegin{});
    by_cub(m, [&](void* at, std::size_t& bytes) {
      return cub::DeviceSegmentedRadixSort::SortKeysDescending(at, bytes, f32, m.out_as<float>(),
                                                               segments * width, segments, begins,
                                                               begins + 1, 0, 32, m.stream.get());
    });
  });
}

} // namespace

int main(int argc, char** argv) {
  return program<NoOptions>(argc, argv, [](const NoOptions&) {
    Memory memory;
    const auto here = memory.gpu.attach();
    add_maps(memory);
    add_selections(memory);
    add_sorts(memory);
    return run_all();
  });
}
