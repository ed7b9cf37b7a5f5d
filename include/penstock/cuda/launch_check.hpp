// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/cuda/error.hpp>

#include <cuda_runtime_api.h>

namespace penstock::detail {

/// Finds what a callable's own CUDA calls have left behind: `kernel<<<…>>>` returns nothing, and a
/// launch that CUDA refuses (more threads than a block may have, no code for this GPU) only latches
/// an error in its thread. One peek a callable, some 25 ns. For the calling thread alone.
///
/// It sees a code that was not latched before. An error with the code of a pending one stays
/// unseen, as does one that the callable has cleared, as CUB's launches do.
class CudaLaunchCheck {
 public:
  /// Call before the first callable: an error latched by now is somebody else's, and stays.
  void begin() noexcept { before_ = cudaPeekAtLastError(); }
  /// Call after each callable; `whose` names it. Throws CudaError, and clears the error that it
  /// throws.
  void check(const char* whose) {
    const cudaError_t now = cudaPeekAtLastError();
    if (now != before_ && now != cudaSuccess) [[unlikely]] {
      before_ = cudaSuccess;
      cuda_fail(now, "a launch, or another CUDA call,", std::string{" in "} + whose,
                "What it was to do did not happen. For a launch check its blocks, its threads, its "
                "shared memory, and that the program has code for this GPU.");
    }
    before_ = now;
  }
  /// Call after a callable that threw: its exception tells of the error, which is not the next
  /// one's.
  void forget() noexcept {
    if (cudaPeekAtLastError() != before_) {
      cudaGetLastError();
      before_ = cudaSuccess;
    }
  }

 private:
  cudaError_t before_{cudaSuccess};
};

} // namespace penstock::detail
