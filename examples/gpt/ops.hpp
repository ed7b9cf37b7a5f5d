// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shape.hpp"

#include <cstddef>
#include <type_traits>

namespace transformer {

// The arguments of a block's operations, which HostOps and GpuOps both have. Values are Ts, float
// or BFloat16, in device memory, rows back to back; gradients of parameters are floats, to which
// backward adds.

/// out = (in - mean) / deviation * weight + bias, row by row.
template <class T> struct Norm {
  const T* in;
  const T* weight;
  const T* bias;
  T* out;
  float* mean;    ///< The mean of each row, kept for backward.
  float* inverse; ///< 1 / deviation of each row, kept for backward.
};
/// Adds to d_in.
template <class T> struct NormBackward {
  const T* d_out;
  const T* in;
  const T* weight;
  const float* mean;
  const float* inverse;
  T* d_in;
  float* d_weight;
  float* d_bias;
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
  float* d_weight;
  float* d_bias;
  std::size_t in_width;
  std::size_t out_width;
  const T* gelu = nullptr;
};

/// Causal attention of all heads. A row of `qkv` has a token's queries, keys and values, each head
/// by head.
template <class T> struct Attention {
  const T* qkv; ///< rows x 3 width
  T* out;       ///< rows x width
  void* kept;   ///< What backward needs: attention_kept() bytes.
};
template <class T> struct AttentionBackward {
  const T* d_out;
  const T* qkv;
  const T* out;
  const void* kept;
  T* d_qkv;
};

} // namespace transformer
