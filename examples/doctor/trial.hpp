// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../support/link.hpp"
#include "data.hpp"
#include "disk.hpp"
#include "prospect.hpp"
#include "reading.hpp"
#include "timing.hpp"

#include <penstock/callables/replayed.hpp>
#include <penstock/diagnose/host_observer.hpp>
#include <penstock/formats/files.hpp>
#include <penstock/penstock.hpp>
#include <penstock/sources/slice.hpp>
#if defined(__CUDACC__)
#include <penstock/cuda/algorithm.cuh>
#endif

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace doctor {

/// Takes `seconds`, and for nearly all of them no processor, as of a program whose GPU is at work.
inline void pass(double seconds) {
  constexpr std::chrono::microseconds late{100}; // who sleeps wakes up that much too late
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(seconds));
  if (seconds > 0) {
    std::this_thread::sleep_until(end - late);
    while (Clock::now() < end) {
    }
  }
}

/// Enqueues what takes `seconds` on the device, as kernels do.
inline void compute(penstock::HostStream& stream, double seconds) {
  stream.enqueue([seconds] { pass(seconds); });
}
#if defined(__CUDACC__)
/// For ps::for_each: keeps the GPU busy for so long, by its own clock.
struct Spin {
  unsigned long long nanoseconds;
  __device__ void operator()(std::size_t) const {
    const unsigned long long begin = now();
    while (now() - begin < nanoseconds) {
    }
  }
  __device__ static unsigned long long now() {
    unsigned long long time = 0;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
    return time;
  }
};
inline void compute(cudaStream_t stream, double seconds) {
  penstock::for_each(stream, 1, Spin{static_cast<unsigned long long>(std::llround(seconds * 1e9))});
}
#endif

/// The options of a pipeline that a trial tries; 0: penstock's default.
struct Settings {
  unsigned workers = 0;
  std::size_t depth = 0;
  std::size_t batch_bytes = 0;
  bool replayed = false; ///< The kernels of many batches are launched by one call.

  friend bool operator==(const Settings&, const Settings&) = default;
};

