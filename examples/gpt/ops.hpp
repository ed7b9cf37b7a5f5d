// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dropout.hpp"
#include "shape.hpp"

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace transformer {

// The arguments of a model's operations, which HostOps and GpuOps both have. Values are Ts, float
// or BFloat16, in device memory, rows back to back. Gradients of parameters are floats, to which
// backward adds. HostOps takes doubles too, to check gradients with.

/// What Ts are added up in: float, or double for doubles.
template <class T> using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// out = (in - mean) / deviation * weight + bias, row by row.
template <class T> struct Norm {
  const T* in;
  const T* weight;
  const T* bias;
  T* out;
  Wide<T>* mean;    ///< The mean of each row, kept for backward.
  Wide<T>* inverse; ///< 1 / deviation of each row, kept for backward.
};
template <class T> struct NormBackward {
  const T* d_out;
  const T* in;
  const T* weight;
  const Wide<T>* mean;
  const Wide<T>* inverse;
  T* d_in;
  Wide<T>* d_weight;
  Wide<T>* d_bias;
  bool adds = true;  ///< Whether to add to d_in, rather than to set it.
  T* rest = nullptr; ///< Is added to d_in, and gets what rounding takes from it; or none.
};

/// A matrix product and what goes with it. With `gelu`, out = gelu(in * weight^T + bias); without
/// it, out = in * weight^T + bias + residual.
template <class T> struct Linear {
  const T* in;     ///< rows x in_width
  const T* weight; ///< out_width x in_width
  const T* bias;
  T* out; ///< rows x out_width
  std::size_t in_width;
  std::size_t out_width;
  const T* residual = nullptr; ///< As large as `out`, which it may be; or none.
  T* gelu = nullptr;           ///< Where GELU's input is kept for backward; null without GELU.
};
/// d_in = d_out * weight, times GELU's slope at `gelu` if `in` came out of one.
template <class T> struct LinearBackward {
  const T* d_out;
  const T* in;
  const T* weight;
  T* d_in;
  Wide<T>* d_weight;
  Wide<T>* d_bias;
  std::size_t in_width;
  std::size_t out_width;
  const T* gelu = nullptr;
};

/// Causal attention of all heads. A row of `qkv` has a token's queries, keys and values, each head
/// by head.
template <class T> struct Attention {
  const T* qkv;     ///< rows x 3 width
  T* out;           ///< rows x width
  void* kept;       ///< What backward needs: attention_kept() bytes.
  Drops drops = {}; ///< Of probabilities: a row for each query of a head of a sequence.
};
template <class T> struct AttentionBackward {
  const T* d_out;
  const T* qkv;
  const T* out;
  const void* kept;
  T* d_qkv;
  Drops drops = {};
};

/// out = in with some values dropped, + residual.
template <class T> struct Drop {
  const T* in;
  T* out; ///< It may be `in`.
  Drops drops;
  const T* residual = nullptr; ///< Or none.
};

/// out = the embedding of a row's token + that of its position, with some values dropped.
template <class T> struct Embedding {
  const std::int32_t* tokens; ///< One for each row, each below the vocabulary.
  const T* token_weight;      ///< A row for each token.
  const T* position_weight;   ///< A row for each token of a sequence.
  T* out;
  Drops drops = {};
};
template <class T> struct EmbeddingBackward {
  const T* d_out;
  const std::int32_t* tokens;
  Wide<T>* d_token_weight;
  Wide<T>* d_position_weight;
  Drops drops = {};
};

/// logits = in * weight^T, for some rows of the batch.
template <class T> struct Logits {
  const T* in;
  const T* weight; ///< A row for each token, `columns` in all.
  T* logits;
  std::size_t rows;
  std::size_t columns;
};
/// d_in = d_logits * weight. It is written last: it may be `in`.
template <class T> struct LogitsBackward {
  const T* d_logits;
  const T* in;
  const T* weight;
  T* d_in;
  Wide<T>* d_weight;
  std::size_t rows;
  std::size_t columns;
};

/// The loss of each row: the negative logarithm of its target's probability, which is the softmax
/// of the first `vocabulary` logits.
template <class T> struct CrossEntropy {
  T* logits;                   ///< With `backward`, their gradients take their place.
  const std::int32_t* targets; ///< One for each row, each below the vocabulary.
  Wide<T>* losses;
  std::size_t rows;
  std::size_t columns; ///< Those from `vocabulary` on are padding: their gradients are 0.
  std::size_t vocabulary;
  float scale = 1; ///< Factor of the gradients.
  bool backward = false;
};

} // namespace transformer
