// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Embeddings, forward and backward.

#include "drop.cuh"
#include "launch.cuh"
#include "ops.hpp"

#include <cstddef>

#include <cuda_runtime.h>

namespace transformer {

/// A warp takes a row.
template <class T, bool Dropping>
__global__ void embedding_kernel(Embedding<T> x, std::size_t rows, std::size_t width,
                                 std::size_t tokens) {
  const std::size_t row = row_of_warp();
  if (row >= rows) {
    return;
  }
  const RowFactors<Dropping> factors{x.drops, row};
  const T* const token = x.token_weight + static_cast<std::size_t>(x.tokens[row]) * width;
  const T* const position = x.position_weight + row % tokens * width;
  each_pack(token, width, [&](std::size_t first, const Pack<T>& of_token) {
    const auto of_position = *reinterpret_cast<const Pack<T>*>(position + first);
    Pack<T> out;
    for (std::size_t i = 0; i < Pack<T>::size; ++i) {
      const float sum = static_cast<float>(of_token.at[i]) + static_cast<float>(of_position.at[i]);
      out.at[i] = static_cast<T>(sum * factors.at(first + i));
    }
    *reinterpret_cast<Pack<T>*>(x.out + row * width + first) = out;
  });
}

/// A thread takes a pack of one position, in all sequences: it alone adds to the position's
/// gradient. Those of tokens are added to by many, 16 bytes at a time.
template <class T, bool Dropping>
__global__ void embedding_backward_kernel(EmbeddingBackward<T> x, std::size_t sequences,
                                          std::size_t tokens, std::size_t width) {
  constexpr std::size_t size = Pack<T>::size;
  const std::size_t thread = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::size_t position = thread / (width / size);
  const std::size_t first = thread % (width / size) * size;
  if (position >= tokens) {
    return;
  }
  float sums[size] = {};
  for (std::size_t sequence = 0; sequence < sequences; ++sequence) {
    const std::size_t row = sequence * tokens + position;
    const RowFactors<Dropping> factors{x.drops, row};
    const auto d_out = *reinterpret_cast<const Pack<T>*>(x.d_out + row * width + first);
    float d[size];
    for (std::size_t i = 0; i < size; ++i) {
      d[i] = static_cast<float>(d_out.at[i]) * factors.at(first + i);
      sums[i] += d[i];
    }
    float* const token = x.d_token_weight + static_cast<std::size_t>(x.tokens[row]) * width + first;
    for (std::size_t i = 0; i < size; i += 4) {
      atomicAdd(reinterpret_cast<float4*>(token + i),
                make_float4(d[i], d[i + 1], d[i + 2], d[i + 3]));
    }
  }
  float* const to = x.d_position_weight + position * width + first;
  for (std::size_t i = 0; i < size; i += 4) {
    auto& four = *reinterpret_cast<Pack<float>*>(to + i);
    Pack<float> sum = four;
    for (std::size_t k = 0; k < 4; ++k) {
      sum.at[k] += sums[i + k];
    }
    four = sum;
  }
}

template <class T> void embed(const Embedding<T>& x, const Shape& shape, cudaStream_t stream) {
  launch_rows(stream, shape.rows(),
              x.drops ? embedding_kernel<T, true> : embedding_kernel<T, false>, x, shape.rows(),
              shape.width, shape.tokens);
}
template <class T>
void embed_backward(const EmbeddingBackward<T>& x, const Shape& shape, cudaStream_t stream) {
  const auto kernel =
      x.drops ? embedding_backward_kernel<T, true> : embedding_backward_kernel<T, false>;
  constexpr unsigned threads = 128;
  const std::size_t packs = shape.tokens * (shape.width / Pack<T>::size);
  kernel<<<static_cast<unsigned>((packs + threads - 1) / threads), threads, 0, stream>>>(
      x, shape.batch, shape.tokens, shape.width);
  check(cudaGetLastError(), "embedding_backward_kernel");
}

} // namespace transformer
