// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/schema.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/formats/array_options.hpp>
#include <penstock/formats/detail/array_files.hpp>
#include <penstock/io/posix.hpp>
#include <penstock/run/options.hpp>
#include <penstock/sources/detail/opening_in_turn.hpp>
#include <penstock/sources/zip.hpp>

#include <array>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace penstock::detail {

/// The values of a column; of a Ragged one those of its lists, so that only zip() refuses it.
template <class Column> struct column_value;
template <class Spelled, class T, std::size_t... Extents>
struct column_value<NamedColumn<Spelled, T, Extents...>> {
  using type = T;
  static std::vector<std::size_t> extents() { return {Extents...}; }
};
template <class Spelled, class T> struct column_value<NamedColumn<Spelled, Ragged<T>>> {
  using type = T;
  static std::vector<std::size_t> extents() { return {}; }
};

template <class Schema, class Format, class Io, class All> struct array_columns;
template <class Schema, class Format, class Io, class... Fields>
struct array_columns<Schema, Format, Io, Columns<Fields...>> {
  using Base = Zip<Schema, ArrayFiles<typename column_value<Fields>::type, Format, Io>...>;
  using All = std::tuple<ArrayFiles<typename column_value<Fields>::type, Format, Io>...>;
  using Paths = std::array<std::vector<std::string>, sizeof...(Fields)>;
  using Formats = std::array<Format, sizeof...(Fields)>;

  static All all(Paths paths, const ArrayOptions& options, const Io& io, Formats formats) {
    return [&]<std::size_t... At>(std::index_sequence<At...>) {
      return All{ArrayFiles<typename column_value<Fields>::type, Format, Io>{
          std::move(paths[At]), options, io, column_value<Fields>::extents(),
          std::move(formats[At])}...};
    }(std::index_sequence_for<Fields...>{});
  }
  static Base zipped(const All& all) {
    return std::apply([](const auto&... source) { return Base{source...}; }, all);
  }
};

/// A source of columns, each the arrays of files of its own.
template <class Schema, class Format, class Io>
class ArrayColumns
    : public array_columns<Schema, Format, Io, typename columns_of<Schema>::type>::Base {
  using Made = array_columns<Schema, Format, Io, typename columns_of<Schema>::type>;
  using Base = typename Made::Base;

 public:
  /// Takes the files of each column, in the schema's order, and what says which array of them.
  explicit ArrayColumns(typename Made::Paths paths, const ArrayOptions& options = {}, Io io = {},
                        typename Made::Formats formats = {})
      : ArrayColumns{Made::all(std::move(paths), options, io, std::move(formats))} {}

  /// Opens all files, column by column. Throws what they throw, and SourceError if one column has
  /// more records than another. Blocks.
  void open(const PrepareOptions& preparing = {}) {
    OpeningInTurn opening{preparing};
    std::apply([&](auto&... source) { (opening.open(source), ...); }, all_);
    const auto& first = std::get<0>(all_);
    std::apply([&](const auto&... source) { (check(source, first), ...); }, all_);
    Base zipped = Made::zipped(all_);
    zipped.open();
    static_cast<Base&>(*this) = std::move(zipped);
  }

 private:
  explicit ArrayColumns(typename Made::All all) : Base{Made::zipped(all)}, all_{std::move(all)} {}

  template <class S, class First> [[gnu::cold]] static void check(const S& its,
                                                                  const First& first) {
    if (its.size() != first.size()) {
      throw_source_error({"penstock: ", Format::call, ": ", its.named(),
                          its.paths().size() > 1 ? " and on" : "", " has ", its.size(),
                          " records, and ", first.named(), " has ", first.size(),
                          ": each record needs all its columns. Give files that belong together."},
                         its.paths().front(), 0);
    }
    if constexpr (requires { Format::all_columns_a_file; }) {
      if (const std::string* const apart = its.files().first_apart(first.files())) {
        throw_source_error({"penstock: ", Format::call, ": in ", *apart, " or before it, ",
                            its.named(), " and ", first.named(),
                            " and on have different numbers of records: each record needs all its "
                            "columns. Write the file again, with as many of each."},
                           *apart, 0);
      }
    }
  }

  typename Made::All all_;
};

template <class T, class Format, class Io, bool = HasColumns<T>> struct arrays_of {
  using type = ArrayFiles<T, Format, Io>;
};
template <class T, class Format, class Io> struct arrays_of<T, Format, Io, true> {
  using type = ArrayColumns<T, Format, Io>;
};

} // namespace penstock::detail
