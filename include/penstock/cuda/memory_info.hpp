// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/cuda/error.hpp>

#include <cstddef>
#include <string>

#include <cuda_runtime_api.h>

namespace penstock::detail {

/// The memory of the current GPU, in bytes; zeros if CUDA does not say.
struct MemoryInfo {
  MemoryInfo() {
    const cudaError_t status = cudaMemGetInfo(&free, &total);
    if (status != cudaSuccess) {
      cuda_ignore(status);
      free = total = 0;
    }
  }

  std::size_t free{};
  std::size_t total{};
};

/// Returns what to do when the current GPU has not enough memory.
inline std::string memory_cure() {
  const MemoryInfo memory;
  const std::string cure = "Take a smaller batch, copy or depth.";
  return memory.total == 0 ? cure
                           : "Of its " + std::to_string(memory.total) + " bytes " +
                                 std::to_string(memory.free) + " are free. " + cure;
}

} // namespace penstock::detail
