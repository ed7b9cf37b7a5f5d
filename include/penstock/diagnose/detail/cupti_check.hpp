// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/error.hpp>

#include <string>
#include <utility>

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

} // namespace detail
} // namespace penstock
