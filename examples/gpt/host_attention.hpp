// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Causal attention on the host, head by head.

#include "host_products.hpp"
#include "ops.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

namespace transformer::host {

/// One head of one sequence.
template <class T> class Head {
 public:
  using W = Wide<T>;
  using Values = std::vector<W>;

  /// The matrices in a row of `qkv`.
  enum Part : std::size_t { queries, keys, values };

  Head(const Shape& shape, std::size_t sequence, std::size_t head)
      : tokens_{shape.tokens}, size_{shape.head()}, width_{shape.width},
        first_row_{sequence * shape.tokens}, column_{head * shape.head()},
        first_query_{(sequence * shape.heads + head) * shape.tokens},
        scale_{1 / std::sqrt(static_cast<W>(shape.head()))} {}

  /// Returns where the head's values of the batch's array with one for each query begin.
  std::size_t first_query() const noexcept { return first_query_; }

  Values read(const T* qkv, Part part) const {
    return read(qkv + first_row_ * 3 * width_ + part * width_ + column_, 3 * width_);
  }
  Values read(const T* values_of_rows) const {
    return read(values_of_rows + first_row_ * width_ + column_, width_);
  }
  void write(T* qkv, Part part, const Values& from) const {
    write(qkv + first_row_ * 3 * width_ + part * width_ + column_, 3 * width_, from);
  }
  void write(T* values_of_rows, const Values& from) const {
    write(values_of_rows + first_row_ * width_ + column_, width_, from);
  }

  /// Returns the scores of all keys for all queries, also of those that a query must not see.
  Values scores(const T* qkv) const {
    Values all = against(read(qkv, queries), read(qkv, keys));
    std::transform(all.begin(), all.end(), all.begin(), [this](W score) { return score * scale_; });
    return all;
  }
  /// Returns a * b^T, for each pair of tokens.
  Values against(const Values& a, const Values& b) const {
    Values all(tokens_ * tokens_);
    const Values turned = transposed(b.data(), tokens_, size_);
    add_product<W>({a.data(), size_, 1}, turned.data(), all.data(), tokens_, size_, tokens_);
    return all;
  }
  /// Returns pairs * a, or pairs^T * a: a row of values for each token.
  /// @{
  Values times(const Values& pairs, const Values& a) const {
    return times(Left<W>{pairs.data(), tokens_, 1}, a);
  }
  Values times_transposed(const Values& pairs, const Values& a) const {
    return times(Left<W>{pairs.data(), 1, tokens_}, a);
  }
  /// @}

  /// Multiplies each query's probabilities by what dropout makes of them.
  void drop(const Drops& drops, Values& probabilities) const {
    if (!drops) {
      return;
    }
    const auto scale = static_cast<W>(drops.scale());
    for (std::size_t query = 0; query < tokens_; ++query) {
      const DropRow row = drops.row(first_query_ + query);
      for (std::size_t key = 0; key <= query; ++key) {
        probabilities[query * tokens_ + key] *=
            row.keeps(static_cast<std::uint32_t>(key)) ? scale : W{0};
      }
    }
  }

  W scale() const noexcept { return scale_; }

 private:
  Values read(const T* from, std::size_t stride) const {
    Values to(tokens_ * size_);
    for (std::size_t i = 0; i < to.size(); ++i) {
      to[i] = static_cast<W>(from[i / size_ * stride + i % size_]);
    }
    return to;
  }
  void write(T* to, std::size_t stride, const Values& from) const {
    for (std::size_t i = 0; i < from.size(); ++i) {
      to[i / size_ * stride + i % size_] = static_cast<T>(from[i]);
    }
  }
  Values times(Left<W> pairs, const Values& a) const {
    Values all(tokens_ * size_);
    add_product<W>(pairs, a.data(), all.data(), tokens_, tokens_, size_);
    return all;
  }

  std::size_t tokens_, size_, width_;
  std::size_t first_row_, column_, first_query_;
  W scale_;
};

template <class T, class F> void each_head(const Shape& shape, F f) {
  for (std::size_t sequence = 0; sequence < shape.batch; ++sequence) {
    for (std::size_t head = 0; head < shape.heads; ++head) {
      f(Head<T>{shape, sequence, head});
    }
  }
}

/// Turns scores of keys up to the query's own into probabilities, and those behind it into 0.
/// `log_sum(query, row)` gives the logarithm of a query's sum of exponentials.
template <class W, class F>
void to_probabilities(std::vector<W>& scores, std::size_t tokens, F log_sum) {
  for (std::size_t query = 0; query < tokens; ++query) {
    W* const row = scores.data() + query * tokens;
    const W of_query = log_sum(query, row);
    std::transform(row, row + query + 1, row,
                   [of_query](W score) { return std::exp(score - of_query); });
    std::fill(row + query + 1, row + tokens, W{0});
  }
}

template <class T> void attention(const Attention<T>& x, const Shape& shape) {
  using W = Wide<T>;
  each_head<T>(shape, [&](const Head<T>& head) {
    W* const kept = static_cast<W*>(x.kept) + head.first_query();
    std::vector<W> pairs = head.scores(x.qkv);
    to_probabilities(pairs, shape.tokens, [&](std::size_t query, const W* row) {
      const W most = *std::max_element(row, row + query + 1);
      W sum = 0;
      for (std::size_t key = 0; key <= query; ++key) {
        sum += std::exp(row[key] - most);
      }
      return kept[query] = most + std::log(sum);
    });
    head.drop(x.drops, pairs);
    head.write(x.out, head.times(pairs, head.read(x.qkv, Head<T>::values)));
  });
}

template <class T> void attention_backward(const AttentionBackward<T>& x, const Shape& shape) {
  using W = Wide<T>;
  const std::size_t n = shape.tokens;
  each_head<T>(shape, [&](const Head<T>& head) {
    const W* const kept = static_cast<const W*>(x.kept) + head.first_query();
    std::vector<W> probabilities = head.scores(x.qkv);
    to_probabilities(probabilities, n, [&](std::size_t query, const W*) { return kept[query]; });
    const std::vector<W> d_out = head.read(x.d_out);
    const std::vector<W> out = head.read(x.out);
    std::vector<W> d = head.against(d_out, head.read(x.qkv, Head<T>::values));
    head.drop(x.drops, d);
    for (std::size_t query = 0; query < n; ++query) {
      W along = 0; // d_out * out: the sum over all keys of probability * its gradient
      for (std::size_t i = query * shape.head(); i < (query + 1) * shape.head(); ++i) {
        along += d_out[i] * out[i];
      }
      for (std::size_t at = query * n; at < (query + 1) * n; ++at) {
        d[at] = probabilities[at] * (d[at] - along) * head.scale();
      }
    }
    head.write(x.d_qkv, Head<T>::queries, head.times(d, head.read(x.qkv, Head<T>::keys)));
    head.write(x.d_qkv, Head<T>::keys,
               head.times_transposed(d, head.read(x.qkv, Head<T>::queries)));
    head.drop(x.drops, probabilities);
    head.write(x.d_qkv, Head<T>::values, head.times_transposed(probabilities, d_out));
  });
}

} // namespace transformer::host
