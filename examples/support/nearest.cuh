// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "blas.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>

#include <cuda_runtime.h>

// For each of many queries, finds those of a stream of vectors that may be the nearest.

/// How many candidates are kept for a query.
inline constexpr unsigned kept_each = 64;

/// A vector's number, below the least that its distance may be: the lesser candidate is the nearer,
/// and of equal distances the first.
using Candidate = std::uint64_t;
inline constexpr Candidate nobody = ~Candidate{0};

inline std::uint32_t index_of(Candidate candidate) {
  return static_cast<std::uint32_t>(candidate);
}
/// Returns the least that a candidate's distance may be: undoes what as_candidate() does to a
/// float.
inline float least_of(Candidate candidate) {
  const auto bits = static_cast<std::uint32_t>(candidate >> 32);
  return std::bit_cast<float>((bits >> 31) != 0 ? bits & 0x7FFF'FFFFU : ~bits);
}

namespace nearest {

inline constexpr unsigned threads = 256;
inline constexpr unsigned room = 2 * threads; // for candidates, and vectors that may become some

struct Norm {
  float squared;
  float length;
};

/// Makes a candidate. The bits of a float sort as numbers once those of negative ones are inverted.
__device__ inline Candidate as_candidate(float least, std::uint32_t index) {
  const unsigned bits = __float_as_uint(least);
  const unsigned sorted = (bits >> 31) != 0 ? ~bits : bits | 0x8000'0000U;
  return Candidate{sorted} << 32 | index;
}

/// Fills `norms`, with a warp for each vector.
__global__ void __launch_bounds__(threads)
    norms_kernel(const float* vectors, unsigned count, unsigned dimensions, Norm* norms) {
  const unsigned vector = (blockIdx.x * threads + threadIdx.x) / 32;
  const unsigned lane = threadIdx.x % 32;
  if (vector >= count) {
    return;
  }
  float sum = 0;
  for (unsigned i = lane; i < dimensions; i += 32) {
    const float x = vectors[std::size_t{vector} * dimensions + i];
    sum += x * x;
  }
  for (unsigned other = 16; other != 0; other /= 2) {
    sum += __shfl_xor_sync(~0U, sum, other);
  }
  if (lane == 0) {
    norms[vector] = {sum, sqrtf(sum)};
  }
}

/// Sorts the first `filled` of `all`, which has room for `room`, by a bitonic network.
__device__ inline void sort(Candidate* all, unsigned filled) {
  for (unsigned i = filled + threadIdx.x; i < room; i += threads) {
    all[i] = nobody;
  }
  for (unsigned size = 2; size <= room; size *= 2) {
    for (unsigned step = size / 2; step != 0; step /= 2) {
      __syncthreads();
      const unsigned low = 2 * threadIdx.x - (threadIdx.x & (step - 1));
      const Candidate a = all[low];
      const Candidate b = all[low + step];
      if ((a > b) == ((low & size) == 0)) {
        all[low] = b;
        all[low + step] = a;
      }
    }
  }
  __syncthreads();
}

/// Keeps the nearest, with a block for each query: its column of products, its candidates so far.
__global__ void __launch_bounds__(threads)
    keep_kernel(const Norm* norms, const float* products, std::size_t stride, const float* lengths,
                unsigned count, std::uint32_t first, Candidate* best) {
  __shared__ Candidate all[room];
  __shared__ unsigned next;
  Candidate* const mine = best + std::size_t{blockIdx.x} * kept_each;
  const float* const column = products + blockIdx.x * stride;
  const float length = lengths[blockIdx.x];
  if (threadIdx.x < kept_each) {
    all[threadIdx.x] = mine[threadIdx.x];
  }
  if (threadIdx.x == 0) {
    next = kept_each;
  }
  __syncthreads();
  unsigned filled = kept_each; // the value of `next`, as every thread knows
  for (unsigned from = 0; from < count; from += threads) {
    const unsigned vector = from + threadIdx.x;
    Candidate candidate = nobody;
    if (vector < count) {
      // TF32 cuts each factor by up to 2^-10 of it. So it cuts the sum of products, which is twice
      // that of q and v, by 2^-8 of |q| |v|. The tenth more is for the sum's own rounding, the rest
      // for the norm's.
      const Norm norm = norms[vector];
      const float cut = 1.1F * 0x1p-8F * length * norm.length + 0x1p-18F * norm.squared;
      candidate = as_candidate(norm.squared + column[vector] - cut, first + vector);
    }
    const bool nearer = candidate < all[kept_each - 1];
    if (nearer) {
      all[atomicAdd(&next, 1U)] = candidate;
    }
    filled += static_cast<unsigned>(__syncthreads_count(nearer));
    if (filled > room - threads) {
      sort(all, filled);
      filled = kept_each;
      if (threadIdx.x == 0) {
        next = kept_each;
      }
      __syncthreads();
    }
  }
  if (filled > kept_each) {
    sort(all, filled);
  }
  if (threadIdx.x < kept_each) {
    mine[threadIdx.x] = all[threadIdx.x];
  }
}

} // namespace nearest

/// Sets each candidate to nobody.
inline void forget(Candidate* best, std::size_t count, cudaStream_t stream) {
  check(cudaMemsetAsync(best, 0xFF, count * sizeof(Candidate), stream), "cudaMemsetAsync");
}

/// Fills `norms` for `count` vectors.
inline void norms_of(const float* vectors, unsigned count, unsigned dimensions,
                     nearest::Norm* norms, cudaStream_t stream) {
  constexpr unsigned a_block = nearest::threads / 32;
  nearest::norms_kernel<<<(count + a_block - 1) / a_block, nearest::threads, 0, stream>>>(
      vectors, count, dimensions, norms);
  check(cudaGetLastError(), "norms_kernel");
}

/// Lets `count` vectors, the first of them number `first`, become candidates of the queries, whose
/// lengths are in `lengths`. `products` has -2 times the inner products with TF32 factors: a column
/// for each query, `stride` from one to the next, and a row for each vector.
inline void keep_nearest(const nearest::Norm* norms, const float* products, std::size_t stride,
                         const float* lengths, unsigned queries, unsigned count,
                         std::uint32_t first, Candidate* best, cudaStream_t stream) {
  nearest::keep_kernel<<<queries, nearest::threads, 0, stream>>>(norms, products, stride, lengths,
                                                                 count, first, best);
  check(cudaGetLastError(), "keep_kernel");
}
