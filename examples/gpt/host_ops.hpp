// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "host_attention.hpp"
#include "host_products.hpp"
#include "host_rows.hpp"
#include "ops.hpp"

#include <penstock/data/float16.hpp>
#include <penstock/host/device.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

namespace transformer {

/// GELU in tanh's approximation, as cuBLASLt's, and its slope.
/// @{
template <class W> W gelu(W x) {
  const W inner = W(0.7978845608) * (x + W(0.044715) * x * x * x);
  return W(0.5) * x * (1 + std::tanh(inner));
}
template <class W> W gelu_slope(W x) {
  const W t = std::tanh(W(0.7978845608) * (x + W(0.044715) * x * x * x));
  const W inner_slope = W(0.7978845608) * (1 + 3 * W(0.044715) * x * x);
  return W(0.5) * (1 + t) + W(0.5) * x * (1 - t * t) * inner_slope;
}
/// @}

/// The operations in plain loops, on a host stream: the reference for all others. They compute in
/// floats, or in doubles if T is double.
template <class T> class HostOps {
 public:
  using value_type = T;
  using device_type = penstock::HostDevice;
  using W = Wide<T>;

  HostOps(penstock::HostDevice& device, const Shape& shape)
      : shape_{shape}, stream_{device.stream()} {}

  penstock::HostStream& stream() noexcept { return stream_; }
  const Shape& shape() const noexcept { return shape_; }

  void norm(const Norm<T>& x) {
    stream_.enqueue([x, s = shape_] { host::norm(x, s.rows(), s.width, norm_epsilon); });
  }
  void norm_backward(const NormBackward<T>& x) {
    stream_.enqueue([x, s = shape_] { host::norm_backward(x, s.rows(), s.width); });
  }

  void linear(const Linear<T>& x) {
    stream_.enqueue([x, rows = shape_.rows()] {
      const std::vector<W> sums = host::product(x.in, x.weight, rows, x.in_width, x.out_width);
      for (std::size_t at = 0; at < sums.size(); ++at) {
        W sum = sums[at] + static_cast<W>(x.bias[at % x.out_width]);
        sum += x.residual != nullptr ? static_cast<W>(x.residual[at]) : W{0};
        if (x.gelu != nullptr) {
          x.gelu[at] = static_cast<T>(sum);
          sum = gelu(sum);
        }
        x.out[at] = static_cast<T>(sum);
      }
    });
  }
  void linear_backward(const LinearBackward<T>& x) {
    stream_.enqueue([x, rows = shape_.rows()] {
      for (std::size_t at = 0; at < rows * x.out_width; ++at) {
        x.d_bias[at % x.out_width] += static_cast<W>(x.d_out[at]);
      }
      host::product_backward_weight(x.d_out, x.in, x.d_weight, rows, x.in_width, x.out_width);
      const std::vector<W> sums =
          host::product_backward_in(x.d_out, x.weight, rows, x.in_width, x.out_width);
      for (std::size_t at = 0; at < sums.size(); ++at) {
        const W slope = x.gelu != nullptr ? gelu_slope(static_cast<W>(x.gelu[at])) : W{1};
        x.d_in[at] = static_cast<T>(sums[at] * slope);
      }
    });
  }

  /// Returns the bytes that are kept for backward: the logarithm of each query's sum of
  /// exponentials, from which its probabilities follow.
  std::size_t attention_kept() const noexcept { return shape_.heads * shape_.rows() * sizeof(W); }
  void attention(const Attention<T>& x) {
    stream_.enqueue([x, s = shape_] { host::attention(x, s); });
  }
  void attention_backward(const AttentionBackward<T>& x) {
    stream_.enqueue([x, s = shape_] { host::attention_backward(x, s); });
  }

  void drop(const Drop<T>& x) {
    stream_.enqueue([x, s = shape_] { host::drop(x, s.rows(), s.width); });
  }
  void embedding(const Embedding<T>& x) {
    stream_.enqueue([x, s = shape_] { host::embedding(x, s); });
  }
  void embedding_backward(const EmbeddingBackward<T>& x) {
    stream_.enqueue([x, s = shape_] { host::embedding_backward(x, s); });
  }

  void logits(const Logits<T>& x) {
    stream_.enqueue([x, width = shape_.width] {
      to_values(host::product(x.in, x.weight, x.rows, width, x.columns), x.logits);
    });
  }
  void logits_backward(const LogitsBackward<T>& x) {
    stream_.enqueue([x, width = shape_.width] {
      host::product_backward_weight(x.d_logits, x.in, x.d_weight, x.rows, width, x.columns);
      to_values(host::product_backward_in(x.d_logits, x.weight, x.rows, width, x.columns), x.d_in);
    });
  }
  void cross_entropy(const CrossEntropy<T>& x) {
    stream_.enqueue([x] { host::cross_entropy(x); });
  }

  static constexpr float norm_epsilon = 1e-5F;

 private:
  static void to_values(const std::vector<W>& from, T* to) {
    std::transform(from.begin(), from.end(), to, [](W value) { return static_cast<T>(value); });
  }

  Shape shape_;
  penstock::HostStream stream_;
};

} // namespace transformer
