// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/cuda/detail/capture_mode.hpp>
#include <penstock/cuda/error.hpp>

#include <cuda_runtime_api.h>

namespace penstock::detail {

/// Makes GPU `number` the calling thread's current device while it lives, then again the one
/// before. A failure is in status(), since destructors use it too.
class CurrentDevice {
 public:
  [[nodiscard]] explicit CurrentDevice(int number) noexcept : status_{cudaGetDevice(&before_)} {
    if (status_ == cudaSuccess && before_ != number) {
      status_ = cudaSetDevice(number);
      switched_ = status_ == cudaSuccess;
    }
    cuda_ignore(status_);
  }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;
  ~CurrentDevice() {
    if (switched_) {
      cuda_ignore(cudaSetDevice(before_));
    }
  }
  cudaError_t status() const noexcept { return status_; }

 private:
  int before_{0};
  cudaError_t status_;
  bool switched_{false};
};

/// Makes a GPU current, and throws CudaError if that fails.
struct AttachedDevice : CurrentDevice {
  explicit AttachedDevice(int number) : CurrentDevice{number} {
    cuda_check(status(), "cudaSetDevice");
  }
};

/// Makes a GPU current for a thread of penstock's own, whose calls then work whoever captures a
/// graph.
struct OwnThread : AttachedDevice {
  using AttachedDevice::AttachedDevice;
  RelaxedCapture relaxed{};
};

} // namespace penstock::detail
