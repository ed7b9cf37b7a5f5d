// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/schema.hpp>
#include <penstock/sources/detail/value_type.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <string_view>
#include <system_error>
#include <type_traits>

namespace penstock::detail {

/// What a column of tar() holds: a member's bytes, the number that its text says, the values of a
/// .npy file, or the sample's key.
enum class TarHolds { nothing, bytes, number, array, key };

template <class F> inline constexpr TarHolds tar_holds = TarHolds::nothing;
template <class N, class T>
  requires(sizeof(T) == 1 && std::is_trivially_copyable_v<T>)
inline constexpr TarHolds tar_holds<NamedColumn<N, Ragged<T>>> =
    std::string_view{N::text} == "__key__" ? TarHolds::key : TarHolds::bytes;
template <class N, class T>
  requires(std::is_arithmetic_v<T> && sizeof(T) <= 8 && !std::is_same_v<T, bool> &&
           !std::is_same_v<T, char>)
inline constexpr TarHolds tar_holds<NamedColumn<N, T>> = TarHolds::number;
template <class N, class T, std::size_t... Extents>
  requires(is_value<T> && sizeof...(Extents) != 0 && ((Extents != dynamic) && ...))
inline constexpr TarHolds tar_holds<NamedColumn<N, T, Extents...>> = TarHolds::array;

/// What the columns of a schema hold, and their names.
template <class Schema> struct tar_columns;
template <class... F> struct tar_columns<Columns<F...>> {
  static constexpr bool all_hold = ((tar_holds<F> != TarHolds::nothing) && ...);
  static constexpr bool any_member = ((tar_holds<F> != TarHolds::key) || ...);
  static constexpr std::array<std::string_view, sizeof...(F)> names{F::name::text...};
  static constexpr std::array<TarHolds, sizeof...(F)> holds{tar_holds<F>...};
};

/// Reads a number of a text, with white space around it. Returns whether it is one that T holds.
template <class T> bool number_in(std::string_view text, T& value) {
  constexpr std::string_view white = " \t\r\n";
  text.remove_prefix(std::min(text.find_first_not_of(white), text.size()));
  text = text.substr(0, text.find_last_not_of(white) + 1);
  if (text.starts_with('+') && !text.starts_with("+-")) {
    text.remove_prefix(1);
  }
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  return error == std::errc{} && at == end;
}

} // namespace penstock::detail
