// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Fused attention backward.

#include "flash_shape.cuh"
#include "launch.cuh"
#include "tiles.cuh"

#include <cstddef>
#include <cstdint>

#include <cuda_runtime.h>

namespace transformer::flash {

/// For each query the sum of d_out * out; a warp for each, and blockIdx.y for each head.
__global__ void along_kernel(const Bf16* d_out, const Bf16* out, float* along, FlashShape shape) {
  const std::size_t query = row_of_warp();
  if (query >= shape.tokens) {
    return;
  }
  const std::size_t at = shape.in_out() + query * shape.width;
  float sum = 0;
  for (std::size_t i = lane(); i < shape.width / shape.heads; i += warp) {
    sum += static_cast<float>(d_out[at + i]) * static_cast<float>(out[at + i]);
  }
  sum = warp_sum(sum);
  if (lane() == 0) {
    along[shape.in_queries() + query] = sum;
  }
}

template <int Head>
inline constexpr std::size_t backward_bytes =
    (2 * rows + 4 * step) * Head * 2 + rows * step * 2 + 4 * step * sizeof(float);

/// Each block takes 128 keys of a head, each warp 16 of them, and goes through the queries that see
/// them. Gradients of queries, to which all blocks add, are summed up in floats.
template <int Head>
__global__ void __launch_bounds__(threads)
    backward(const Bf16* qkv, const Bf16* d_out, const float* kept, const float* along,
             float* d_queries, Bf16* d_qkv, FlashShape shape) {
  using Queries = Tile<step, Head>;
  const Tile<rows, Head> keys{shared_begin()};
  const Tile<rows, Head> values{keys.begin + static_cast<std::uint32_t>(keys.bytes)};
  const Tile<rows, step> d_scores{values.begin + static_cast<std::uint32_t>(values.bytes)};
  const std::uint32_t behind = d_scores.begin + static_cast<std::uint32_t>(d_scores.bytes);
  const auto queries = [&](int turn) {
    return Queries{behind + turn % 2 * std::uint32_t{2 * Queries::bytes}};
  };
  const auto d_outs = [&](int turn) {
    return Queries{queries(turn).begin + std::uint32_t{Queries::bytes}};
  };
  constexpr std::size_t behind_tiles = (2 * rows + 4 * step) * Head * 2 + rows * step * 2;
  const auto log_sums = [&](int turn) { // and what goes along with d_out
    return reinterpret_cast<float*>(shared_memory() + behind_tiles) + turn % 2 * 2 * step;
  };

  const int first = static_cast<int>(blockIdx.x) * rows;
  const int begin = first / step; // queries before it see none of the keys
  const int end = static_cast<int>(shape.tokens) / step;
  const std::size_t stride = 3 * shape.width;
  const auto load = [&](int turn) {
    const std::size_t query = static_cast<std::size_t>(turn) * step;
    queries(turn).load(qkv + shape.in_qkv(0) + query * stride, stride);
    d_outs(turn).load(d_out + shape.in_out() + query * shape.width, shape.width);
    const unsigned i = threadIdx.x;
    if (i < 2 * step) {
      const std::size_t at = shape.in_queries() + query + i % step;
      begin_copy(static_cast<std::uint32_t>(__cvta_generic_to_shared(log_sums(turn) + i)),
                 i < step ? kept + at : along + at);
    }
  };
  keys.load(qkv + shape.in_qkv(1) + static_cast<std::size_t>(first) * stride, stride);
  values.load(qkv + shape.in_qkv(2) + static_cast<std::size_t>(first) * stride, stride);
  load(begin);

  const int own = static_cast<int>(threadIdx.x / warp);
  const float scale = shape.scale * FlashShape::log2_e;
  Sums<Head> d_keys;
  Sums<Head> d_values;
  d_keys.clear();
  d_values.clear();
  for (int turn = begin; turn < end; ++turn) {
    wait_for_copies();
    __syncthreads(); // all have read what the next load fills
    if (turn + 1 < end) {
      load(turn + 1);
    }
    // A row for each of the warp's keys, a column for each query.
    Sums<step> scores;
    Sums<step> d;
    scores.clear();
    d.clear();
    for (int k = 0; k < Head / 16; ++k) {
      const Fragment key = left(keys, own, k);
      const Fragment value = left(values, own, k);
      for (int query = 0; query < step / 16; ++query) {
        scores.add(query, key, right_transposed(queries(turn), query, k));
        d.add(query, value, right_transposed(d_outs(turn), query, k));
      }
    }
    const int behind_queries =
        first + 16 * own - turn * step; // of the first key, counted from the first query
    const float* const log_sum = log_sums(turn);
    scores.each([&](float& score, int row, int column) {
      score = behind_queries + row > column ? 0 : power_of_2(score * scale - log_sum[column]);
    });
    for (int query = 0; query < step / 16; ++query) {
      const Fragment probability = scores.as_left(query);
      for (int k = 0; k < Head / 16; ++k) {
        d_values.add(k, probability, right(d_outs(turn), query, k));
      }
    }
    for (int eight = 0; eight < step / 8; ++eight) {
      for (int i = 0; i < 4; ++i) {
        const unsigned column = 8 * eight + 2 * (lane() % 4) + i % 2;
        float& value = d.at[eight][i];
        value = scores.at[eight][i] * (value - log_sum[step + column]);
      }
      for (int half = 0; half < 2; ++half) {
        const int row = 16 * own + static_cast<int>(lane()) / 4 + 8 * half;
        asm volatile("st.shared.b32 [%0], %1;" ::"r"(d_scores.piece(row, eight) + lane() % 4 * 4),
                     "r"(Sums<step>::pair(d.at[eight][2 * half], d.at[eight][2 * half + 1]))
                     : "memory");
      }
    }
    for (int query = 0; query < step / 16; ++query) {
      const Fragment d_score = d.as_left(query);
      for (int k = 0; k < Head / 16; ++k) {
        d_keys.add(k, d_score, right(queries(turn), query, k));
      }
    }
    __syncthreads();
    // Of 16 queries and half of the head's values, over all keys.
    Sums<Head / 2> d_query;
    d_query.clear();
    const int sixteen = own % (step / 16);
    const int half_head = own / (step / 16) * (Head / 32);
    for (int key = 0; key < rows / 16; ++key) {
      const Fragment d_score = left_transposed(d_scores, key, sixteen);
      for (int k = 0; k < Head / 32; ++k) {
        d_query.add(k, d_score, right(keys, key, half_head + k));
      }
    }
    float* const to =
        d_queries + (shape.in_queries() + turn * step + 16 * sixteen) * Head + 16 * half_head;
    for (int eight = 0; eight < Head / 16; ++eight) {
      for (int half = 0; half < 2; ++half) {
        const float* const two = &d_query.at[eight][2 * half];
        atomicAdd(reinterpret_cast<float2*>(to + (lane() / 4 + 8 * half) * Head + 8 * eight +
                                            2 * (lane() % 4)),
                  make_float2(two[0], two[1]));
      }
    }
  }
  for (int eight = 0; eight < Head / 8; ++eight) {
    for (int half = 0; half < 2; ++half) {
      const std::size_t row = first + 16 * own + lane() / 4 + 8 * half;
      const std::size_t at = row * stride + 8 * eight + 2 * (lane() % 4);
      const float* const key = &d_keys.at[eight][2 * half];
      const float* const value = &d_values.at[eight][2 * half];
      *reinterpret_cast<std::uint32_t*>(d_qkv + shape.in_qkv(1) + at) =
          Sums<Head>::pair(key[0] * shape.scale, key[1] * shape.scale);
      *reinterpret_cast<std::uint32_t*>(d_qkv + shape.in_qkv(2) + at) =
          Sums<Head>::pair(value[0], value[1]);
    }
  }
}

/// Gradients of queries from floats to where they belong; a warp for each query, and blockIdx.y for
/// each head.
__global__ void queries_kernel(const float* d_queries, Bf16* d_qkv, FlashShape shape) {
  const std::size_t query = row_of_warp();
  if (query >= shape.tokens) {
    return;
  }
  const std::size_t head = shape.width / shape.heads;
  for (std::size_t i = lane(); i < head; i += warp) {
    d_qkv[shape.in_qkv(0) + query * 3 * shape.width + i] =
        __float2bfloat16(d_queries[(shape.in_queries() + query) * head + i] * shape.scale);
  }
}

} // namespace transformer::flash
