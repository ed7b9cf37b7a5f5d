// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/cuda/error.hpp>

#include <cuda_runtime_api.h>

namespace penstock::detail {

/// While it lives, the calling thread's calls are not refused because somebody, this thread too,
/// captures a graph in global mode: CUDA refuses then what might not belong into a capture, such as
/// questions about events, waits, and memory that is taken or given back, and breaks the capture
/// off. Two calls of some 40 ns. The device that memory is to be taken on must be current.
class RelaxedCapture {
 public:
  RelaxedCapture() noexcept { exchange(); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;
  ~RelaxedCapture() { exchange(); }

 private:
  void exchange() noexcept { cuda_ignore(cudaThreadExchangeStreamCaptureMode(&mode_)); }

  cudaStreamCaptureMode mode_{cudaStreamCaptureModeRelaxed}; // and then the one before
};

} // namespace penstock::detail
