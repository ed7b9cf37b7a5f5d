// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Fused attention backward.

#include "dropout.hpp"
#include "flash_drop.cuh"
#include "flash_shape.cuh"
#include "launch.cuh"
#include "tiles.cuh"

#include <cstddef>
#include <cstdint>

#include <cuda_runtime.h>

namespace transformer::flash {

/// How many lanes share a query if each takes 16 bytes of it, and how many queries a block then
/// has.
/// @{
template <int Head> inline constexpr unsigned query_lanes = Head / Pack<Bf16>::size;
template <int Head> inline constexpr unsigned block_queries = threads / query_lanes<Head>;
/// @}

/// Computes for each query the sum of d_out * out.
template <int Head>
__global__ void along_kernel(const Bf16* d_out, const Bf16* out, float* along, FlashShape shape) {
  const std::size_t query = blockIdx.y * block_queries<Head> + threadIdx.x / query_lanes<Head>;
  const unsigned part = threadIdx.x % query_lanes<Head>;
  const std::size_t at = shape.in_out() + query * shape.width() + part * Pack<Bf16>::size;
  const auto d = *reinterpret_cast<const Pack<Bf16>*>(d_out + at);
  const auto values = *reinterpret_cast<const Pack<Bf16>*>(out + at);
  float sum = 0;
  for (std::size_t i = 0; i < Pack<Bf16>::size; ++i) {
    sum += static_cast<float>(d.at[i]) * static_cast<float>(values.at[i]);
  }
  sum = warp_sum<query_lanes<Head>>(sum);
  if (part == 0) {
    along[shape.in_queries() + query] = sum;
  }
}

template <int Head>
inline constexpr std::size_t backward_tiles =
    ((2 * rows + 4 * step) * Head + 2 * rows * step) * sizeof(Bf16);
/// The keys of dropout's rows lie behind all else.
template <int Head>
inline constexpr std::size_t backward_floats = backward_tiles<Head> + 4 * step * sizeof(float);
template <int Head, bool Dropping>
inline constexpr std::size_t backward_bytes =
    backward_floats<Head> + (Dropping ? 2 * step * sizeof(std::uint64_t) : 0);

/// Computes the gradients. Each block takes 128 keys of a head and goes through the queries that
/// see them. Two warps share 32 keys: each has the probabilities of half of the queries, and the
/// gradients of half of the head's values. Gradients of queries, to which all blocks add, are
/// summed up in floats.
template <int Head, bool Dropping>
__global__ void __launch_bounds__(threads)
    backward(const Bf16* qkv, const Bf16* d_out, const float* kept, const float* along,
             float* d_queries, Bf16* d_qkv, FlashShape shape, Drops drops) {
  using Queries = Tile<step, Head>;
  using Scores = Tile<rows, step>;
  const Tile<rows, Head> keys{shared_begin()};
  const Tile<rows, Head> values{keys.begin + keys.bytes};
  const Scores probabilities{values.begin + values.bytes};
  const Scores d_scores{probabilities.begin + Scores::bytes};
  const std::uint32_t behind = d_scores.begin + Scores::bytes;
  const auto queries = [&](int turn) { return Queries{behind + turn % 2 * 2 * Queries::bytes}; };
  const auto d_outs = [&](int turn) { return Queries{queries(turn).begin + Queries::bytes}; };
  const auto log_sums = [&](int turn) { // and behind them `along`
    return reinterpret_cast<float*>(shared_memory() + backward_tiles<Head>) + turn % 2 * 2 * step;
  };
  [[maybe_unused]] const auto row_keys = [&](int turn) { // dropout's, of the queries
    return reinterpret_cast<std::uint64_t*>(shared_memory() + backward_floats<Head>) +
           turn % 2 * step;
  };

  const int first = static_cast<int>(blockIdx.y) * rows;
  const int begin = first / step; // earlier queries see none of the keys
  const int end = static_cast<int>(shape.tokens) / step;
  const std::size_t stride = 3 * shape.width();
  const auto load = [&](int turn) {
    const std::size_t query = static_cast<std::size_t>(turn) * step;
    begin_copy<threads>(queries(turn), qkv + shape.in_qkv(0) + query * stride, stride);
    begin_copy<threads>(d_outs(turn), d_out + shape.in_out() + query * shape.width(),
                        shape.width());
    const unsigned i = threadIdx.x;
    if (i < 2 * step) {
      const std::size_t at = shape.in_queries() + query + i % step;
      begin_copy(static_cast<std::uint32_t>(__cvta_generic_to_shared(log_sums(turn) + i)),
                 i < step ? kept + at : along + at);
    }
    if constexpr (Dropping) {
      if (i < step) {
        row_keys(turn)[i] = drops.row(shape.in_queries() + query + i).key;
      }
    }
  };
  begin_copy<threads>(keys, qkv + shape.in_qkv(1) + static_cast<std::size_t>(first) * stride,
                      stride);
  begin_copy<threads>(values, qkv + shape.in_qkv(2) + static_cast<std::size_t>(first) * stride,
                      stride);
  load(begin);

  const int number = static_cast<int>(threadIdx.x / warp);
  const int own = sixteens * (number / 2); // this warp's first 16 keys
  const int side = number % 2;
  const int own_query = side * (step / 2); // the first of the warp's half
  const float scale = shape.scale * FlashShape::log2_e;
  const auto own_keys = keys.part(16 * own, 0);
  const auto own_values = values.part(16 * own, 0);
  Sums<Head / 2> d_keys[sixteens];
  Sums<Head / 2> d_values[sixteens];
  clear(d_keys);
  clear(d_values);
  for (int turn = begin; turn < end; ++turn) {
    wait_for_copies();
    __syncthreads(); // all threads have read what the next load fills
    if (turn + 1 < end) {
      load(turn + 1);
    }
    // A row for each of the warp's keys, a column for each of its queries.
    const auto own_queries = queries(turn).part(own_query, 0);
    const auto own_d_outs = d_outs(turn).part(own_query, 0);
    Sums<step / 2> scores[sixteens];
    Sums<step / 2> d[sixteens];
    clear(scores);
    clear(d);
#pragma unroll
    for (int k = 0; k < Head / 16; ++k) {
      const Lefts key = lefts(own_keys, k);
      const Lefts value = lefts(own_values, k);
      for (int query = 0; query < step / 32; ++query) {
        add(scores, query, key, right_transposed(own_queries, query, k));
        add(d, query, value, right_transposed(own_d_outs, query, k));
      }
    }
    float2 log_sum[step / 16]; // of this lane's columns
    float2 along_d[step / 16];
    for (int eight = 0; eight < step / 16; ++eight) {
      const float* const two = log_sums(turn) + own_query + 8 * eight + 2 * (lane() % 4);
      log_sum[eight] = *reinterpret_cast<const float2*>(two);
      along_d[eight] = *reinterpret_cast<const float2*>(two + step);
    }
#pragma unroll
    for (int i = 0; i < sixteens; ++i) {
      // The first key, counted from the first query.
      const int behind_queries = first + 16 * (own + i) - turn * step - own_query;
      scores[i].each([&](float& score, int row, int column) {
        const float2 two = log_sum[column / 8];
        score = behind_queries + row > column
                    ? 0
                    : power_of_2(score * scale - (column % 2 == 0 ? two.x : two.y));
      });
      if constexpr (Dropping) {
        drop_backward(scores[i], d[i], drops, static_cast<std::uint32_t>(first + 16 * (own + i)),
                      row_keys(turn) + own_query + 2 * (lane() % 4), along_d);
      } else {
        d[i].each([&](float& value, int, int column) {
          const float2 two = along_d[column / 8];
          value -= column % 2 == 0 ? two.x : two.y;
        });
        d[i].multiply(scores[i]);
      }
      scores[i].store(probabilities.part(16 * own, own_query / 8), i);
      d[i].store(d_scores.part(16 * own, own_query / 8), i);
    }
    __syncthreads();
    // Sums over all queries, for the warp's half of the head's values.
    const auto queries_side = queries(turn).part(0, side * (Head / 16));
    const auto d_outs_side = d_outs(turn).part(0, side * (Head / 16));
    const auto own_probabilities = probabilities.part(16 * own, 0);
    const auto own_d_scores = d_scores.part(16 * own, 0);
#pragma unroll
    for (int query = 0; query < step / 16; ++query) {
      const Lefts probability = lefts(own_probabilities, query);
      const Lefts d_score = lefts(own_d_scores, query);
      for (int k = 0; k < Head / 32; ++k) {
        add(d_values, k, probability, right(d_outs_side, query, k));
        add(d_keys, k, d_score, right(queries_side, query, k));
      }
    }
    // Sums over all keys, for the warp's queries and a quarter of the head's values.
    Sums<Head / 4> d_query[sixteens];
    clear(d_query);
    const int quarter = number / 2 * (Head / 4);
    const auto query_d_scores = d_scores.part(0, own_query / 8);
    const auto keys_quarter = keys.part(0, quarter / 8);
#pragma unroll
    for (int key = 0; key < rows / 16; ++key) {
      const Lefts d_score = lefts_transposed(query_d_scores, key);
      for (int k = 0; k < Head / 64; ++k) {
        add(d_query, k, d_score, right(keys_quarter, key, k));
      }
    }
    float* const to = d_queries + (shape.in_queries() + turn * step + own_query) * Head + quarter;
    for (int i = 0; i < sixteens; ++i) {
      for (int eight = 0; eight < Head / 32; ++eight) {
        for (int half = 0; half < 2; ++half) {
          const float* const two = &d_query[i].at[eight][2 * half];
          atomicAdd(reinterpret_cast<float2*>(to + (16 * i + lane() / 4 + 8 * half) * Head +
                                              8 * eight + 2 * (lane() % 4)),
                    make_float2(two[0], two[1]));
        }
      }
    }
  }
  for (int i = 0; i < sixteens; ++i) {
    for (int eight = 0; eight < Head / 16; ++eight) {
      for (int half = 0; half < 2; ++half) {
        const std::size_t row = first + 16 * (own + i) + lane() / 4 + 8 * half;
        const std::size_t at = row * stride + side * (Head / 2) + 8 * eight + 2 * (lane() % 4);
        const float* const key = &d_keys[i].at[eight][2 * half];
        const float* const value = &d_values[i].at[eight][2 * half];
        store_two(d_qkv + shape.in_qkv(1) + at, key[0] * shape.scale, key[1] * shape.scale);
        const float scale_value = Dropping ? drops.scale() : 1.0F;
        store_two(d_qkv + shape.in_qkv(2) + at, value[0] * scale_value, value[1] * scale_value);
      }
    }
  }
}

/// Rounds and scales the gradients of queries, and stores them in d_qkv.
template <int Head>
__global__ void queries_kernel(const float* d_queries, Bf16* d_qkv, FlashShape shape) {
  const std::size_t query = blockIdx.y * block_queries<Head> + threadIdx.x / query_lanes<Head>;
  const std::size_t part = threadIdx.x % query_lanes<Head> * Pack<Bf16>::size;
  const float* const from = d_queries + (shape.in_queries() + query) * Head + part;
  Pack<Bf16> to;
  for (std::size_t i = 0; i < Pack<Bf16>::size; i += Pack<float>::size) {
    const auto four = *reinterpret_cast<const Pack<float>*>(from + i);
    for (std::size_t k = 0; k < Pack<float>::size; ++k) {
      to.at[i + k] = __float2bfloat16(four.at[k] * shape.scale);
    }
  }
  *reinterpret_cast<Pack<Bf16>*>(d_qkv + shape.in_qkv(0) + query * 3 * shape.width() + part) = to;
}

} // namespace transformer::flash
