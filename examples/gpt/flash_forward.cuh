// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Fused attention forward.

#include "dropout.hpp"
#include "flash_drop.cuh"
#include "flash_shape.cuh"
#include "launch.cuh"
#include "tiles.cuh"

#include <cmath>
#include <cstddef>
#include <cstdint>

#include <cuda_runtime.h>

namespace transformer::flash {

template <int Head> inline constexpr std::size_t forward_bytes = (rows + 4 * step) * Head * 2;

/// The softmax of 16 queries of a warp; this lane has two of them.
struct OnlineSoftmax {
  float most[2] = {-INFINITY, -INFINITY}; // exponents are counted from it
  float total[2] = {};                    // this lane's part

  /// Takes the scores of further keys, times `scale`, and turns them into exponentials. `sums` are
  /// those of values, each times its exponential.
  template <int Head>
  __device__ void meet(Sums<step>& scores, Sums<Head>& sums, float scale) {
    float newest[2] = {most[0], most[1]};
    scores.each(
        [&](float& score, int row, int) { newest[row / 8] = fmaxf(newest[row / 8], score); });
    for (int half = 0; half < 2; ++half) {
      newest[half] = warp_max<row_lanes>(newest[half]);
    }
    // Exponentials up to 2^8 do no harm, and with that room nearly nothing ever has to shrink. The
    // threshold is that of FlashAttention-4.
    if (__any_sync(0xffffffffU,
                   (newest[0] - most[0]) * scale > 8 || (newest[1] - most[1]) * scale > 8)) {
      for (int half = 0; half < 2; ++half) {
        const float shrink = power_of_2((most[half] - newest[half]) * scale);
        total[half] *= shrink;
        for (auto& eight : sums.at) {
          eight[2 * half] *= shrink;
          eight[2 * half + 1] *= shrink;
        }
        most[half] = newest[half];
      }
    }
    const float offset[2] = {most[0] * scale, most[1] * scale};
    scores.each([&](float& score, int row, int) {
      score = power_of_2(score * scale - offset[row / 8]);
      total[row / 8] += score;
    });
  }
};

/// Computes attention. Each block takes 128 queries of a head, each warp 32 of them.
template <int Head, bool Dropping>
__global__ void __launch_bounds__(forward_threads, 2)
    forward(const Bf16* qkv, Bf16* out, float* kept, FlashShape shape, Drops drops) {
  using Keys = Tile<step, Head>;
  const Tile<rows, Head> queries{shared_begin()};
  const std::uint32_t behind = queries.begin + queries.bytes;
  const auto keys = [&](int turn) { return Keys{behind + turn % 2 * 2 * Keys::bytes}; };
  const auto values = [&](int turn) { return Keys{keys(turn).begin + Keys::bytes}; };

  // The longest first, so that none of them begins last.
  const int first = static_cast<int>(gridDim.y - 1 - blockIdx.y) * rows;
  const int turns = (first + rows) / step;
  const std::size_t stride = 3 * shape.width();
  const auto load = [&](int turn) {
    const std::size_t at = static_cast<std::size_t>(turn) * step * stride;
    begin_copy<forward_threads>(keys(turn), qkv + shape.in_qkv(1) + at, stride);
    begin_copy<forward_threads>(values(turn), qkv + shape.in_qkv(2) + at, stride);
  };
  begin_copy<forward_threads>(
      queries, qkv + shape.in_qkv(0) + static_cast<std::size_t>(first) * stride, stride);
  load(0);

  const int own = sixteens * static_cast<int>(threadIdx.x / warp); // this warp's first 16 queries
  const float scale = shape.scale * FlashShape::log2_e;
  const auto own_queries = queries.part(16 * own, 0);
  OnlineSoftmax softmax[sixteens];
  Sums<Head> sums[sixteens];
  clear(sums);
  [[maybe_unused]] DropRow drop_rows[sixteens][2];
  if constexpr (Dropping) {
#pragma unroll
    for (int i = 0; i < sixteens; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        drop_rows[i][half] =
            drops.row(shape.in_queries() + first + 16 * (own + i) + lane() / 4 + 8 * half);
      }
    }
  }
  for (int turn = 0; turn < turns; ++turn) {
    wait_for_copies();
    __syncthreads(); // all threads have read what the next load fills
    if (turn + 1 < turns) {
      load(turn + 1);
    }
    // The warp's first query, counted from the first key.
    const int behind_keys = first + 16 * own - turn * step;
    if (behind_keys > -16 * sixteens) { // else none of its queries sees these keys
      Sums<step> scores[sixteens];
      clear(scores);
#pragma unroll
      for (int k = 0; k < Head / 16; ++k) {
        const Lefts query = lefts(own_queries, k);
        for (int key = 0; key < step / 16; ++key) {
          add(scores, key, query, right_transposed(keys(turn), key, k));
        }
      }
      if (behind_keys < step) {
        for (int i = 0; i < sixteens; ++i) {
          scores[i].each([&](float& score, int row, int column) {
            score = column > behind_keys + 16 * i + row ? -INFINITY : score;
          });
        }
      }
      for (int i = 0; i < sixteens; ++i) {
        softmax[i].meet(scores[i], sums[i], scale);
      }
      if constexpr (Dropping) {
#pragma unroll
        for (int i = 0; i < sixteens; ++i) {
          drop(scores[i], drop_rows[i], static_cast<std::uint32_t>(turn * step));
        }
      }
#pragma unroll
      for (int key = 0; key < step / 16; ++key) {
        Lefts probability;
        for (int i = 0; i < sixteens; ++i) {
          probability.at[i] = scores[i].as_left(key);
        }
#pragma unroll
        for (int k = 0; k < Head / 16; ++k) {
          add(sums, k, probability, right(values(turn), key, k));
        }
      }
    }
  }
#pragma unroll
  for (int i = 0; i < sixteens; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float total = warp_sum<row_lanes>(softmax[i].total[half]);
      // One division for all values.
      const float share = (Dropping ? drops.scale() : 1.0F) / total;
      const std::size_t query = first + 16 * (own + i) + lane() / 4 + 8 * half;
      if (lane() % 4 == 0) {
        kept[shape.in_queries() + query] = softmax[i].most[half] * scale + log2f(total);
      }
#pragma unroll
      for (int eight = 0; eight < Head / 8; ++eight) {
        const float* const two = &sums[i].at[eight][2 * half];
        const std::size_t at =
            shape.in_out() + query * shape.width() + 8 * eight + 2 * (lane() % 4);
        store_two(out + at, two[0] * share, two[1] * share);
      }
    }
  }
}

} // namespace transformer::flash
