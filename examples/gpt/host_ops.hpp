// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops.hpp"

#include <penstock/float16.hpp>
#include <penstock/host/device.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <vector>

namespace transformer {

/// GELU in tanh's approximation, as cuBLASLt's, and its slope.
/// @{
inline float gelu(float x) {
  const float inner = 0.7978845608F * (x + 0.044715F * x * x * x);
  return 0.5F * x * (1 + std::tanh(inner));
}
inline float gelu_slope(float x) {
  const float t = std::tanh(0.7978845608F * (x + 0.044715F * x * x * x));
  return 0.5F * (1 + t) + 0.5F * x * (1 - t * t) * 0.7978845608F * (1 + 3 * 0.044715F * x * x);
}
/// @}

/// The operations in plain loops, on a host stream: the reference for all others. They compute in
/// floats, and each sum from the first to the last.
template <class T> class HostOps {
 public:
  using value_type = T;
  using device_type = penstock::HostDevice;

  HostOps(penstock::HostDevice& device, const Shape& shape)
      : shape_{shape}, stream_{device.stream()} {}

  penstock::HostStream& stream() noexcept { return stream_; }
  const Shape& shape() const noexcept { return shape_; }

  void norm(const Norm<T>& x) {
    stream_.enqueue([x, rows = shape_.rows(), width = shape_.width] {
      for (std::size_t row = 0; row < rows; ++row) {
        const T* const in = x.in + row * width;
        float sum = 0;
        for (std::size_t i = 0; i < width; ++i) {
          sum += float(in[i]);
        }
        const float mean = sum / static_cast<float>(width);
        float squares = 0;
        for (std::size_t i = 0; i < width; ++i) {
          squares += (float(in[i]) - mean) * (float(in[i]) - mean);
        }
        const float inverse = 1 / std::sqrt(squares / static_cast<float>(width) + norm_epsilon);
        for (std::size_t i = 0; i < width; ++i) {
          x.out[row * width + i] =
              T((float(in[i]) - mean) * inverse * float(x.weight[i]) + float(x.bias[i]));
        }
        x.mean[row] = mean;
        x.inverse[row] = inverse;
      }
    });
  }

  void norm_backward(const NormBackward<T>& x) {
    stream_.enqueue([x, rows = shape_.rows(), width = shape_.width] {
      for (std::size_t row = 0; row < rows; ++row) {
        const T* const in = x.in + row * width;
        const T* const d_out = x.d_out + row * width;
        const auto scaled = [&](std::size_t i) { // the output without weight and bias
          return (float(in[i]) - x.mean[row]) * x.inverse[row];
        };
        float sum = 0;
        float sum_scaled = 0;
        for (std::size_t i = 0; i < width; ++i) {
          const float d = float(d_out[i]) * float(x.weight[i]);
          sum += d;
          sum_scaled += d * scaled(i);
          x.d_weight[i] += float(d_out[i]) * scaled(i);
          x.d_bias[i] += float(d_out[i]);
        }
        const auto n = static_cast<float>(width);
        for (std::size_t i = 0; i < width; ++i) {
          const float d = float(d_out[i]) * float(x.weight[i]);
          T& to = x.d_in[row * width + i];
          to = T(float(to) + (d - sum / n - scaled(i) * sum_scaled / n) * x.inverse[row]);
        }
      }
    });
  }

  void linear(const Linear<T>& x) {
    stream_.enqueue([x, rows = shape_.rows()] {
      for (std::size_t row = 0; row < rows; ++row) {
        for (std::size_t o = 0; o < x.out_width; ++o) {
          float sum = 0;
          for (std::size_t i = 0; i < x.in_width; ++i) {
            sum += float(x.in[row * x.in_width + i]) * float(x.weight[o * x.in_width + i]);
          }
          const std::size_t at = row * x.out_width + o;
          sum += float(x.bias[o]) + (x.residual != nullptr ? float(x.residual[at]) : 0.0F);
          if (x.gelu != nullptr) {
            x.gelu[at] = T(sum);
            sum = gelu(sum);
          }
          x.out[at] = T(sum);
        }
      }
    });
  }

  void linear_backward(const LinearBackward<T>& x) {
    stream_.enqueue([x, rows = shape_.rows()] {
      for (std::size_t row = 0; row < rows; ++row) {
        for (std::size_t o = 0; o < x.out_width; ++o) {
          const float d = float(x.d_out[row * x.out_width + o]);
          x.d_bias[o] += d;
          for (std::size_t i = 0; i < x.in_width; ++i) {
            x.d_weight[o * x.in_width + i] += d * float(x.in[row * x.in_width + i]);
          }
        }
        for (std::size_t i = 0; i < x.in_width; ++i) {
          float sum = 0;
          for (std::size_t o = 0; o < x.out_width; ++o) {
            sum += float(x.d_out[row * x.out_width + o]) * float(x.weight[o * x.in_width + i]);
          }
          const std::size_t at = row * x.in_width + i;
          x.d_in[at] = T(x.gelu != nullptr ? sum * gelu_slope(float(x.gelu[at])) : sum);
        }
      }
    });
  }

  /// Returns the bytes that are kept for backward: the logarithm of each query's sum of
  /// exponentials, from which its probabilities follow.
  std::size_t attention_kept() const noexcept {
    return shape_.heads * shape_.rows() * sizeof(float);
  }

  void attention(const Attention<T>& x) {
    stream_.enqueue([x, shape = shape_] {
      std::vector<float> scores(shape.tokens);
      auto* kept = static_cast<float*>(x.kept);
      each_query(shape, [&](std::size_t batch, std::size_t head, std::size_t token) {
        const View view{shape, batch, head};
        float most = -INFINITY;
        for (std::size_t key = 0; key <= token; ++key) {
          scores[key] = view.dot(x.qkv, token, 0, x.qkv, key, 1) * view.scale();
          most = std::max(most, scores[key]);
        }
        float sum = 0;
        for (std::size_t key = 0; key <= token; ++key) {
          sum += std::exp(scores[key] - most);
        }
        *kept++ = most + std::log(sum);
        for (std::size_t i = 0; i < shape.head(); ++i) {
          float value = 0;
          for (std::size_t key = 0; key <= token; ++key) {
            value += std::exp(scores[key] - most) / sum * float(x.qkv[view.at(key, 2) + i]);
          }
          x.out[view.out(token) + i] = T(value);
        }
      });
    });
  }

  void attention_backward(const AttentionBackward<T>& x) {
    stream_.enqueue([x, shape = shape_] {
      // In floats, since many queries add to one key.
      std::vector<float> d_qkv(3 * shape.values());
      const auto* kept = static_cast<const float*>(x.kept);
      each_query(shape, [&](std::size_t batch, std::size_t head, std::size_t token) {
        const View view{shape, batch, head};
        const float log_sum = *kept++;
        float along = 0; // d_out * out: the sum over all keys of probability * its gradient
        for (std::size_t i = 0; i < shape.head(); ++i) {
          along += float(x.d_out[view.out(token) + i]) * float(x.out[view.out(token) + i]);
        }
        for (std::size_t key = 0; key <= token; ++key) {
          const float score = view.dot(x.qkv, token, 0, x.qkv, key, 1) * view.scale();
          const float probability = std::exp(score - log_sum);
          float d_probability = 0;
          for (std::size_t i = 0; i < shape.head(); ++i) {
            const float d = float(x.d_out[view.out(token) + i]);
            d_probability += d * float(x.qkv[view.at(key, 2) + i]);
            d_qkv[view.at(key, 2) + i] += probability * d;
          }
          const float d_score = probability * (d_probability - along) * view.scale();
          for (std::size_t i = 0; i < shape.head(); ++i) {
            d_qkv[view.at(token, 0) + i] += d_score * float(x.qkv[view.at(key, 1) + i]);
            d_qkv[view.at(key, 1) + i] += d_score * float(x.qkv[view.at(token, 0) + i]);
          }
        }
      });
      std::transform(d_qkv.begin(), d_qkv.end(), x.d_qkv, [](float d) { return T(d); });
    });
  }

  static constexpr float norm_epsilon = 1e-5F;

 private:
  /// Says where a head's values of a token lie; part 0 has queries, 1 keys, 2 values.
  struct View {
    const Shape& shape;
    std::size_t batch;
    std::size_t head;

    std::size_t at(std::size_t token, std::size_t part) const {
      return ((batch * shape.tokens + token) * 3 + part) * shape.width + head * shape.head();
    }
    std::size_t out(std::size_t token) const {
      return (batch * shape.tokens + token) * shape.width + head * shape.head();
    }
    float scale() const { return 1 / std::sqrt(static_cast<float>(shape.head())); }
    float dot(const T* a, std::size_t token_a, std::size_t part_a, const T* b, std::size_t token_b,
              std::size_t part_b) const {
      float sum = 0;
      for (std::size_t i = 0; i < shape.head(); ++i) {
        sum += float(a[at(token_a, part_a) + i]) * float(b[at(token_b, part_b) + i]);
      }
      return sum;
    }
  };
  template <class F> static void each_query(const Shape& shape, F f) {
    for (std::size_t batch = 0; batch < shape.batch; ++batch) {
      for (std::size_t head = 0; head < shape.heads; ++head) {
        for (std::size_t token = 0; token < shape.tokens; ++token) {
          f(batch, head, token);
        }
      }
    }
  }

  Shape shape_;
  penstock::HostStream stream_;
};

} // namespace transformer
