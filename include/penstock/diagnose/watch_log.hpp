// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/diagnose/detail/activity_records.hpp>
#include <penstock/diagnose/detail/allocated_memory.hpp>
#include <penstock/diagnose/detail/cupti.hpp>
#include <penstock/diagnose/detail/cupti_calls.hpp>
#include <penstock/diagnose/detail/idle_sweep.hpp>
#include <penstock/diagnose/detail/process_use.hpp>
#include <penstock/diagnose/detail/watch_sums.hpp>
#include <penstock/diagnose/gpu_watch_summary.hpp>
#include <penstock/diagnose/pcie_link.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <utility>

#include <cupti.h>

namespace penstock::detail {

/// Records all that a WatchSummary is made of: the process's calls of CUDA, and what the GPU does.
/// Calls of start() and stop() are for one thread at a time.
class WatchLog final : public CallListener {
 public:
  /// Returns the one log. It is never destroyed.
  static WatchLog& only() {
    static WatchLog& log = *new WatchLog;
    return log;
  }

  /// Begins to record `device`, or any. Throws CuptiError, Error or std::bad_alloc, and then
  /// records nothing.
  void start(std::uint32_t device) {
    CallSubscription::only().start(*this); // throws if this log is at work, which then goes on
    try {
      ActivityLog::only().start(device, true);
      try {
        const double link = pcie_bytes_per_s("");
        const std::lock_guard lock{mutex_};
        memory_ = {};
        bracketed_ = false;
        link_bytes_per_s_ = link;
        sums_ = {};
        begin_time(true);
      } catch (...) {
        CUptiResult ignored = CUPTI_SUCCESS;
        ActivityLog::only().stop(ignored);
        throw;
      }
    } catch (...) {
      CallSubscription::only().stop();
      throw;
    }
  }
  /// Ends the recording, whose GPU must be done with its work, and sums it up.
  WatchSummary stop() {
    const CallSubscription::Deaf while_it_sums;
    end_time();
    const ProcessUse use = ProcessUse::now();
    CallSubscription::only().stop();
    CUptiResult flushed = CUPTI_SUCCESS;
    ActivityRecords records = ActivityLog::only().stop(flushed);
    std::unique_lock lock{mutex_};
    WatchSums sums = std::exchange(sums_, {});
    WatchSummary sum = of_memory();
    lock.unlock();
    sums.timeline.add(records.intervals);
    sums.finish(sum, use, records);
    return sum;
  }
  /// Sums up what has been recorded so far, but for what CUPTI has not handed over yet.
  WatchSummary so_far() {
    ActivityLog::flush();
    const CallSubscription::Deaf while_it_sums;
    const ProcessUse use = ProcessUse::now();
    std::unique_lock lock{mutex_};
    take_activity();
    ActivityRecords records = ActivityLog::only().so_far();
    WatchSums sums = sums_; // so that nobody waits while it is summed up
    if (watching_) {
      sums.timeline.end_time(timestamp());
    }
    WatchSummary sum = of_memory();
    lock.unlock();
    sums.finish(sum, use, records);
    return sum;
  }

  // cudaProfilerStart() forgets what came before the first one, and cudaProfilerStop() ends what
  // counts, until the next one: as other tools do it.
  void enter(const SeenCall&) noexcept override { began = timestamp(); }
  void leave(const SeenCall& call) noexcept override {
    const std::uint64_t ended = timestamp();
    if (call.domain == CUPTI_CB_DOMAIN_RUNTIME_API
            ? call.id == CUPTI_RUNTIME_TRACE_CBID_cudaProfilerStart_v4000
            : call.id == CUPTI_DRIVER_TRACE_CBID_cuProfilerStart) {
      return begin_bracket();
    }
    if (call.domain == CUPTI_CB_DOMAIN_RUNTIME_API
            ? call.id == CUPTI_RUNTIME_TRACE_CBID_cudaProfilerStop_v4000
            : call.id == CUPTI_DRIVER_TRACE_CBID_cuProfilerStop) {
      return end_time();
    }
    const std::lock_guard lock{mutex_};
    try {
      if (call.kind == CudaCall::allocation || call.kind == CudaCall::page_lock ||
          call.kind == CudaCall::release) {
        memory_.add(call);
      }
      if (!watching_) {
        return;
      }
      const double seconds = static_cast<double>(ended - began) / 1e9;
      sums_.add(call, seconds);
      sums_.timeline.add(CallSpan{began, ended, call.kind});
      if (ActivityLog::only().kept() >= many_intervals || sums_.timeline.is_full()) {
        take_activity();
      }
    } catch (const std::exception&) { // no memory: what is lost counts as idle time elsewhere
    }
  }

  /// How much device memory the process had when the recording began.
  void had_device_memory(std::uint64_t bytes) {
    const std::lock_guard lock{mutex_};
    memory_.device_bytes = bytes;
    memory_.device_most = bytes;
  }

 private:
  inline static constinit thread_local std::uint64_t began = 0;

  // What CUPTI may have handed over before somebody takes it.
  static constexpr std::size_t many_intervals = 8192;

  WatchLog() = default;

  static std::uint64_t timestamp() noexcept {
    std::uint64_t ns = 0;
    cuptiGetTimestamp(&ns);
    return ns;
  }
  // These three with the lock.
  void begin_time(bool first) {
    const std::uint64_t now = timestamp();
    ActivityLog::only().begin_time(now, first);
    sums_.timeline.begin_time(now);
    watching_ = true;
  }
  void take_activity() {
    sums_.timeline.add(ActivityLog::only().take());
    if (sums_.timeline.is_full()) {
      sums_.timeline.settle();
    }
  }
  WatchSummary of_memory() const {
    WatchSummary sum;
    sum.page_locked = memory_.page_locked;
    sum.device_bytes = memory_.device_most;
    sum.link_bytes_per_s = link_bytes_per_s_;
    return sum;
  }

  void begin_bracket() noexcept {
    const std::lock_guard lock{mutex_};
    try {
      const bool first = !std::exchange(bracketed_, true);
      if (first) {
        sums_ = {};
        memory_.page_locked = 0;
        memory_.device_most = memory_.device_bytes;
      }
      if (first || !watching_) {
        begin_time(first);
      }
    } catch (const std::exception&) { // no memory for it: not watched
      watching_ = false;
    }
  }
  void end_time() noexcept {
    const std::lock_guard lock{mutex_};
    if (std::exchange(watching_, false)) {
      const std::uint64_t now = timestamp();
      sums_.timeline.end_time(now);
      ActivityLog::only().end_time(now);
    }
  }

  std::mutex mutex_;
  WatchSums sums_;
  AllocatedMemory memory_;
  double link_bytes_per_s_{};
  bool watching_{false};
  bool bracketed_{false};
};

} // namespace penstock::detail
