// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// 09_small_batches: batches so small that starting their kernels takes longer than moving their
// bytes. Each is a millisecond of a sensor, to be summed up. The program enqueues the same functor
// batch by batch, and replayed: captured once for every place of the device's ring, and launched
// for up to 64 batches by one call, four side by side.
//
//   09_small_batches [--device auto|cuda|host]
//
// It prints the sum and how long both took; it fails if a plain loop finds another sum. nvcc
// compiles this source for both devices, any other compiler for the host device alone.

#include "support/arguments.hpp"

#include <penstock/device_array.hpp>
#include <penstock/penstock.hpp>
#include <penstock/with_device.hpp>
#if defined(__CUDACC__)
#include <penstock/cuda/algorithm.cuh>
#endif

#include <cstddef>
#include <cstdint>
#include <exception>
#include <iostream>
#include <numeric>
#include <stdexcept>
#include <vector>

namespace ps = penstock;

constexpr std::size_t samples = 4096; // in a batch: 16 KiB
constexpr std::size_t batches = 4000;
constexpr unsigned lanes = 4;

// Adds sample i to sum i of its lane, which has sums of its own: batches of one lane come one after
// the other, those of two lanes perhaps at the same time.
struct AddUp {
  const std::int32_t* in;
  std::int64_t* sums;
  PENSTOCK_HD void operator()(std::size_t i) const { sums[i] += in[i]; }
};

template <ps::AnyDevice D> void compare(D& device, const std::vector<std::int32_t>& recorded) {
  auto loose = ps::device_array<std::int64_t>(device, samples);
  auto frozen = ps::device_array<std::int64_t>(device, samples * lanes);

  auto one_by_one = ps::Reader{ps::memory(recorded), ps::to_pinned} |
                    ps::AsyncCopier{device, {.batch = samples}} |
                    ps::Consumer{[sums = loose.data()](ps::Batch<const std::int32_t, ps::Device> in,
                                                       ps::Stream<D> stream) {
                      ps::for_each(stream, in.size(), AddUp{in.data(), sums});
                    }};
  auto in_groups =
      ps::Reader{ps::memory(recorded), ps::to_pinned} |
      ps::AsyncCopier{device, {.batch = samples}} |
      ps::Consumer{ps::replayed(
          [sums = frozen.data()](ps::FrozenBatch<const std::int32_t> in, ps::Stream<D> stream) {
            ps::for_each(stream, in.size(), AddUp{in.data(), sums + in.lane() * samples});
          },
          {.lanes = lanes})};
  one_by_one.prepare();
  in_groups.prepare();

  const double seconds = one_by_one.run().seconds;
  const double replayed = in_groups.run().seconds;

  const std::int64_t wanted = std::accumulate(recorded.begin(), recorded.end(), std::int64_t{0});
  auto stream = device.stream();
  for (const auto* array : {&loose, &frozen}) {
    const std::vector<std::int64_t> sums = array->read(stream);
    if (std::accumulate(sums.begin(), sums.end(), std::int64_t{0}) != wanted) {
      throw std::runtime_error{"the sum is not that of a plain loop"};
    }
  }
  std::cout << wanted << " is the sum of " << recorded.size() << " samples\n"
            << batches << " batches one by one: " << seconds * 1e3 << " ms\n"
            << batches << " batches replayed in groups: " << replayed * 1e3 << " ms\n";
}

int main(int argc, char** argv) try {
  const Arguments args{argc, argv};
  std::vector<std::int32_t> recorded(samples * batches);
  std::uint32_t state = 1;
  for (std::int32_t& sample : recorded) {
    state = state * 1664525 + 1013904223;
    sample = static_cast<std::int32_t>(state >> 16) - 32768;
  }
  return ps::with_device(args.device, [&](auto& device) {
    const auto attached = device.attach();
    compare(device, recorded);
    return 0;
  });
} catch (const std::exception& error) {
  std::cerr << "09_small_batches: " << error.what() << '\n';
  return 1;
}
