// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/cuda/detail/allocated_memory.hpp>
#include <penstock/cuda/detail/cupti.hpp>
#include <penstock/cuda/detail/cupti_calls.hpp>
#include <penstock/cuda/detail/watch_timeline.hpp>
#include <penstock/detail/observe/process_use.hpp>
#include <penstock/gpu_watch_summary.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

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

  /// Begins to record `device`, or any. Throws CuptiError or Error.
  void start(std::uint32_t device) {
    {
      const std::lock_guard lock{mutex_};
      functions_ = {};
      calls_.clear();
      memory_ = {};
      times_.clear();
      bracketed_ = false;
    }
    CallSubscription::only().start(*this);
    try {
      ActivityLog::only().start(device, true);
    } catch (...) {
      CallSubscription::only().stop();
      throw;
    }
    use_ = ProcessUse::now();
    begin_time();
  }
  /// Ends the recording, whose GPU must be done with its work, and sums it up.
  WatchSummary stop() {
    end_time();
    const ProcessUse use = ProcessUse::now();
    CallSubscription::only().stop();
    CUptiResult flushed = CUPTI_SUCCESS;
    ActivityRecords records = ActivityLog::only().stop(flushed);
    return Sum{*this, use}(records);
  }
  /// Sums up what has been recorded so far, but for what CUPTI has not handed over yet.
  WatchSummary so_far() {
    const Sum sum{*this, ProcessUse::now()};
    ActivityRecords records = ActivityLog::only().so_far();
    return sum(records);
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
      WatchedCalls& function =
          functions_[call.domain == CUPTI_CB_DOMAIN_DRIVER_API ? 1 : 0][call.id];
      ++function.calls;
      function.seconds += static_cast<double>(ended - began) / 1e9;
      calls_.push_back({began, ended, call.kind});
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

  WatchLog() = default;

  static std::uint64_t timestamp() noexcept {
    std::uint64_t ns = 0;
    cuptiGetTimestamp(&ns);
    return ns;
  }
  void begin_time() {
    const std::lock_guard lock{mutex_};
    times_.push_back({timestamp(), 0});
    watching_ = true;
  }
  void begin_bracket() noexcept {
    const std::lock_guard lock{mutex_};
    if (!std::exchange(bracketed_, true)) {
      functions_ = {};
      calls_.clear();
      times_.clear();
      memory_.page_locked = 0;
      memory_.device_most = memory_.device_bytes;
      use_ = ProcessUse::now();
    } else if (watching_) {
      return;
    }
    try {
      const std::uint64_t now = timestamp();
      if (times_.empty()) {
        ActivityLog::only().forget_before(now);
      }
      times_.push_back({now, 0});
      watching_ = true;
    } catch (const std::exception&) { // no memory for it: not watched
    }
  }
  void end_time() noexcept {
    const std::lock_guard lock{mutex_};
    if (std::exchange(watching_, false)) {
      times_.back().end = timestamp();
      if (bracketed_) {
        ActivityLog::only().end_at(times_.back().end);
      }
    }
  }

  using Functions = std::array<std::array<WatchedCalls, CallSubscription::most_ids>, 2>;

  /// Sums up a copy of what was recorded, so that nobody waits for it.
  class Sum {
   public:
    Sum(WatchLog& log, const ProcessUse& use) : use_{use} {
      const std::lock_guard lock{log.mutex_};
      functions_ = log.functions_;
      calls_.assign(log.calls_.begin(), log.calls_.end());
      times_ = log.times_;
      if (log.watching_) {
        times_.back().end = timestamp();
      }
      use_.cpu_s -= log.use_.cpu_s;
      page_locked_ = log.memory_.page_locked;
      device_most_ = log.memory_.device_most;
    }
    WatchSummary operator()(ActivityRecords& records) const {
      WatchSummary sum;
      sum.gpu.dropped = records.dropped;
      add_activity(sum, records.intervals, times_);
      sum.idle = IdleSweep::over(times_, records.intervals, calls_);
      for (const CUpti_CallbackDomain domain :
           {CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_CB_DOMAIN_DRIVER_API}) {
        for (std::uint32_t id = 0; id != CallSubscription::most_ids; ++id) {
          const WatchedCalls& calls = functions_[domain == CUPTI_CB_DOMAIN_DRIVER_API ? 1 : 0][id];
          if (calls.calls != 0) {
            add_function(sum, CallSubscription::name_of(domain, id), calls);
          }
        }
      }
      for (auto& [name, kernel] : records.kernels) {
        kernel.sum.sizes = kernel.sizes.size();
        sum.kernels.push_back(std::move(kernel.sum));
      }
      std::ranges::stable_sort(sum.functions, [](const auto& a, const auto& b) {
        return a.calls.seconds > b.calls.seconds;
      });
      std::ranges::stable_sort(sum.kernels,
                               [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
      sum.page_locked = page_locked_;
      sum.device_bytes = device_most_;
      sum.device_memory = records.device_memory;
      sum.memory_bytes_per_s = records.memory_bytes_per_s;
      sum.host_peak_bytes = use_.peak_bytes;
      sum.cpu_s = use_.cpu_s;
      sum.processors = use_.processors;
      return sum;
    }

   private:
    static void add_function(WatchSummary& sum, const char* name, const WatchedCalls& calls) {
      const std::string plain{plain_name(name)};
      const auto same = std::ranges::find(sum.functions, plain, &WatchedFunction::name);
      WatchedFunction& function = same != sum.functions.end()
                                      ? *same
                                      : sum.functions.emplace_back(WatchedFunction{plain, {}});
      const auto add = [&](WatchedCalls& to) {
        to.calls += calls.calls;
        to.seconds += calls.seconds;
      };
      add(function.calls);
      switch (cuda_call(name)) {
      case CudaCall::launch:
        return add(sum.launches);
      case CudaCall::wait:
        return add(sum.waits);
      case CudaCall::page_lock:
        add(sum.page_locks);
        return add(sum.allocations);
      case CudaCall::allocation:
        return add(sum.allocations);
      case CudaCall::release:
        return add(sum.releases);
      case CudaCall::copy:
        return add(sum.copies);
      case CudaCall::other:
        return;
      }
    }

    Functions functions_;
    std::vector<CallSpan> calls_;
    std::vector<WatchedTime> times_;
    ProcessUse use_;
    std::uint64_t page_locked_{};
    std::uint64_t device_most_{};
  };

  std::mutex mutex_;
  Functions functions_{};
  std::deque<CallSpan> calls_; // which moves nothing when it grows
  AllocatedMemory memory_;
  std::vector<WatchedTime> times_;
  bool watching_{false};
  bool bracketed_{false};
  ProcessUse use_;
};

} // namespace penstock::detail
