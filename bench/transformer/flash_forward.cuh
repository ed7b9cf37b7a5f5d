// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Fused attention forward.

#include "flash_shape.cuh"
#include "launch.cuh"
#include "tiles.cuh"

#include <cmath>
#include <cstddef>
#include <cstdint>

#include <cuda_runtime.h>

namespace transformer::flash {

template <int Head> inline constexpr std::size_t forward_bytes = (rows + 4 * step) * Head * 2;

/// What a warp has of 16 queries.
template <int Head> struct Attending {
  Sums<Head> sums;                        // of values, each times its probability times `total`
  float most[2] = {-INFINITY, -INFINITY}; // of the scores so far, of this lane's two rows
  float total[2] = {};                    // this lane's part

  /// Takes scores of further keys, and makes them exponentials. `scale` is that of scores.
  __device__ void meet(Sums<step>& scores, float scale) {
    float newest[2] = {most[0], most[1]};
    scores.each(
        [&](float& score, int row, int) { newest[row / 8] = fmaxf(newest[row / 8], score); });
    float offset[2];
    for (int half = 0; half < 2; ++half) {
      newest[half] = row_max(newest[half]);
      const float shrink = power_of_2((most[half] - newest[half]) * scale);
      total[half] *= shrink;
      for (auto& eight : sums.at) {
        eight[2 * half] *= shrink;
        eight[2 * half + 1] *= shrink;
      }
      most[half] = newest[half];
      offset[half] = newest[half] * scale;
    }
    scores.each([&](float& score, int row, int) {
      score = power_of_2(score * scale - offset[row / 8]);
      total[row / 8] += score;
    });
  }
};

/// Each block takes 128 queries of a head, each warp 32 of them.
template <int Head>
__global__ void __launch_bounds__(forward_threads, 2)
    forward(const Bf16* qkv, Bf16* out, float* kept, FlashShape shape) {
  using Keys = Tile<step, Head>;
  const Tile<rows, Head> queries{shared_begin()};
  const std::uint32_t behind = queries.begin + static_cast<std::uint32_t>(queries.bytes);
  const auto keys = [&](int turn) {
    return Keys{behind + turn % 2 * std::uint32_t{2 * Keys::bytes}};
  };
  const auto values = [&](int turn) { return Keys{keys(turn).begin + std::uint32_t{Keys::bytes}}; };

  // The longest first, so that none of them is the last to begin.
  const int first = static_cast<int>(gridDim.x - 1 - blockIdx.x) * rows;
  const int turns = (first + rows) / step;
  const std::size_t stride = 3 * shape.width;
  const auto load = [&](int turn) {
    const std::size_t at = static_cast<std::size_t>(turn) * step * stride;
    keys(turn).load(qkv + shape.in_qkv(1) + at, stride);
    values(turn).load(qkv + shape.in_qkv(2) + at, stride);
  };
  queries.load(qkv + shape.in_qkv(0) + static_cast<std::size_t>(first) * stride, stride);
  load(0);

  const int own = sixteens * static_cast<int>(threadIdx.x / warp); // this warp's first 16 queries
  const float scale = shape.scale * FlashShape::log2_e;
  Attending<Head> attending[sixteens];
  for (auto& one : attending) {
    one.sums.clear();
  }
  for (int turn = 0; turn < turns; ++turn) {
    wait_for_copies();
    __syncthreads(); // all have read what the next load fills
    if (turn + 1 < turns) {
      load(turn + 1);
    }
    // Of the warp's first query, counted from the first key.
    const int behind_keys = first + 16 * own - turn * step;
    if (behind_keys > -16 * sixteens) { // or none of its queries sees these keys
      Sums<step> scores[sixteens];
      for (auto& one : scores) {
        one.clear();
      }
      for (int k = 0; k < Head / 16; ++k) {
        Fragment query[sixteens];
        for (int i = 0; i < sixteens; ++i) {
          query[i] = left(queries, own + i, k);
        }
        for (int key = 0; key < step / 16; ++key) {
          const Fragment both = right_transposed(keys(turn), key, k);
          for (int i = 0; i < sixteens; ++i) {
            scores[i].add(key, query[i], both);
          }
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
        attending[i].meet(scores[i], scale);
      }
#pragma unroll
      for (int key = 0; key < step / 16; ++key) {
        Fragment probability[sixteens];
        for (int i = 0; i < sixteens; ++i) {
          probability[i] = scores[i].as_left(key);
        }
#pragma unroll
        for (int k = 0; k < Head / 16; ++k) {
          const Fragment both = right(values(turn), key, k);
          for (int i = 0; i < sixteens; ++i) {
            attending[i].sums.add(k, probability[i], both);
          }
        }
      }
    }
  }
#pragma unroll
  for (int i = 0; i < sixteens; ++i) {
    const Attending<Head>& one = attending[i];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float total = row_sum(one.total[half]);
      const std::size_t query = first + 16 * (own + i) + lane() / 4 + 8 * half;
      if (lane() % 4 == 0) {
        kept[shape.in_queries() + query] = one.most[half] * scale + log2f(total);
      }
#pragma unroll
      for (int eight = 0; eight < Head / 8; ++eight) {
        const float* const two = &one.sums.at[eight][2 * half];
        const std::size_t at = shape.in_out() + query * shape.width + 8 * eight + 2 * (lane() % 4);
        *reinterpret_cast<std::uint32_t*>(out + at) =
            Sums<Head>::pair(two[0] / total, two[1] / total);
      }
    }
  }
}

} // namespace transformer::flash
