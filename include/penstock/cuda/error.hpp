// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/error.hpp>

#include <cstddef>
#include <string>
#include <utility>

#if !__has_include(<cuda_runtime_api.h>)
#error "penstock/cuda.hpp needs CUDA's headers: name their folder, as -I/usr/local/cuda/include."
#include "penstock: see the error above" // no such file
#endif
#include <cuda_runtime_api.h>

#if CUDART_VERSION < 12040
#error "penstock needs CUDA 12.4 or later, and these are headers of an older one: install CUDA 13."
#include "penstock: see the error above" // no such file
#endif

namespace penstock {

namespace detail {

/// Whether `status` leaves the GPU unusable until the process ends.
constexpr bool is_sticky(cudaError_t status) noexcept {
  switch (status) {
#if CUDART_VERSION >= 12080
  case cudaErrorContained:
  case cudaErrorTensorMemoryLeak:
#endif
  case cudaErrorIllegalAddress:
  case cudaErrorLaunchTimeout:
  case cudaErrorAssert:
  case cudaErrorHardwareStackError:
  case cudaErrorIllegalInstruction:
  case cudaErrorMisalignedAddress:
  case cudaErrorInvalidAddressSpace:
  case cudaErrorInvalidPc:
  case cudaErrorLaunchFailure:
  case cudaErrorMpsClientTerminated:
  case cudaErrorExternalDevice:
    return true;
  default:
    return false;
  }
}

} // namespace detail

/// A CUDA call failed. By the time it is thrown the thread's last error is cleared, so that the
/// next call is not blamed for it.
class [[gnu::visibility("default")]] CudaError : public DeviceError {
 public:
  /// `call` is the function's name; the status says whether the error is sticky.
  CudaError(const std::string& what, std::string call, cudaError_t status)
      : DeviceError{what, std::move(call), static_cast<int>(status), detail::is_sticky(status)} {}
  /// Returns CUDA's error.
  cudaError_t status() const noexcept { return static_cast<cudaError_t>(code()); }
};

namespace detail {

/// Returns text such as "cudaErrorMemoryAllocation (2), out of memory". Any thread.
inline std::string cuda_text(cudaError_t status) {
  return std::string{cudaGetErrorName(status)} + " (" + std::to_string(static_cast<int>(status)) +
         "), " + cudaGetErrorString(status);
}

/// Throws CudaError: `call`, asked for what `asked` says (" of 42 bytes"), has failed with
/// `status`. A sticky error always has the same cure; `cure` is that of another, a whole sentence.
[[noreturn]] inline void cuda_fail(cudaError_t status, const char* call,
                                   const std::string& asked = {}, const std::string& cure = {}) {
  cudaGetLastError(); // a failed call stays latched, and the next launch would report it as its own
  std::string what =
      std::string{"penstock: "} + call + asked + " failed: " + cuda_text(status) + ".";
  if (is_sticky(status)) {
    what += " Work queued before may be at fault: compute-sanitizer finds it. This process cannot "
            "use the GPU any more: start it anew.";
  } else if (!cure.empty()) {
    what += " " + cure;
  }
  throw CudaError{what, call, status};
}

/// Checks the status of a CUDA call; every status comes through such a function. Throws CudaError,
/// with `call` as its name, unless it is cudaSuccess.
inline void cuda_check(cudaError_t status, const char* call) {
  if (status != cudaSuccess) {
    cuda_fail(status, call);
  }
}
/// Checks the status of a call about `bytes`; `where` is " to" or " on" what.
inline void cuda_check(cudaError_t status, const char* call, std::size_t bytes, const char* where) {
  if (status != cudaSuccess) {
    cuda_fail(status, call, " of " + std::to_string(bytes) + " bytes" + where);
  }
}

/// Checks the status of a question: "not ready" is the answer false. CUDA does not latch that one.
inline bool cuda_is_done(cudaError_t status, const char* call) {
  if (status == cudaErrorNotReady) {
    return false;
  }
  cuda_check(status, call);
  return true;
}

/// Drops the status of a call in a destructor: a failure (the driver may be unloaded, the GPU lost)
/// is not reported, and not latched either.
inline void cuda_ignore(cudaError_t status) noexcept {
  if (status != cudaSuccess) {
    cudaGetLastError();
  }
}

} // namespace detail
} // namespace penstock
