// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Matrix products on the host, without a library: as fast as loops are that a compiler vectorises.

#include "ops.hpp"

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <vector>

namespace transformer::host {

/// Values as they are added up: a copy, unless they are of that type already.
template <class T> class Widened {
 public:
  Widened(const T* from, std::size_t count) : at_{nullptr} {
    if constexpr (std::is_same_v<T, Wide<T>>) {
      at_ = from;
    } else {
      copy_.resize(count);
      std::transform(from, from + count, copy_.begin(),
                     [](const T& value) { return static_cast<Wide<T>>(value); });
      at_ = copy_.data();
    }
  }
  Widened(const Widened&) = delete;
  Widened& operator=(const Widened&) = delete;
  const Wide<T>* data() const noexcept { return at_; }

 private:
  std::vector<Wide<T>> copy_;
  const Wide<T>* at_;
};

/// Returns the transpose of a matrix of `rows` x `columns`, as it is added up.
template <class T>
std::vector<Wide<T>> transposed(const T* from, std::size_t rows, std::size_t columns) {
  std::vector<Wide<T>> to(rows * columns);
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t column = 0; column < columns; ++column) {
      to[column * rows + row] = static_cast<Wide<T>>(from[row * columns + column]);
    }
  }
  return to;
}

/// A left factor: its value at (r, k) lies at r * `row` + k * `inner`, and may so be a transpose.
template <class W> struct Left {
  const W* at;
  std::size_t row;
  std::size_t inner;
};

/// Adds a tile of a product: `Rows` x `Columns` sums, which stay in registers.
template <std::size_t Rows, std::size_t Columns, class W>
void add_tile(const Left<W>& a, const W* b, W* out, std::size_t inner, std::size_t columns) {
  W sums[Rows][Columns] = {};
  for (std::size_t k = 0; k < inner; ++k) {
    const W* const from = b + k * columns;
    for (std::size_t r = 0; r < Rows; ++r) {
      const W factor = a.at[r * a.row + k * a.inner];
      for (std::size_t c = 0; c < Columns; ++c) {
        sums[r][c] += factor * from[c];
      }
    }
  }
  for (std::size_t r = 0; r < Rows; ++r) {
    for (std::size_t c = 0; c < Columns; ++c) {
      out[r * columns + c] += sums[r][c];
    }
  }
}
template <std::size_t Rows, class W>
void add_rows(const Left<W>& a, const W* b, W* out, std::size_t inner, std::size_t columns) {
  constexpr std::size_t at_once = 32 / sizeof(W);
  const std::size_t whole = columns / at_once * at_once;
  for (std::size_t column = 0; column < whole; column += at_once) {
    add_tile<Rows, at_once>(a, b + column, out + column, inner, columns);
  }
  for (std::size_t column = whole; column < columns; ++column) {
    add_tile<Rows, 1>(a, b + column, out + column, inner, columns);
  }
}

/// Adds a * b to `out`, which is `rows` x `columns`; b is `inner` x `columns`. Each sum goes from
/// the first to the last.
template <class W>
void add_product(Left<W> a, const W* b, W* out, std::size_t rows, std::size_t inner,
                 std::size_t columns) {
  constexpr std::size_t at_once = 4;
  const std::size_t whole = rows / at_once * at_once;
  for (std::size_t row = 0; row < whole; row += at_once) {
    add_rows<at_once>(Left<W>{a.at + row * a.row, a.row, a.inner}, b, out + row * columns, inner,
                      columns);
  }
  for (std::size_t row = whole; row < rows; ++row) {
    add_rows<1>(Left<W>{a.at + row * a.row, a.row, a.inner}, b, out + row * columns, inner,
                columns);
  }
}

/// Returns in * weight^T.
template <class T>
std::vector<Wide<T>> product(const T* in, const T* weight, std::size_t rows, std::size_t in_width,
                             std::size_t out_width) {
  std::vector<Wide<T>> out(rows * out_width);
  const Widened<T> a{in, rows * in_width};
  const std::vector<Wide<T>> b = transposed(weight, out_width, in_width);
  add_product<Wide<T>>({a.data(), in_width, 1}, b.data(), out.data(), rows, in_width, out_width);
  return out;
}
/// Adds d_out^T * in to d_weight.
template <class T>
void product_backward_weight(const T* d_out, const T* in, Wide<T>* d_weight, std::size_t rows,
                             std::size_t in_width, std::size_t out_width) {
  const Widened<T> a{d_out, rows * out_width};
  const Widened<T> b{in, rows * in_width};
  add_product<Wide<T>>({a.data(), 1, out_width}, b.data(), d_weight, out_width, rows, in_width);
}
/// Returns d_out * weight.
template <class T>
std::vector<Wide<T>> product_backward_in(const T* d_out, const T* weight, std::size_t rows,
                                         std::size_t in_width, std::size_t out_width) {
  std::vector<Wide<T>> d_in(rows * in_width);
  const Widened<T> a{d_out, rows * out_width};
  const Widened<T> b{weight, out_width * in_width};
  add_product<Wide<T>>({a.data(), out_width, 1}, b.data(), d_in.data(), rows, out_width, in_width);
  return d_in;
}

} // namespace transformer::host
