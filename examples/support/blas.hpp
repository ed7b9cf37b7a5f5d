// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/callables/workspace.hpp>
#include <penstock/cuda.hpp>

#include <cstddef>
#include <stdexcept>
#include <string>

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

/// Throw if a call has failed; `call` is its name.
/// @{
inline void check(cudaError_t status, const char* call) {
  if (status != cudaSuccess) {
    throw std::runtime_error{std::string{call} + ": " + cudaGetErrorString(status)};
  }
}
inline void check(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw std::runtime_error{std::string{call} + ": " + cublasGetStatusString(status)};
  }
}
/// @}

/// cuBLAS on the current GPU, for callables of a pipeline. They must enqueue and never wait: make
/// this before the run, and a workspace for each stream, or cuBLAS would take memory of its own.
/// One thread at a time.
class Blas {
 public:
  /// The size of workspace that NVIDIA advises for Hopper and later.
  static constexpr std::size_t workspace_bytes = std::size_t{32} << 20;

  Blas() { check(cublasCreate(&handle_), "cublasCreate"); }
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;
  ~Blas() { cublasDestroy(handle_); }

  /// Returns the handle, for calls whose work goes to `stream`, with a workspace that work of no
  /// other stream uses.
  cublasHandle_t on(cudaStream_t stream,
                    const penstock::Workspace<penstock::CudaDevice>& workspace) {
    check(cublasSetStream(handle_, stream), "cublasSetStream");
    // After the stream, since that makes cuBLAS forget the workspace.
    check(cublasSetWorkspace(handle_, workspace.data(), workspace.size()), "cublasSetWorkspace");
    return handle_;
  }

 private:
  cublasHandle_t handle_{};
};
