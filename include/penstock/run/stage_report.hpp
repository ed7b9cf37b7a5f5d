// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/data/memory.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

namespace penstock {

/// What a stage's callable, or the body of your loop, asked of a device on the thread that calls
/// it: on a HostDevice always, on a GPU if GpuObserver looked on. Seconds are those that the calls
/// kept the thread, of all workers together.
struct DeviceCalls {
  std::uint64_t launches{};        ///< Kernels and graphs launched, or work enqueued.
  std::uint64_t waits{};           ///< Waits for a stream, an event or the device.
  std::uint64_t allocations{};     ///< Memory allocated or given back, page-locked or not.
  std::uint64_t copies{};          ///< Copies and fills.
  std::uint64_t pageable_copies{}; ///< Those of them from or to pageable memory.
  std::uint64_t pageable_bytes{};  ///< Bytes of those.
  double launch_s{};               ///< Seconds in launches.
  double wait_s{};                 ///< Seconds in waits.
  double allocation_s{};           ///< Seconds in allocations.
  double copy_s{};                 ///< Seconds in copies.
};

/// What a stage is for. A `loop` is yours, in place of a last stage; `fan_out` hands a FanOut's
/// slots on to its devices, `tee` those of a tee() on to its branches; `other` is a stage of yours.
enum class StageKind : std::uint8_t {
  reader,
  decoder,
  stager,
  copy_to_device,
  kernel,
  copy_to_host,
  consumer,
  writer,
  loop,
  fan_out,
  tee,
  other
};

/// What one stage did in a run. Times are seconds of one worker, the mean over its workers: busy,
/// starved (waiting for input) and blocked (waiting for room) make up the run. The thread that
/// polls the fences of a stage on the GPU measures it, to within some microseconds.
struct StageReport {
  std::string name;        ///< Such as "Reader" or "Decoder 2".
  StageKind kind{};        ///< What it is for.
  unsigned workers{};      ///< How many threads.
  std::uint64_t records{}; ///< Records that it has passed on.
  std::uint64_t bytes{};   ///< Bytes of those records.
  double busy_s{};         ///< Seconds at work.
  double starved_s{};      ///< Seconds without anything to work on.
  double blocked_s{};      ///< Seconds without room for its output.
  /// Of those seconds at work, the ones in which the last stage waited for input. A stage that was
  /// busy in most of Report::waited_s is the one that was waited for.
  double busy_in_waits_s{};
  double starved_in_waits_s{}; ///< Likewise of starved_s.
  double blocked_in_waits_s{}; ///< Likewise of blocked_s.
  /// How many units its workers did. A unit is what a worker does at a time: a slot, a share of
  /// one, or the body of your loop; waits in its middle take none of its time. Of a stage that
  /// enqueues work on a device, how often its callable was called, or captured work replayed. Of
  /// many short units some are counted for several. 0 for an AsyncCopier.
  std::uint64_t units{};
  /// Workers that did at least one unit.
  unsigned workers_used{};
  /// Seconds that half of its units took at most, to within an eighth; 0 for what a GPU does.
  double unit_p50_s{};
  /// Seconds that 99 of a hundred units took at most.
  double unit_p99_s{};
  /// Seconds that the thread which calls a callable spent in it, or in the body of your loop, where
  /// that enqueues work on a device: busy_s is the device's time. Else 0.
  double calling_s{};
  /// Of a last stage that does so: seconds in which the device worked on a batch all of whose work
  /// was enqueued. Near the run's length, the device binds, however long calls keep the thread.
  double queued_s{};
  /// What it asked of a device meanwhile.
  DeviceCalls calls{};
  unsigned busy_now{};    ///< In a run going on: how many workers are at work now.
  unsigned starved_now{}; ///< In a run going on: how many workers wait for input now.
  unsigned blocked_now{}; ///< In a run going on: how many workers wait for room now.
  /// CPU seconds of its threads per second of the run, known at the end of the run: 1 is one core
  /// kept busy.
  double cpu_share{};
  /// Slots in the ring that it fills; 0 for a last stage, which fills none.
  std::size_t depth{};
  /// How many of those slots were in use, on average, when one was added.
  double depth_in_use{};
  /// Bytes of a full slot, or batch, of that ring; of a last stage, of what it is given.
  std::size_t slot_bytes{};
  /// Bytes of memory that the ring has; 0 if it shares the memory of the ring before.
  std::uint64_t ring_bytes{};
  /// Which memory that is.
  MemoryKind ring_memory{};
  /// Records left out because they failed.
  std::uint64_t skipped{};
  /// Tries made again after a failure.
  std::uint64_t retries{};
  /// What the stage decided differently from what you asked or from the usual, and what else is to
  /// be known of its run, such as damaged pictures that it kept; else empty.
  std::string note;
  /// Its branch behind a tee(): "2" in the second, "2.1" in the first of that; else empty.
  std::string branch{};
};

} // namespace penstock