/// About how many batches a trial has: enough for a second of the lowest limit, but at least six,
/// and not so many that to hand them on takes seconds.
inline std::uint64_t batches_of_a_trial(const Limits& limits, const Workload& work) {
  const std::vector<Bound> all = bounds(limits, work);
  const double gb_per_s = all.empty() ? 1 : all.front().gb_per_s;
  return std::clamp<std::uint64_t>(
      static_cast<std::uint64_t>(gb_per_s * 1e9 / static_cast<double>(work.batch_bytes)), 6,
      100'000);
}

/// Runs Reader | AsyncCopier | Consumer over a source and returns what it says of itself.
template <penstock::AnyDevice D, class Source>
penstock::Report run_over(D& device, Source source, std::size_t batch, std::uint64_t epochs,
                          const Workload& work, const Settings& settings) {
  namespace ps = penstock;
  using T = typename Source::schema;
  constexpr double most_seconds = 8;
  const auto run = [&](auto consumer) {
    auto pipeline =
        ps::Reader{std::move(source),
                   ps::to_pinned,
                   {.workers = settings.workers, .depth = settings.depth, .epochs = epochs}} |
        ps::AsyncCopier{device, {.batch = batch}} | std::move(consumer);
    pipeline.prepare();
    ps::HostObserver observer; // processor time that others took would be blamed on a stage
    const auto once = [&] {
      return pipeline.run({.progress =
                               [&pipeline](const ps::Report& now) {
                                 if (now.seconds > most_seconds) {
                                   pipeline.stop();
                                 }
                               },
                           .observe = &observer});
    };
    ps::Report report = once();
    // The first run has warmed up; what is read from the disk has no second first time.
    if (!work.from_disk && report.seconds < 2) {
      report = once();
    }
    // The sample is read again only to measure: this says nothing of the user's epochs.
    report.epochs = 1;
    return report;
  };
  const double seconds = work.kernel_s;
  // A Ragged column's batches are slots, which lie anywhere: nothing to replay.
  if constexpr (std::is_same_v<T, std::byte>) {
    if (settings.replayed) {
      return run(
          ps::Consumer{ps::replayed([seconds](ps::FrozenBatch<const T>, ps::Stream<D> stream) {
            compute(stream, seconds);
          })});
    }
  }
  return run(ps::Consumer{[seconds](ps::Batch<const T, ps::Device>, ps::Stream<D> stream) {
    compute(stream, seconds);
  }});
}

/// Measures how many batches a second a pipeline hands on, each of one byte that lies in memory.
template <penstock::AnyDevice D> void measure_each_batch(D& device, Limits& limits) {
  const std::vector<std::byte> bytes(30'000);
  const Workload work{.batch_bytes = 1,
                      .kernel_s = 0,
                      .from_disk = false,
                      .data_bytes = bytes.size(),
                      .asked_bytes = 1};
  const penstock::Report report = run_over(device, penstock::memory(bytes), 1, 1, work, {});
  limits.add("pipeline_batches_per_s", static_cast<double>(report.records) / report.seconds);
}

/// Runs a pipeline over the sample: small files each as a record, others as bytes.
template <penstock::AnyDevice D>
penstock::Report run_pipeline(D& device, const Data& data, const Limits& limits,
                              const Workload& work, const Settings& settings) {
  namespace ps = penstock;
  if (work.from_disk) {
    drop_from_cache(data);
  }
  const std::uint64_t there = data.bytes_of(data.used);
  const std::uint64_t wanted = batches_of_a_trial(limits, work) * work.batch_bytes;
  const std::uint64_t bytes = std::min(wanted, there);
  const std::uint64_t epochs = work.from_disk ? 1 : (wanted - 1) / bytes + 1;
  if (!data.small_files) {
    return run_over(device, ps::take(ps::records<std::byte>(data.files_of(data.used)), bytes),
                    work.batch_bytes, epochs, work, settings);
  }
  const std::vector<std::string> paths = data.files_of(data.used);
  const std::uint64_t mean = std::max<std::uint64_t>(there / paths.size(), 1);
  const std::uint64_t files = std::clamp<std::uint64_t>(bytes / mean, 1, paths.size());
  return run_over(device, ps::take(ps::files(paths), files),
                  std::max<std::size_t>(work.batch_bytes / mean, 1), epochs, work, settings);
}

/// Measures the loop that a pipeline replaces: read a batch, copy it from pageable memory, compute,
/// wait. Returns GB/s. From the disk it reads the sample once at most.
template <penstock::AnyDevice D>
double run_plain_loop(D& device, const Data& data, const Workload& work) {
  if (work.from_disk) {
    drop_from_cache(data);
  }
  const Bytes host = make_bytes(work.batch_bytes);
  std::memset(host.get(), 1, work.batch_bytes);
  const DeviceMemory<D> batch{device, work.batch_bytes, false};
  auto stream = device.stream();
  OpenFile file;
  std::size_t number = 0; // of the piece
  std::size_t at = 0;     // in it
  bool through = false;
  const auto fill = [&] {
    for (std::size_t filled = 0; filled < work.batch_bytes;) {
      const Piece& piece = data.pieces[number];
      if (at == 0 && (piece.offset == 0 || file.number() < 0)) {
        file.open(data.paths[piece.file]);
      }
      const std::size_t some = std::min(piece.bytes - at, work.batch_bytes - filled);
      file.read(data.paths[piece.file], piece.offset + at, {host.get() + filled, some});
      filled += some;
      at += some;
      if (at == piece.bytes) {
        at = 0;
        number = (number + 1) % data.used;
        through = through || number == 0;
      }
    }
  };
  // The first batch warms up.
  Clock::time_point begin;
  std::uint64_t batches = 0;
  const auto enough = [&] {
    return (batches >= 4 && seconds_since(begin) >= 1) ||
           (batches >= 2 && work.from_disk && through);
  };
  for (; !enough(); ++batches) {
    fill();
    device.copy_to_device(batch.at, host.get(), work.batch_bytes, stream);
    compute(stream, work.kernel_s);
    device.sync(stream);
    if (batches == 0) {
      begin = Clock::now();
    }
  }
  return static_cast<double>((batches - 1) * work.batch_bytes) / seconds_since(begin) / 1e9;
}

} // namespace doctor
