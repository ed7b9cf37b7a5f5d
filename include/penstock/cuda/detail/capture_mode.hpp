// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/cuda/error.hpp>

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace penstock::detail {

/// While it lives, CUDA does not refuse the calling thread's calls because a thread, this one
/// included, captures a graph in global mode. CUDA would refuse what might not belong into a
/// capture, such as questions about events, waits, and taking or freeing memory, and would break
/// the capture off. Costs two calls of some 40 ns, and none inside another one. The device that
/// memory is taken on must be current.
class RelaxedCapture {
 public:
  RelaxedCapture() noexcept : outermost_{!is_relaxed()} { exchange(true); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;
  ~RelaxedCapture() { exchange(false); }

 private:
  static bool& is_relaxed() noexcept {
    static thread_local bool relaxed = false;
    return relaxed;
  }
  void exchange(bool relaxed) noexcept {
    if (outermost_) {
      cuda_ignore(cudaThreadExchangeStreamCaptureMode(&mode_));
      is_relaxed() = relaxed;
    }
  }

  const bool outermost_;
  cudaStreamCaptureMode mode_{cudaStreamCaptureModeRelaxed}; // later the mode before
};

/// Returns one of the driver's functions, found through the runtime, so that nothing need link with
/// libcuda; null if the driver has none of this name.
template <class F> F driver_function(const char* name) noexcept {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
#if CUDART_VERSION >= 12050
  // A driver of CUDA 12 answers null to a question for a newer version.
  constexpr unsigned version = 12000;
  cuda_ignore(cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault, &result));
#else
  cuda_ignore(cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &result));
#endif
  return reinterpret_cast<F>(found);
}

/// Does what cudaStreamIsCapturing() does. Each batch asks, so this asks the driver itself: in 14
/// ns, where the runtime takes 47 (the host of an H200, CUDA 13.0).
inline cudaError_t capture_status(cudaStream_t stream, cudaStreamCaptureStatus& status) noexcept {
  using Ask = CUresult (*)(CUstream, CUstreamCaptureStatus*);
  static const auto ask = driver_function<Ask>("cuStreamIsCapturing");
  CUstreamCaptureStatus answer{};
  // A thread that has not called the runtime yet has no context; the runtime gives it one.
  if (!ask || ask(stream, &answer) != CUDA_SUCCESS) {
    return cudaStreamIsCapturing(stream, &status);
  }
  status = static_cast<cudaStreamCaptureStatus>(answer); // the two interfaces number them alike
  return cudaSuccess;
}

} // namespace penstock::detail
