// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// On the host, what is done to each row of values by itself: layer norm, dropout, embeddings, and
// the loss.

#include "ops.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace transformer::host {

template <class T>
void norm(const Norm<T>& x, std::size_t rows, std::size_t width, float epsilon) {
  using W = Wide<T>;
  for (std::size_t row = 0; row < rows; ++row) {
    const T* const in = x.in + row * width;
    W sum = 0;
    for (std::size_t i = 0; i < width; ++i) {
      sum += static_cast<W>(in[i]);
    }
    const W mean = sum / static_cast<W>(width);
    W squares = 0;
    for (std::size_t i = 0; i < width; ++i) {
      squares += (static_cast<W>(in[i]) - mean) * (static_cast<W>(in[i]) - mean);
    }
    const W inverse = 1 / std::sqrt(squares / static_cast<W>(width) + static_cast<W>(epsilon));
    for (std::size_t i = 0; i < width; ++i) {
      x.out[row * width + i] =
          static_cast<T>((static_cast<W>(in[i]) - mean) * inverse * static_cast<W>(x.weight[i]) +
                         static_cast<W>(x.bias[i]));
    }
    x.mean[row] = mean;
    x.inverse[row] = inverse;
  }
}

template <class T>
void norm_backward(const NormBackward<T>& x, std::size_t rows, std::size_t width) {
  using W = Wide<T>;
  const auto n = static_cast<W>(width);
  for (std::size_t row = 0; row < rows; ++row) {
    const T* const in = x.in + row * width;
    const T* const d_out = x.d_out + row * width;
    const auto scaled = [&](std::size_t i) { // the output without weight and bias
      return (static_cast<W>(in[i]) - x.mean[row]) * x.inverse[row];
    };
    W sum = 0;
    W sum_scaled = 0;
    for (std::size_t i = 0; i < width; ++i) {
      const W d = static_cast<W>(d_out[i]) * static_cast<W>(x.weight[i]);
      sum += d;
      sum_scaled += d * scaled(i);
      x.d_weight[i] += static_cast<W>(d_out[i]) * scaled(i);
      x.d_bias[i] += static_cast<W>(d_out[i]);
    }
    for (std::size_t i = 0; i < width; ++i) {
      const W d = static_cast<W>(d_out[i]) * static_cast<W>(x.weight[i]);
      const std::size_t at = row * width + i;
      const W before = x.adds ? static_cast<W>(x.d_in[at]) : W{0};
      const W rest = x.rest != nullptr ? static_cast<W>(x.rest[at]) : W{0};
      const W all = before + rest + (d - sum / n - scaled(i) * sum_scaled / n) * x.inverse[row];
      x.d_in[at] = static_cast<T>(all);
      if (x.rest != nullptr) {
        x.rest[at] = static_cast<T>(all - static_cast<W>(x.d_in[at]));
      }
    }
  }
}

/// Returns the factor that dropout gives a value: 0, or more than 1.
template <class W> W factor(const Drops& drops, const DropRow& row, std::size_t column) {
  return row.keeps(static_cast<std::uint32_t>(column)) ? static_cast<W>(drops.scale()) : W{0};
}

template <class T> void drop(const Drop<T>& x, std::size_t rows, std::size_t width) {
  using W = Wide<T>;
  for (std::size_t row = 0; row < rows; ++row) {
    const DropRow drops = x.drops.row(row);
    for (std::size_t i = 0; i < width; ++i) {
      const std::size_t at = row * width + i;
      const W value = static_cast<W>(x.in[at]) * factor<W>(x.drops, drops, i);
      x.out[at] =
          static_cast<T>(value + (x.residual != nullptr ? static_cast<W>(x.residual[at]) : W{0}));
    }
  }
}

template <class T> void embedding(const Embedding<T>& x, const Shape& shape) {
  using W = Wide<T>;
  const std::size_t width = shape.width;
  for (std::size_t row = 0; row < shape.rows(); ++row) {
    const T* const token = x.token_weight + static_cast<std::size_t>(x.tokens[row]) * width;
    const T* const position = x.position_weight + row % shape.tokens * width;
    const DropRow drops = x.drops ? x.drops.row(row) : DropRow{};
    for (std::size_t i = 0; i < width; ++i) {
      const W sum = static_cast<W>(token[i]) + static_cast<W>(position[i]);
      x.out[row * width + i] = static_cast<T>(x.drops ? sum * factor<W>(x.drops, drops, i) : sum);
    }
  }
}

template <class T> void embedding_backward(const EmbeddingBackward<T>& x, const Shape& shape) {
  using W = Wide<T>;
  const std::size_t width = shape.width;
  for (std::size_t row = 0; row < shape.rows(); ++row) {
    W* const token = x.d_token_weight + static_cast<std::size_t>(x.tokens[row]) * width;
    W* const position = x.d_position_weight + row % shape.tokens * width;
    const DropRow drops = x.drops ? x.drops.row(row) : DropRow{};
    for (std::size_t i = 0; i < width; ++i) {
      W d = static_cast<W>(x.d_out[row * width + i]);
      d *= x.drops ? factor<W>(x.drops, drops, i) : W{1};
      token[i] += d;
      position[i] += d;
    }
  }
}

template <class T> void cross_entropy(const CrossEntropy<T>& x) {
  using W = Wide<T>;
  for (std::size_t row = 0; row < x.rows; ++row) {
    T* const logits = x.logits + row * x.columns;
    const auto target = static_cast<std::size_t>(x.targets[row]);
    W most = static_cast<W>(logits[0]);
    for (std::size_t i = 1; i < x.vocabulary; ++i) {
      most = std::max(most, static_cast<W>(logits[i]));
    }
    W sum = 0;
    for (std::size_t i = 0; i < x.vocabulary; ++i) {
      sum += std::exp(static_cast<W>(logits[i]) - most);
    }
    const W log_sum = most + std::log(sum);
    x.losses[row] = log_sum - static_cast<W>(logits[target]);
    if (!x.backward) {
      continue;
    }
    for (std::size_t i = 0; i < x.columns; ++i) {
      const W probability = i < x.vocabulary ? std::exp(static_cast<W>(logits[i]) - log_sum) : W{0};
      logits[i] =
          static_cast<T>((probability - (i == target ? W{1} : W{0})) * static_cast<W>(x.scale));
    }
  }
}

} // namespace transformer::host
