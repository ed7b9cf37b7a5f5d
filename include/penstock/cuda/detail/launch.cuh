// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/cuda/error.hpp>

#include <algorithm>
#include <cstddef>

#include <cuda_runtime.h>

namespace penstock::detail {

inline constexpr unsigned block_threads = 256;
/// More blocks than any GPU holds at once; with more work, each thread takes several pieces.
inline constexpr std::size_t most_blocks = std::size_t{1} << 16;

/// Enqueues `kernel(args...)` with blocks of `block_threads` threads: one for each `block_work` of
/// `work` pieces, at least 1 and at most `most_blocks`. The kernel must take the work beyond those
/// by turns.
template <class... Parameters>
void launch(cudaStream_t stream, std::size_t work, std::size_t block_work,
            void (*kernel)(Parameters...), Parameters... args) {
  const std::size_t blocks = work / block_work + (work % block_work != 0);
  cudaLaunchConfig_t launch{};
  launch.gridDim = dim3{static_cast<unsigned>(std::clamp(blocks, std::size_t{1}, most_blocks))};
  launch.blockDim = dim3{block_threads};
  launch.stream = stream;
  // Unlike <<<>>>, it says whether this launch failed, and not an earlier call.
  cuda_check(cudaLaunchKernelEx(&launch, kernel, args...), "cudaLaunchKernelEx");
}

} // namespace penstock::detail
