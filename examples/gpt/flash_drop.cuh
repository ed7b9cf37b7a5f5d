// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Dropout inside fused attention, on the sums that a warp has. The two columns of DropRow::two()
// are two eights of a sum's columns forward, and its two rows in an eight backward.

#include "dropout.hpp"
#include "flash_shape.cuh"
#include "launch.cuh"
#include "tiles.cuh"

#include <cstdint>

#include <cuda_runtime.h>

namespace transformer::flash {

/// Sets those probabilities of 16 queries of a warp to 0 that are dropped; `queries` are
/// the two of this lane. `first_key` is a multiple of 16.
__device__ inline void drop(Sums<step>& probabilities, const DropRow (&queries)[2],
                            std::uint32_t first_key) {
#pragma unroll
  for (int eight = 0; eight < step / 8; eight += 2) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const DropRow& row = queries[i / 2];
      const std::uint32_t bits =
          row.two(first_key + 8 * static_cast<unsigned>(eight) + 2 * (lane() % 4) + i % 2);
      float& low = probabilities.at[eight][i];
      float& high = probabilities.at[eight + 1][i];
      low = row.keeps_low(bits) ? low : 0;
      high = row.keeps_high(bits) ? high : 0;
    }
  }
}

/// Turns the probabilities of 16 keys of a warp, and their gradients before dropout, into what is
/// left of the probabilities, and the gradients of scores. `first_key` is a multiple of 16;
/// `row_keys` and `along` are those of this lane's first query.
template <int C>
__device__ void drop_backward(Sums<C>& probabilities, Sums<C>& d, const Drops& drops,
                              std::uint32_t first_key, const std::uint64_t* row_keys,
                              const float2* along) {
#pragma unroll
  for (int eight = 0; eight < C / 8; ++eight) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const DropRow row{row_keys[8 * eight + i], drops.threshold};
      const std::uint32_t bits = row.two(first_key + lane() / 4);
      const float of_query = i == 0 ? along[eight].x : along[eight].y;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const bool keeps = half == 0 ? row.keeps_low(bits) : row.keeps_high(bits);
        float& p = probabilities.at[eight][2 * half + i];
        float& value = d.at[eight][2 * half + i];
        value = p * ((keeps ? value * drops.scale() : 0) - of_query);
        p = keeps ? p : 0;
      }
    }
  }
}

} // namespace transformer::flash
