// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the kernels of fused attention share.

#include "launch.cuh"

#include <cstddef>
#include <cstdint>

#include <cuda_runtime.h>

namespace transformer {

/// What lies where, for a head of a sequence.
struct FlashShape {
  std::size_t tokens;
  std::size_t heads;
  std::size_t width;
  float scale;

  static constexpr float log2_e = 1.4426950409F;

  /// Of blockIdx.y, which counts heads of sequences: where its queries, keys or values begin, its
  /// part of what comes out, and its part of what there is one of for each query.
  /// @{
  __device__ std::size_t in_qkv(int part) const {
    return (blockIdx.y / heads * tokens * 3 + part) * width + blockIdx.y % heads * (width / heads);
  }
  __device__ std::size_t in_out() const {
    return blockIdx.y / heads * tokens * width + blockIdx.y % heads * (width / heads);
  }
  __device__ std::size_t in_queries() const { return blockIdx.y * tokens; }
  /// @}
};

namespace flash {

inline constexpr unsigned threads = 256; ///< Of a block backward.
inline constexpr int warps = threads / warp;
inline constexpr int rows = 16 * warps; ///< Queries of a block forward, keys of one backward.
inline constexpr int step = 64;         ///< Keys that are worked on at once, or queries.
/// Sixteens of queries that a warp has forward: what it reads of keys and values serves them all.
inline constexpr int sixteens = 2;
inline constexpr unsigned forward_threads = threads / sixteens;

__device__ inline unsigned char* shared_memory() {
  extern __shared__ __align__(128) unsigned char memory[];
  return memory;
}
__device__ inline std::uint32_t shared_begin() {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(shared_memory()));
}
/// Of the four lanes that share a row.
/// @{
__device__ inline float row_max(float value) {
  value = fmaxf(value, __shfl_xor_sync(0xffffffffU, value, 1));
  return fmaxf(value, __shfl_xor_sync(0xffffffffU, value, 2));
}
__device__ inline float row_sum(float value) {
  value += __shfl_xor_sync(0xffffffffU, value, 1);
  return value + __shfl_xor_sync(0xffffffffU, value, 2);
}
/// @}
/// 2^x by one instruction, the PTX manual's ex2.approx.ftz: 0 for what would be denormal.
__device__ inline float power_of_2(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}

} // namespace flash
} // namespace transformer
