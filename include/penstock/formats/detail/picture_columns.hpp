// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/column.hpp>
#include <penstock/data/row.hpp>
#include <penstock/data/schema.hpp>
#include <penstock/formats/image.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace penstock::detail {

/// What a column is to a decoder of pictures: a file's bytes, a picture, or neither.
template <class F> struct picture_column {
  static constexpr bool file = false;
  static constexpr bool picture = false;
  static constexpr std::size_t channels = 0, height = 0, width = 0;
};
template <class N> struct picture_column<NamedColumn<N, Ragged<std::uint8_t>>>
    : picture_column<void> {
  static constexpr bool file = true;
};
template <class N, std::size_t C, std::size_t H, std::size_t W>
struct picture_column<NamedColumn<N, std::uint8_t, C, H, W>> {
  static constexpr bool file = false;
  static constexpr bool picture = true;
  static constexpr std::size_t channels = C, height = H, width = W;
};

template <class F, class From> inline constexpr bool is_among = false;
template <class F, class... From>
inline constexpr bool is_among<F, Columns<From...>> =
    (column_traits<F>::ragged || column_traits<F>::sizes == 0) && (std::is_same_v<F, From> || ...);

/// What two schemas are to a decoder of pictures.
template <class From, class To> struct picture_columns;
template <class... F, class... T> struct picture_columns<Columns<F...>, Columns<T...>> {
  static constexpr std::size_t files = (std::size_t{0} + ... + picture_column<F>::file);
  static constexpr std::size_t pictures = (std::size_t{0} + ... + picture_column<T>::picture);
  // Of the one picture.
  static constexpr std::size_t channels = (std::size_t{0} + ... + picture_column<T>::channels);
  static constexpr std::size_t height = (std::size_t{0} + ... + picture_column<T>::height);
  static constexpr std::size_t width = (std::size_t{0} + ... + picture_column<T>::width);
  static constexpr bool all_there =
      ((picture_column<T>::picture || is_among<T, Columns<F...>>) && ...);
};

/// The view of a row's column by its name's type.
template <class Spelled, class S> auto column_at(const Row<S>& row) {
  return lookup<Spelled, std::remove_const_t<S>, std::is_const_v<S>>::view::make(row.view());
}

/// Returns the file's bytes.
template <class S, class... F> Column<const std::uint8_t> file_of(const Row<const S>& row,
                                                                  const Columns<F...>*) {
  Column<const std::uint8_t> bytes;
  const auto look = [&]<class N, class T, std::size_t... E>(const NamedColumn<N, T, E...>*) {
    if constexpr (picture_column<NamedColumn<N, T, E...>>::file) {
      bytes = column_at<N>(row)[row.at()];
    }
  };
  (look(static_cast<const F*>(nullptr)), ...);
  return bytes;
}

/// Returns where the picture's pixels go.
template <class S, class... T> std::uint8_t* picture_of(const Row<S>& row, const Columns<T...>*) {
  std::uint8_t* pixels = nullptr;
  const auto look = [&]<class N, class V, std::size_t... E>(const NamedColumn<N, V, E...>*) {
    if constexpr (picture_column<NamedColumn<N, V, E...>>::picture) {
      const auto column = column_at<N>(row);
      pixels = column.data() + row.at() * column.elements();
    }
  };
  (look(static_cast<const T*>(nullptr)), ...);
  return pixels;
}

/// Copies all columns but the picture.
template <class From, class To, class... T>
void copy_others(const Row<const From>& in, const Row<To>& out, const Columns<T...>*) {
  const auto copy = [&]<class N, class V, std::size_t... E>(const NamedColumn<N, V, E...>*) {
    using Field = NamedColumn<N, V, E...>;
    if constexpr (!picture_column<Field>::picture) {
      const auto from = column_at<N>(in);
      const auto to = column_at<N>(out);
      if constexpr (column_traits<Field>::ragged) {
        const auto values = from[in.at()];
        std::copy_n(values.data(), values.size(), to.put(out.at(), values.size()));
      } else {
        const std::size_t count = from.elements();
        std::copy_n(from.data() + in.at() * count, count, to.data() + out.at() * count);
      }
    }
  };
  (copy(static_cast<const T*>(nullptr)), ...);
}

} // namespace penstock::detail
