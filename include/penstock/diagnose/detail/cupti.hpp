// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/diagnose/detail/activity_intervals.hpp>
#include <penstock/diagnose/detail/activity_records.hpp>
#include <penstock/diagnose/detail/cupti_calls.hpp>
#include <penstock/error.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <utility>
#include <vector>

#include <cupti.h>

namespace penstock::detail {

/// The log that CUPTI's callbacks, which get no argument of ours, write to. They come on CUPTI's
/// thread and on threads that call CUDA.
class ActivityLog {
  template <class T> using Atomic = StdAtomics::Atomic<T>;
  static constexpr auto relaxed = StdAtomics::relaxed;

 public:
  static constexpr std::array kinds{CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                    CUPTI_ACTIVITY_KIND_MEMSET, CUPTI_ACTIVITY_KIND_MEMCPY,
                                    CUPTI_ACTIVITY_KIND_MEMCPY2};

  /// What was recorded.
  using Records = ActivityRecords;

  /// Returns the one log. It is never destroyed: CUPTI may still call while the process ends.
  static ActivityLog& only() {
    static ActivityLog& log = *new ActivityLog;
    return log;
  }

  /// Begins to record. `by_name`: kernels by their names too, and what the GPU is.
  void start(std::uint32_t device, bool by_name = false) {
    {
      const std::lock_guard lock{mutex_};
      if (recording_) {
        throw Error{"penstock: GpuActivity: another one is recording, and CUPTI can record once a "
                    "process: stop() that one first."};
      }
      records_ = Records{device, by_name};
      recording_ = true;
      kept_.store(0, relaxed);
    }
    try {
      cupti_check(cuptiActivityRegisterCallbacks(buffer_requested, buffer_completed),
                  "cuptiActivityRegisterCallbacks");
      if (by_name) {
        cupti_check(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_DEVICE), "cuptiActivityEnable");
      }
      for (const CUpti_ActivityKind kind : kinds) {
        cupti_check(cuptiActivityEnable(kind), "cuptiActivityEnable");
      }
    } catch (...) {
      end();
      throw;
    }
  }
  /// Counts what begins from then on. `first`: and nothing else.
  void begin_time(std::uint64_t at, bool first) {
    const std::lock_guard lock{mutex_};
    if (first) {
      records_.forget();
      kept_.store(0, relaxed);
    }
    records_.begin_time(at);
  }
  /// Passes over what begins later.
  void end_time(std::uint64_t at) noexcept {
    const std::lock_guard lock{mutex_};
    records_.end_time(at);
  }
  /// How many intervals are here.
  std::size_t kept() const noexcept { return kept_.load(relaxed); }
  /// Gives them away.
  std::vector<GpuInterval> take() {
    const std::lock_guard lock{mutex_};
    kept_.store(0, relaxed);
    return std::exchange(records_.intervals, {});
  }
  /// Has CUPTI hand over what it has. Not while it calls.
  static void flush() noexcept { cuptiActivityFlushAll(0); }
  /// Returns what CUPTI has handed over so far.
  Records so_far() const {
    const std::lock_guard lock{mutex_};
    return records_;
  }
  /// Ends the recording and returns it, sorted by begin; the GPU must be done with its work.
  /// `status` says whether all of it is there.
  Records stop(CUptiResult& status) {
    end();
    // By force: a buffer with a record that never ends would not come otherwise.
    status = cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    const std::lock_guard lock{mutex_};
    Records all = std::exchange(records_, {});
    all.sort();
    return all;
  }

 private:
  // A buffer comes when all of its records are complete: the smaller it is, the less is on the way.
  static constexpr std::size_t buffer_bytes = std::size_t{1} << 20;

  void end() noexcept {
    for (const CUpti_ActivityKind kind : kinds) {
      cuptiActivityDisable(kind);
    }
    cuptiActivityDisable(CUPTI_ACTIVITY_KIND_DEVICE);
    const std::lock_guard lock{mutex_};
    recording_ = false;
  }

  static void CUPTIAPI buffer_requested(std::uint8_t** buffer, std::size_t* bytes,
                                        std::size_t* most_records) {
    // malloc aligns to more than CUPTI asks for. Without a buffer CUPTI drops records, and counts
    // them.
    *buffer = static_cast<std::uint8_t*>(std::malloc(buffer_bytes));
    *bytes = *buffer != nullptr ? buffer_bytes : 0;
    *most_records = 0;
  }
  static void CUPTIAPI buffer_completed(CUcontext context, std::uint32_t stream,
                                        std::uint8_t* buffer, std::size_t, std::size_t valid) {
    ActivityLog& log = only();
    {
      // An operator new of the program's may call CUDA, and a listener to that come back here.
      const CallSubscription::Deaf while_it_reads;
      const std::lock_guard lock{log.mutex_};
      CUpti_Activity* record = nullptr;
      while (valid != 0 && cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
        log.records_.add(*record);
      }
      log.kept_.store(log.records_.intervals.size(), relaxed);
      std::size_t dropped = 0;
      if (cuptiActivityGetNumDroppedRecords(context, stream, &dropped) == CUPTI_SUCCESS) {
        log.records_.dropped += dropped;
      }
    }
    std::free(buffer);
  }

  mutable std::mutex mutex_;
  bool recording_{false};
  Records records_;
  Atomic<std::size_t> kept_{0};
};

} // namespace penstock::detail
