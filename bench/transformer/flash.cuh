// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Causal attention in one kernel, bf16 on tensor cores: scores never reach memory. Forward keeps,
// for each query, the binary logarithm of its sum of exponentials, from which backward computes its
// probabilities again. The method is that of FlashAttention-2 (Dao, arXiv:2307.08691).

#include "launch.cuh"
#include "ops.hpp"
#include "tiles.cuh"

#include <penstock/cuda.hpp>
#include <penstock/device_array.hpp>
#include <penstock/error.hpp>
#include <penstock/float16.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include <cuda_bf16.h>
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
/// 2^x, to two units in the last place, and 0 for what would be denormal.
__device__ inline float power_of_2(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}

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

} // namespace flash

/// Attention in one kernel forward and three backward.
class FlashAttention {
 public:
  /// Heads have 64 or 128 values, and sequences a multiple of 128 tokens.
  FlashAttention(penstock::CudaDevice& gpu, const Shape& shape)
      : shape_{checked(shape)}, along_{gpu, shape.batch * shape.heads * shape.tokens},
        d_queries_{gpu, shape.values()} {
    shape.head() == 64 ? allow<64>() : allow<128>();
  }

  /// A float for each query of each head.
  std::size_t kept() const noexcept { return along_.size() * sizeof(float); }

  void forward(const Attention<penstock::BFloat16>& x, cudaStream_t stream) {
    shape_.head() == 64 ? forward<64>(x, stream) : forward<128>(x, stream);
  }
  void backward(const AttentionBackward<penstock::BFloat16>& x, cudaStream_t stream) {
    shape_.head() == 64 ? backward<64>(x, stream) : backward<128>(x, stream);
  }

 private:
  static const Shape& checked(const Shape& shape) {
    if ((shape.head() != 64 && shape.head() != 128) || shape.tokens % flash::rows != 0) {
      throw penstock::OptionError{"fused attention is for heads of 64 or 128 values and multiples "
                                  "of 128 tokens, not for heads of " +
                                  std::to_string(shape.head()) + " and " +
                                  std::to_string(shape.tokens) + " tokens"};
    }
    return shape;
  }
  template <int Head> static void allow() {
    const auto set = [](const void* kernel, std::size_t bytes) {
      check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(bytes)),
            "cudaFuncSetAttribute");
    };
    set(reinterpret_cast<const void*>(&flash::forward<Head>), flash::forward_bytes<Head>);
    set(reinterpret_cast<const void*>(&flash::backward<Head>), flash::backward_bytes<Head>);
  }
  static const Bf16* bits(const void* at) { return static_cast<const Bf16*>(at); }
  static Bf16* bits(void* at) { return static_cast<Bf16*>(at); }

  FlashShape of_heads() const {
    return {shape_.tokens, shape_.heads, shape_.width,
            1 / std::sqrt(static_cast<float>(shape_.head()))};
  }
  dim3 blocks(std::size_t rows) const {
    return {static_cast<unsigned>(shape_.tokens / rows),
            static_cast<unsigned>(shape_.batch * shape_.heads)};
  }

  template <int Head>
  void forward(const Attention<penstock::BFloat16>& x, cudaStream_t stream) {
    flash::forward<Head>
        <<<blocks(flash::rows), flash::forward_threads, flash::forward_bytes<Head>, stream>>>(
            bits(x.qkv), bits(x.out), static_cast<float*>(x.kept), of_heads());
    check(cudaGetLastError(), "flash::forward");
  }
  template <int Head>
  void backward(const AttentionBackward<penstock::BFloat16>& x, cudaStream_t stream) {
    const dim3 warp_each = blocks(flash::warps);
    flash::along_kernel<<<warp_each, flash::threads, 0, stream>>>(bits(x.d_out), bits(x.out),
                                                                  along_.data(), of_heads());
    check(cudaGetLastError(), "flash::along_kernel");
    check(cudaMemsetAsync(d_queries_.data(), 0, d_queries_.size() * sizeof(float), stream),
          "cudaMemsetAsync");
    flash::backward<Head>
        <<<blocks(flash::rows), flash::threads, flash::backward_bytes<Head>, stream>>>(
            bits(x.qkv), bits(x.d_out), static_cast<const float*>(x.kept), along_.data(),
            d_queries_.data(), bits(x.d_qkv), of_heads());
    check(cudaGetLastError(), "flash::backward");
    flash::queries_kernel<<<warp_each, flash::threads, 0, stream>>>(d_queries_.data(),
                                                                    bits(x.d_qkv), of_heads());
    check(cudaGetLastError(), "flash::queries_kernel");
  }

  Shape shape_;
  penstock::DeviceArray<float, penstock::CudaDevice> along_;
  penstock::DeviceArray<float, penstock::CudaDevice> d_queries_;
};

} // namespace transformer
