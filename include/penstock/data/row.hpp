// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/batch.hpp>
#include <penstock/data/schema.hpp>

#include <cstddef>
#include <type_traits>

namespace penstock {

/// One record of named Columns in host memory, pageable or pinned: what a Decoder's callable takes
/// where a plain record is a T&. `Row<const Schema>` may only be read. `get<"name">(row)` gives the
/// record's values, `put<"name">(row, count)` makes room for those of a Ragged column. It owns
/// nothing: the record's bytes are valid until the callable returns, and so is the row. Trivially
/// copyable.
template <class Schema> class Row {
  static constexpr bool of_columns = detail::HasColumns<std::remove_const_t<Schema>>;
  static_assert(of_columns, "penstock: a ps::Row is one record of named columns, and this schema "
                            "has none: take a record as const In&, and fill Out&.");

 public:
  /// What it is a record of.
  using schema = std::remove_const_t<Schema>;

  /// For stages: shows record `at` of a view, which outlives the row.
  Row(const detail::BatchView<schema>& view, std::size_t at) noexcept : view_{&view}, at_{at} {}

  /// For get() and put(): the batch that it is in, without its types, and its place there.
  /// @{
  const detail::BatchView<schema>& view() const noexcept { return *view_; }
  std::size_t at() const noexcept { return at_; }
  /// @}

 private:
  const detail::BatchView<schema>* view_;
  std::size_t at_;
};

/// Returns a row's values in the column of a name, `get<"image">(row)`: a T&, or with extents a
/// reference to an array of T. Of a column with a ps::dynamic extent, or a Ragged one, it is a
/// Column of single T; a Ragged one's has the values that were put.
template <Name Wanted, class Schema, class Spelled = typename detail::spelled<Wanted>::type>
decltype(auto) get(const Row<Schema>& row) {
  using Found = detail::lookup<Spelled, std::remove_const_t<Schema>, std::is_const_v<Schema>>;
  static_assert(Found::there, "penstock: no column of this row has that name: see Spelled, and the "
                              "names that Schema has.");
  return Found::view::make(row.view())[row.at()];
}

namespace detail {
template <class T> inline constexpr bool is_row = false;
template <class S> inline constexpr bool is_row<penstock::Row<S>> = true;

/// Returns record `i` of a view as a parameter of type A takes it: a row, or a T&.
template <class A, class S> decltype(auto) record_at(const BatchView<S>& view, std::size_t i) {
  if constexpr (is_row<std::remove_cvref_t<A>>) {
    return std::remove_cvref_t<A>{view, i};
  } else {
    // A record of a run-time size is passed as its first byte.
    void* const at = static_cast<std::byte*>(view.parts[0]) + i * view.sizes[0];
    return *static_cast<std::remove_reference_t<A>*>(at);
  }
}

template <class Column> inline constexpr bool is_ragged = false;
template <class T> inline constexpr bool is_ragged<Column<Ragged<T>>> = true;
template <> inline constexpr bool is_ragged<Anything> = true;
} // namespace detail

/// Makes room for `count` values of a row in a Ragged column, and returns the place to write them
/// to: `std::copy_n(from, count, put<"text">(row, count))`. Every Ragged column of a row must be
/// put, an empty one with a count of 0; put again, it forgets what was put before. Throws Error,
/// with the record's number in the source, if the values do not fit.
template <Name Wanted, class Schema, class Spelled = typename detail::spelled<Wanted>::type>
auto put(const Row<Schema>& row, std::size_t count) {
  using Found = detail::lookup<Spelled, std::remove_const_t<Schema>, std::is_const_v<Schema>>;
  constexpr bool ragged = detail::is_ragged<typename Found::view::type>;
  constexpr bool writes = !std::is_const_v<Schema>;
  static_assert(Found::there, "penstock: no column of this row has that name: see Spelled, and the "
                              "names that Schema has.");
  static_assert(ragged, "penstock: put() is for a Ragged column, and this one has a place for each "
                        "record: write to ps::get<\"name\">(row).");
  static_assert(writes, "penstock: a ps::Row<const Schema> may only be read: put into the "
                        "ps::Row<Out> that the callable fills.");
  if constexpr (Found::there && ragged && writes) {
    return Found::view::make(row.view()).put(row.at(), count);
  } else {
    return detail::Anything{};
  }
}

} // namespace penstock
