// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the kernels of fused attention share.

#include "launch.cuh"
#include "tiles.cuh"

#include <cstddef>
#include <cstdint>

#include <cuda_runtime.h>

namespace transformer {

/// What lies where, for a head of a sequence: blockIdx.x counts them. So neighbours in a grid have
/// different heads, and the blocks that have most to do can all come first.
struct FlashShape {
  std::size_t tokens;
  unsigned heads;
  unsigned head; // values
  float scale;

  static constexpr float log2_e = 1.4426950409F;

  __device__ std::size_t width() const { return std::size_t{heads} * head; }
  /// Return where its queries, keys or values begin, its part of the output, and its part of arrays
  /// with one value for each query.
  /// @{
  __device__ std::size_t in_qkv(int part) const {
    return (blockIdx.x / heads * tokens * 3 + part) * width() + blockIdx.x % heads * head;
  }
  __device__ std::size_t in_out() const {
    return blockIdx.x / heads * tokens * width() + blockIdx.x % heads * head;
  }
  __device__ std::size_t in_queries() const { return blockIdx.x * tokens; }
  /// @}
};

namespace flash {

inline constexpr unsigned threads = 256; ///< Threads of a block backward.
inline constexpr int warps = threads / warp;
inline constexpr int rows = 16 * warps; ///< Queries of a block forward, keys of one backward.
inline constexpr int step = 64;         ///< Keys worked on at once forward, queries backward.
/// Groups of 16 rows that a warp has at once: each factor that it reads serves all of them.
inline constexpr int sixteens = 2;
inline constexpr unsigned row_lanes = 4; ///< Lanes that share a row of sums.
inline constexpr unsigned forward_threads = threads / sixteens;

__device__ inline unsigned char* shared_memory() {
  extern __shared__ __align__(256) unsigned char memory[];
  return memory;
}
__device__ inline std::uint32_t shared_begin() {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(shared_memory()));
}
/// What a warp multiplies and adds up at once: left factors, and sums, of `sixteens` times 16 rows.
/// @{
struct Lefts {
  Fragment at[sixteens];
};
template <int R, int C> __device__ Lefts lefts(const Tile<R, C>& tile, int column) {
  Lefts all;
  for (int i = 0; i < sixteens; ++i) {
    all.at[i] = left(tile, i, column);
  }
  return all;
}
/// Returns left factors out of `sixteens` times 16 columns.
template <int R, int C> __device__ Lefts lefts_transposed(const Tile<R, C>& tile, int row) {
  Lefts all;
  for (int i = 0; i < sixteens; ++i) {
    all.at[i] = left_transposed(tile, row, i);
  }
  return all;
}
template <int C> __device__ void clear(Sums<C> (&sums)[sixteens]) {
  for (auto& one : sums) {
    one.clear();
  }
}
template <int C>
__device__ void add(Sums<C> (&to)[sixteens], int sixteen, const Lefts& a, const Fragment& b) {
  for (int i = 0; i < sixteens; ++i) {
    to[i].add(sixteen, a.at[i], b);
  }
}
/// @}

/// Returns 2^x by one instruction, the PTX manual's ex2.approx.ftz: 0 for what would be denormal.
__device__ inline float power_of_2(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}

} // namespace flash
} // namespace transformer
