// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/cuda/error.hpp>

#include <cuda_runtime_api.h>

namespace penstock::detail {

/// Finds what a callable's own CUDA calls have left behind: `kernel<<<…>>>` returns nothing, and
/// one that CUDA refuses (more threads than a block may have, no code for this GPU) only latches an
/// error in its thread. One peek a callable, some 25 ns. Of the thread that calls.
///
/// It sees a code that was not latched before. An error with the code of one that was pending stays
/// unseen, and so does one that the callable has cleared, as CUB's launches do.
class CudaLaunchCheck {
 public:
  /// Before the first callable: what is latched now is somebody else's, and stays.
  void begin() noexcept { before_ = cudaPeekAtLastError(); }
  /// After each. Throws CudaError, and clears what it throws; `whose` callable it was.
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
  /// After one that threw: what it has left is told by that, and is not the next one's.
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
