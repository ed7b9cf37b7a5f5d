// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/cuda/detail/activity_intervals.hpp>
#include <penstock/cuda/error.hpp>
#include <penstock/error.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#if !__has_include(<cupti.h>)
#error "penstock/cuda/activity.hpp needs CUPTI: install cuda-cupti-dev, or -I extras/CUPTI/include."
#include "penstock: see the error above" // no such file
#endif
#include <cupti.h>

namespace penstock {

/// A call of CUPTI failed.
class CuptiError : public DeviceError {
 public:
  /// `call` is the function's name.
  CuptiError(const std::string& what, std::string call, CUptiResult status)
      : DeviceError{what, std::move(call), static_cast<int>(status), false} {}
  /// Returns CUPTI's error.
  CUptiResult status() const noexcept { return static_cast<CUptiResult>(code()); }
};

namespace detail {

inline const char* cupti_cure(CUptiResult status) noexcept {
  switch (status) {
  case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
  case CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES:
    return "This user may not profile: run as root (a container: --cap-add=SYS_ADMIN), or load the "
           "driver with NVreg_RestrictProfilingToAdminUsers=0.";
  case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
  case CUPTI_ERROR_HARDWARE_BUSY:
    return "Another profiler is at work in this process (Nsight, a debugger, a framework's): run "
           "without it.";
  default:
    return "libcupti.so must be the one of the CUDA that this was compiled with, the driver no "
           "older, and the GPU one that may be traced.";
  }
}

/// Checks the status of a call of CUPTI: throws CuptiError unless it is CUPTI_SUCCESS.
inline void cupti_check(CUptiResult status, const char* call) {
  if (status != CUPTI_SUCCESS) {
    const char* name = nullptr;
    if (cuptiGetResultString(status, &name) != CUPTI_SUCCESS || name == nullptr) {
      name = "an error without a name";
    }
    throw CuptiError{std::string{"penstock: "} + call + " failed: " + name + " (" +
                         std::to_string(static_cast<int>(status)) + "). " + cupti_cure(status),
                     call, status};
  }
}

/// The log that CUPTI's callbacks, which get no argument of ours, write to. They come on CUPTI's
/// thread and on threads that call CUDA.
class ActivityLog {
 public:
  static constexpr std::array kinds{CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                    CUPTI_ACTIVITY_KIND_MEMSET, CUPTI_ACTIVITY_KIND_MEMCPY,
                                    CUPTI_ACTIVITY_KIND_MEMCPY2};

  /// What was recorded.
  struct Records {
    std::vector<GpuInterval> intervals;
    std::uint64_t dropped{};
  };

  /// Returns the one log. It is never destroyed: CUPTI may still call while the process ends.
  static ActivityLog& only() {
    static ActivityLog& log = *new ActivityLog;
    return log;
  }

  void start(int device) {
    {
      const std::lock_guard lock{mutex_};
      if (recording_) {
        throw Error{"penstock: GpuActivity: another one is recording, and CUPTI can record once a "
                    "process: stop() that one first."};
      }
      recording_ = true;
      device_ = static_cast<std::uint32_t>(device);
      records_ = {};
    }
    try {
      cupti_check(cuptiActivityRegisterCallbacks(buffer_requested, buffer_completed),
                  "cuptiActivityRegisterCallbacks");
      for (const CUpti_ActivityKind kind : kinds) {
        cupti_check(cuptiActivityEnable(kind), "cuptiActivityEnable");
      }
    } catch (...) {
      end();
      throw;
    }
  }
  /// Ends the recording and returns it, sorted by begin; the GPU must be done with its work.
  /// `status` says whether all of it is there.
  Records stop(CUptiResult& status) {
    end();
    // By force: a buffer with a record that never ends would not come otherwise.
    status = cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    const std::lock_guard lock{mutex_};
    Records all = std::exchange(records_, {});
    std::sort(all.intervals.begin(), all.intervals.end(),
              [](const GpuInterval& a, const GpuInterval& b) { return a.begin < b.begin; });
    return all;
  }

 private:
  static constexpr std::size_t buffer_bytes = std::size_t{4} << 20;

  void end() noexcept {
    for (const CUpti_ActivityKind kind : kinds) {
      cuptiActivityDisable(kind);
    }
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
      const std::lock_guard lock{log.mutex_};
      CUpti_Activity* record = nullptr;
      while (valid != 0 && cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
        log.add(*record);
      }
      std::size_t dropped = 0;
      if (cuptiActivityGetNumDroppedRecords(context, stream, &dropped) == CUPTI_SUCCESS) {
        log.records_.dropped += dropped;
      }
    }
    std::free(buffer);
  }

  void add(const CUpti_Activity& record) noexcept {
    switch (record.kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      add(reinterpret_cast<const CUpti_ActivityKernel10&>(record), GpuWork::kernel, 0);
      break;
    case CUPTI_ACTIVITY_KIND_MEMSET:
      add(reinterpret_cast<const CUpti_ActivityMemset4&>(record), GpuWork::kernel, 0);
      break;
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      const auto& copy = reinterpret_cast<const CUpti_ActivityMemcpy6&>(record);
      add(copy, direction(copy.copyKind), copy.bytes);
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY2: {
      const auto& copy = reinterpret_cast<const CUpti_ActivityMemcpyPtoP4&>(record);
      add(copy, GpuWork::other_copy, copy.bytes);
      break;
    }
    default: // a kind that somebody else has enabled
      break;
    }
  }
  template <class Record>
  void add(const Record& record, GpuWork work, std::uint64_t bytes) noexcept {
    if (record.deviceId != device_) {
      return;
    }
    if (record.start == 0 || record.end == 0) { // CUPTI could not time it
      ++records_.dropped;
      return;
    }
    try {
      // The clock ticks in nanoseconds: everything takes at least one.
      records_.intervals.push_back(
          {record.start, std::max(record.end, record.start + 1), bytes, work});
    } catch (const std::exception&) {
      ++records_.dropped;
    }
  }
  static GpuWork direction(std::uint8_t kind) noexcept {
    switch (kind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD:
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOA:
      return GpuWork::to_device;
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH:
    case CUPTI_ACTIVITY_MEMCPY_KIND_ATOH:
      return GpuWork::to_host;
    default:
      return GpuWork::other_copy;
    }
  }

  std::mutex mutex_;
  bool recording_{false};
  std::uint32_t device_{0};
  Records records_;
};

} // namespace detail
} // namespace penstock
