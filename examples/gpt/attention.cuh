// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Causal attention as its formula has it: it writes all scores of a head to memory, makes
// probabilities of them there, and reads them again. Its memory and its traffic grow with the
// square of the tokens.

#include "drop.cuh"
#include "launch.cuh"
#include "ops.hpp"
#include "products.hpp"

#include <penstock/cuda.hpp>
#include <penstock/device/device_array.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>

#include <cuda_runtime.h>

namespace transformer {

/// Sequences, heads and tokens as the products see them.
struct HeadView {
  std::int64_t width, head, tokens;
  int heads;

  /// Returns the matrix of queries, keys or values of one sequence: a column for each token.
  template <class T> Product::Matrix in_qkv(bool transposed = false) const {
    return {data_type<T>, 3 * width, head, transposed};
  }
  template <class T> Product::Matrix in_out(bool transposed = false) const {
    return {data_type<T>, width, head, transposed};
  }
  /// Returns the matrix of scores: a column for each query.
  template <class T> Product::Matrix in_scores(bool transposed = false) const {
    return {data_type<T>, tokens, tokens * tokens, transposed};
  }
};

/// Turns scores of keys up to the query's own into probabilities, and those behind it into 0.
template <class T> __global__ void softmax_kernel(T* scores, std::size_t queries, unsigned tokens) {
  const std::size_t query = row_of_warp();
  if (query >= queries) {
    return;
  }
  T* const row = scores + query * tokens;
  const unsigned keys = static_cast<unsigned>(query % tokens) + 1;
  float most = -INFINITY;
  for (unsigned key = lane(); key < keys; key += warp) {
    most = fmaxf(most, static_cast<float>(row[key]));
  }
  most = warp_max(most);
  float sum = 0;
  for (unsigned key = lane(); key < keys; key += warp) {
    sum += __expf(static_cast<float>(row[key]) - most);
  }
  const float inverse = 1 / warp_sum(sum);
  for (unsigned key = lane(); key < tokens; key += warp) {
    row[key] =
        static_cast<T>(key < keys ? __expf(static_cast<float>(row[key]) - most) * inverse : 0.0F);
  }
}

/// Turns gradients of probabilities, from which some may have been dropped, into those of scores
/// before they were scaled. The first of the queries is number `first` of the batch.
template <class T, bool Dropping>
__global__ void softmax_backward_kernel(const T* probabilities, T* d, std::size_t queries,
                                        unsigned tokens, float scale, Drops drops,
                                        std::size_t first) {
  const std::size_t query = row_of_warp();
  if (query >= queries) {
    return;
  }
  const RowFactors<Dropping> factors{drops, first + query};
  const T* const p = probabilities + query * tokens;
  T* const row = d + query * tokens;
  float along = 0;
  for (unsigned key = lane(); key < tokens; key += warp) {
    along += static_cast<float>(p[key]) * static_cast<float>(row[key]) * factors.at(key);
  }
  along = warp_sum(along);
  for (unsigned key = lane(); key < tokens; key += warp) {
    const float of_probability = static_cast<float>(row[key]) * factors.at(key);
    row[key] = static_cast<T>(static_cast<float>(p[key]) * (of_probability - along) * scale);
  }
}

/// Attention by separate products and kernels.
template <class T> class UnfusedAttention {
 public:
  UnfusedAttention(penstock::CudaDevice& gpu, const Shape& shape, Products& products)
      : shape_{shape}, products_{products},
        view_{static_cast<std::int64_t>(shape.width), static_cast<std::int64_t>(shape.head()),
              static_cast<std::int64_t>(shape.tokens), static_cast<int>(shape.heads)},
        d_scores_{gpu, sequence_scores()} {}

  /// Returns the bytes that are kept for backward: the probabilities.
  std::size_t kept() const noexcept { return shape_.batch * sequence_scores() * sizeof(T); }

  void forward(const Attention<T>& x, cudaStream_t stream) {
    const auto n = view_.tokens;
    const float scale = 1 / std::sqrt(static_cast<float>(view_.head));
    for (std::size_t sequence = 0; sequence < shape_.batch; ++sequence) {
      const T* const qkv = x.qkv + sequence * shape_.tokens * 3 * shape_.width;
      T* const scores = static_cast<T*>(x.kept) + sequence * sequence_scores();
      products_({n, n, view_.head, view_.in_qkv<T>(true), view_.in_qkv<T>(), view_.in_scores<T>(),
                 view_.heads},
                {.a = keys(qkv), .b = qkv, .c = scores, .alpha = scale}, stream);
      launch_rows(stream, queries(), softmax_kernel<T>, scores, queries(),
                  static_cast<unsigned>(n));
      products_({view_.head, n, n, view_.in_qkv<T>(), view_.in_scores<T>(), view_.in_out<T>(),
                 view_.heads},
                {.a = values(qkv),
                 .b = dropped(x.drops, scores, sequence, stream),
                 .c = x.out + sequence * shape_.tokens * shape_.width},
                stream);
    }
  }

  void backward(const AttentionBackward<T>& x, cudaStream_t stream) {
    const auto n = view_.tokens;
    const float scale = 1 / std::sqrt(static_cast<float>(view_.head));
    T* const d_scores = d_scores_.data();
    for (std::size_t sequence = 0; sequence < shape_.batch; ++sequence) {
      const T* const qkv = x.qkv + sequence * shape_.tokens * 3 * shape_.width;
      T* const d_qkv = x.d_qkv + sequence * shape_.tokens * 3 * shape_.width;
      const T* const d_out = x.d_out + sequence * shape_.tokens * shape_.width;
      const T* const kept = static_cast<const T*>(x.kept) + sequence * sequence_scores();
      // The gradients of the values, and of the probabilities.
      products_({view_.head, n, n, view_.in_out<T>(), view_.in_scores<T>(true), view_.in_qkv<T>(),
                 view_.heads},
                {.a = d_out, .b = dropped(x.drops, kept, sequence, stream), .c = values(d_qkv)},
                stream);
      products_({n, n, view_.head, view_.in_qkv<T>(true), view_.in_out<T>(), view_.in_scores<T>(),
                 view_.heads},
                {.a = values(qkv), .b = d_out, .c = d_scores}, stream);
      launch_rows(stream, queries(),
                  x.drops ? softmax_backward_kernel<T, true> : softmax_backward_kernel<T, false>,
                  kept, d_scores, queries(), static_cast<unsigned>(n), scale, x.drops,
                  sequence * queries());
      // The gradients of the queries, and of the keys.
      products_({view_.head, n, n, view_.in_qkv<T>(), view_.in_scores<T>(), view_.in_qkv<T>(),
                 view_.heads},
                {.a = keys(qkv), .b = d_scores, .c = d_qkv}, stream);
      products_({view_.head, n, n, view_.in_qkv<T>(), view_.in_scores<T>(true), view_.in_qkv<T>(),
                 view_.heads},
                {.a = qkv, .b = d_scores, .c = keys(d_qkv)}, stream);
    }
  }

 private:
  std::size_t sequence_scores() const noexcept {
    return shape_.heads * shape_.tokens * shape_.tokens;
  }
  std::size_t queries() const noexcept { return shape_.heads * shape_.tokens; }
  // Returns the probabilities of a sequence as they are, or what dropout leaves of them, in the
  // place of the gradients of scores.
  const T* dropped(const Drops& drops, const T* probabilities, std::size_t sequence,
                   cudaStream_t stream) {
    if (!drops) {
      return probabilities;
    }
    launch_rows(stream, queries(), drop_probabilities_kernel<T>, probabilities, d_scores_.data(),
                drops, sequence * queries(), queries(), static_cast<unsigned>(view_.tokens));
    return d_scores_.data();
  }
  template <class U> U* keys(U* qkv) const noexcept { return qkv + shape_.width; }
  template <class U> U* values(U* qkv) const noexcept { return qkv + 2 * shape_.width; }

  Shape shape_;
  Products& products_;
  HeadView view_;
  penstock::DeviceArray<T, penstock::CudaDevice> d_scores_; // of one sequence
};

} // namespace transformer
