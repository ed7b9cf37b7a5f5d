// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// The loop of docs/blocking_events/10_sync_per_item.md, in CUDA's own words.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include <cuda_runtime.h>

namespace penstock::tests {

inline void check(cudaError_t status) {
  if (status != cudaSuccess) {
    std::abort();
  }
}

__global__ void add_up(const std::uint32_t* values, std::size_t count, std::uint64_t* sum) {
  for (std::size_t i = 0; i < count; ++i) {
    *sum += values[i];
  }
}

inline constexpr std::size_t item_values = 256;

/// Takes each item through two allocations, a copy, a launch, a copy back, a wait and two releases,
/// all of it from and to pageable memory.
inline std::uint64_t score_items(std::size_t items) {
  const std::vector<std::uint32_t> item(item_values, 1);
  constexpr std::size_t bytes = item_values * sizeof(std::uint32_t);
  cudaStream_t stream = nullptr;
  check(cudaStreamCreate(&stream));
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < items; ++i) {
    std::uint32_t* in = nullptr;
    std::uint64_t* out = nullptr;
    check(cudaMalloc(&in, bytes));
    check(cudaMalloc(&out, sizeof *out));
    check(cudaMemsetAsync(out, 0, sizeof *out, stream));
    check(cudaMemcpyAsync(in, item.data(), bytes, cudaMemcpyHostToDevice, stream));
    add_up<<<1, 1, 0, stream>>>(in, item_values, out);
    check(cudaGetLastError());
    std::uint64_t score = 0;
    check(cudaMemcpyAsync(&score, out, sizeof score, cudaMemcpyDeviceToHost, stream));
    check(cudaStreamSynchronize(stream));
    check(cudaFree(in));
    check(cudaFree(out));
    sum += score;
  }
  check(cudaStreamDestroy(stream));
  return sum;
}

} // namespace penstock::tests
