// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Where does a loop's time go? For any program, with or without a pipeline. It needs CUPTI, which
// comes with the CUDA toolkit, and -lcupti.

#include <penstock/config.hpp>
#include <penstock/cuda/detail/current_device.hpp>
#include <penstock/cuda/error.hpp>
#include <penstock/diagnose/detail/activity_records.hpp>
#include <penstock/diagnose/detail/allocated_memory.hpp>
#include <penstock/diagnose/detail/cupti.hpp>
#include <penstock/diagnose/detail/cupti_calls.hpp>
#include <penstock/diagnose/detail/idle_sweep.hpp>
#include <penstock/diagnose/detail/watch_sums.hpp>
#include <penstock/diagnose/gpu_watch_summary.hpp>
#include <penstock/diagnose/watch_text.hpp>
#include <penstock/machine/detail/control_groups.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <limits>
#include <mutex>
#include <string>
#include <system_error>
#include <utility>

#include <cuda_runtime_api.h>
#include <cupti.h>

namespace penstock::detail {

/// Returns what one part of the way to a device allows, in bytes a second: a bridge, or the device.
/// 0 if the files in this folder do not say.
[[gnu::cold]] inline double link_bytes_per_s(const std::string& folder) {
  const double transfers =
      std::strtod(text_of(folder + "/max_link_speed").c_str(), nullptr) * 1e9; // "16.0 GT/s PCIe"
  const double lanes = std::strtod(text_of(folder + "/max_link_width").c_str(), nullptr);
  if (transfers <= 0 || lanes < 1 || lanes > 32) { // some systems say 255 for "not known"
    return 0;
  }
  const double coded = transfers < 8e9 ? 8.0 / 10 : 128.0 / 130; // up to PCIe 2.0, and later
  return transfers * lanes * coded / 8;
}

/// Returns what copies of page-locked memory reach over PCIe, in bytes a second, by what Linux says
/// of the links of this machine's NVIDIA GPUs: of the slowest of them. 0 if it does not say. `root`
/// comes before all paths.
[[gnu::cold]] inline double pcie_bytes_per_s(const std::string& root) {
  constexpr double reached = 0.8; // headers of packets, and the wait for answers
  double least = std::numeric_limits<double>::infinity();
  std::error_code failed;
  std::filesystem::directory_iterator device{root + "/sys/bus/pci/devices", failed};
  for (; !failed && device != std::filesystem::directory_iterator{}; device.increment(failed)) {
    const std::string at = device->path().string();
    if (!text_of(at + "/vendor").starts_with("0x10de") ||
        !text_of(at + "/class").starts_with("0x03")) { // NVIDIA; what displays, or could
      continue;
    }
    // The real path goes through all bridges, of which the slowest counts.
    std::error_code unknown;
    const std::filesystem::path way = std::filesystem::canonical(device->path(), unknown);
    for (std::filesystem::path part = way; part.has_relative_path(); part = part.parent_path()) {
      if (const double link = link_bytes_per_s(part.string()); link > 0) {
        least = std::min(least, link);
      }
    }
  }
  return least < std::numeric_limits<double>::infinity() ? least * reached : 0;
}

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

namespace penstock {

/// Watches, from construction until stop(), what all threads of the process ask of CUDA and what
/// one GPU does. `std::cout << watch.stop()` prints how idle the GPU was, and what was asked of it.
///
/// If the program calls cudaProfilerStart(), only what lies between that and cudaProfilerStop()
/// counts. A Watch makes each call of CUDA slower by a microsecond or so. It sums up as it goes,
/// and takes less than 100 MB of memory, however long it lasts. Only one may be at work, and no
/// GpuActivity, GpuObserver or other profiler in the process. Calls throw CudaError, CuptiError or
/// Error. For one thread at a time.
class Watch {
 public:
  /// Watches GPU `device`, as CUDA numbers them. Waits for nothing: earlier work must be done, or
  /// it is in the recording.
  explicit Watch(int device = 0) {
    // Throws if there is none of that number. What attaching alone sets up may not stay so.
    detail::cuda_check(cudaInitDevice(device, 0, 0), "cudaInitDevice");
    const detail::AttachedDevice here{device};
    std::size_t free = 0;
    std::size_t all = 0;
    detail::cuda_check(cudaMemGetInfo(&free, &all), "cudaMemGetInfo");
    memory_ = all;
    bytes_per_s_ = memory_bytes_per_s(device);
    detail::WatchLog::only().start(static_cast<std::uint32_t>(device));
    detail::WatchLog::only().had_device_memory(all - free);
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  /// Does what stop() does, and never throws.
  ~Watch() {
    try {
      stop();
    } catch (const std::exception&) { // nobody asked for what is lost
    }
  }

  /// Ends the watch and sums it up; a second call returns the same. Does not wait for the GPU: wait
  /// for your streams first.
  const WatchSummary& stop() {
    if (watching_) {
      watching_ = false;
      summary_ = detail::WatchLog::only().stop();
      summary_.device_memory = memory_;
      summary_.memory_bytes_per_s = bytes_per_s_;
    }
    return summary_;
  }

 private:
  /// What the memory can do by its clock and width: two transfers a cycle.
  static double memory_bytes_per_s(int device) {
    int khz = 0;
    int bits = 0;
    detail::cuda_check(cudaDeviceGetAttribute(&khz, cudaDevAttrMemoryClockRate, device),
                       "cudaDeviceGetAttribute");
    detail::cuda_check(cudaDeviceGetAttribute(&bits, cudaDevAttrGlobalMemoryBusWidth, device),
                       "cudaDeviceGetAttribute");
    return 2e3 * khz * bits / 8;
  }

  std::uint64_t memory_{};
  double bytes_per_s_{};
  bool watching_{true};
  WatchSummary summary_;
};

/// Calls f() under a Watch of GPU `device` and returns its summary. f() must wait for the work that
/// it enqueues.
template <class F> WatchSummary watch(F&& f, int device = 0) {
  Watch watch{device};
  std::forward<F>(f)();
  return watch.stop();
}

} // namespace penstock
