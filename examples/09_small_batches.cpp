// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// 09_small_batches: batches so small that starting their kernels takes longer than moving their
// bytes. Each is a millisecond of a sensor, to be summed up. The program enqueues the same work
// batch by batch, and replayed: captured once for every place of the device's ring, and launched
// for up to 64 batches by one call, four side by side. Its scratch memory comes from a ps::Scratch,
// which has a part for each of the four.
//
//   09_small_batches [--device auto|cuda|host]
//
// It prints the sum and how long both took; it fails if a plain loop finds another sum. nvcc
// compiles this source for both devices, any other compiler for the host device alone.

#include "support/arguments.hpp"

#include <penstock/callables/scratch.hpp>
#include <penstock/device/device_array.hpp>
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

struct Plus {
  PENSTOCK_HD std::int64_t operator()(std::int64_t a, std::int64_t b) const { return a + b; }
};
/// For ps::for_each: adds a batch's sum to the total.
struct AddTo {
  const std::int64_t* sum;
  std::int64_t* total;
  PENSTOCK_HD void operator()(std::size_t) const { *total += *sum; }
};

/// What is done with a batch. A stream works in order, so the frame's memory is free for what the
/// stream is given next, although nothing has run when the frame dies.
template <ps::AnyDevice D, class Batch>
void add_up(const Batch& in, std::int64_t* total, ps::Scratch<D>& scratch, ps::Stream<D> stream) {
  auto frame = scratch.on(stream);
  auto* const sum = frame.template take<std::int64_t>(1);
  auto workspace = frame.workspace();
  ps::reduce(stream, in.data(), in.size(), sum, std::int64_t{0}, Plus{}, workspace);
  ps::for_each(stream, 1, AddTo{sum, total});
}

template <ps::AnyDevice D> void compare(D& device, const std::vector<std::int32_t>& recorded) {
  auto loose = ps::device_array<std::int64_t>(device, 1);
  auto frozen = ps::device_array<std::int64_t>(device, lanes);
  // The one pipeline has a stream, the other one for each lane.
  constexpr unsigned streams = 1 + lanes;
  constexpr std::size_t part = 256 + ps::Workspace<D>::usual_bytes; // a sum and a workspace
  ps::Scratch<D> scratch{device, streams * part, {.streams = streams}};

  auto one_by_one =
      ps::Reader{ps::memory(recorded), ps::to_pinned} |
      ps::AsyncCopier{device, {.batch = samples}} |
      ps::Consumer{[&](ps::Batch<const std::int32_t, ps::Device> in, ps::Stream<D> stream) {
        add_up(in, loose.data(), scratch, stream);
      }};
  // Batches of one lane come one after the other, those of others perhaps at the same time.
  auto in_groups = ps::Reader{ps::memory(recorded), ps::to_pinned} |
                   ps::AsyncCopier{device, {.batch = samples}} |
                   ps::Consumer{ps::replayed(
                       [&](ps::FrozenBatch<const std::int32_t> in, ps::Stream<D> stream) {
                         add_up(in, frozen.data() + in.lane(), scratch, stream);
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

// prints with --device host:
//   148343426 is the sum of 16384000 samples
//   4000 batches one by one: … ms
//   4000 batches replayed in groups: … ms
