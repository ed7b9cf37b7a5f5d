// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/cuda/detail/capture_mode.hpp>
#include <penstock/cuda/error.hpp>

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace penstock::detail {

/// The driver's calls for contexts.
struct ContextCalls {
  decltype(&cuDeviceGet) device{};
  decltype(&cuDevicePrimaryCtxRetain) retain{};
  decltype(&cuDevicePrimaryCtxRelease) release{};
  decltype(&cuCtxGetCurrent) current{};
  decltype(&cuCtxSetCurrent) make_current{};
  cudaError_t status; // why some are null

  ContextCalls() noexcept
      : status{find("cuDeviceGet", device) && find("cuDevicePrimaryCtxRetain", retain) &&
                       find("cuDevicePrimaryCtxRelease", release) &&
                       find("cuCtxGetCurrent", current) && find("cuCtxSetCurrent", make_current)
                   ? cudaSuccess
                   : cudaErrorNotSupported} {}
  static const ContextCalls& only() noexcept {
    static const ContextCalls calls;
    return calls;
  }

 private:
  template <class F> static bool find(const char* name, F& call) noexcept {
    call = driver_function<F>(name);
    return call != nullptr;
  }
};

/// Makes GPU `number` the calling thread's current device while it lives, then again what was
/// before. A failure is in status(), since destructors use it too. Costs some 0.1 us if another one
/// was current.
///
/// By contexts, and not by cudaSetDevice(): back on a GPU that the process has not used, that would
/// set this one up, for 0.2 s and memory there, in each process that leaves GPU 0 to others. If
/// somebody calls cudaSetDevice() meanwhile on a thread that had no context, it has none again, and
/// cudaGetDevice() goes on to tell that choice.
class CurrentDevice {
 public:
  [[nodiscard]] explicit CurrentDevice(int number) noexcept {
    int now = 0;
    status_ = cudaGetDevice(&now);
    cuda_ignore(status_);
    // A thread without a context calls GPU 0, though cudaGetDevice() tells what was chosen last.
    if (status_ == cudaSuccess && (now != number || (number != 0 && !has_context()))) {
      status_ = change_to(number);
    }
  }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;
  ~CurrentDevice() {
    if (changed_) {
      const ContextCalls& driver = ContextCalls::only();
      driver.make_current(before_);
      driver.release(device_);
    }
  }
  cudaError_t status() const noexcept { return status_; }

 private:
  static bool has_context() noexcept {
    const ContextCalls& driver = ContextCalls::only();
    CUcontext context{};
    return driver.status == cudaSuccess && driver.current(&context) == CUDA_SUCCESS &&
           context != nullptr;
  }
  cudaError_t change_to(int number) noexcept {
    const ContextCalls& driver = ContextCalls::only();
    CUcontext context{};
    if (driver.status != cudaSuccess) {
      return driver.status;
    }
    CUresult result = driver.current(&before_);
    result = result == CUDA_SUCCESS ? driver.device(&device_, number) : result;
    result = result == CUDA_SUCCESS ? driver.retain(&context, device_) : result;
    if (result == CUDA_SUCCESS) {
      result = driver.make_current(context);
      changed_ = result == CUDA_SUCCESS;
      if (!changed_) {
        driver.release(device_);
      }
    }
    return static_cast<cudaError_t>(result); // the two interfaces number errors alike
  }

  CUcontext before_{}; // null: the thread had none
  CUdevice device_{};
  cudaError_t status_{};
  bool changed_{};
};

/// Makes a GPU current, and throws CudaError if that fails.
struct AttachedDevice : CurrentDevice {
  explicit AttachedDevice(int number) : CurrentDevice{number} {
    cuda_check(status(), "cuCtxSetCurrent");
  }
};

/// Makes a GPU current for a thread of penstock's own, whose calls then work whoever captures a
/// graph.
struct OwnThread : AttachedDevice {
  using AttachedDevice::AttachedDevice;
  RelaxedCapture relaxed{};
};

} // namespace penstock::detail
