// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/schema.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/run/options.hpp>
#include <penstock/sources/detail/checks.hpp>
#include <penstock/sources/detail/opening_in_turn.hpp>
#include <penstock/sources/detail/optional_members.hpp>
#include <penstock/sources/source.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace penstock {

/// A source of columns, each read from a source of its own. Made by zip().
template <class Schema, class... From> class Zip {
  using traits = detail::columns_traits<typename detail::columns_of<Schema>::type>;
  static constexpr bool all_are_sources = (Source<From> && ...);
  static_assert(all_are_sources,
                "penstock: zip<Schema>(sources...) reads each column from a source, "
                "such as ps::records<T>(path), and one of From is none.");
  static constexpr bool whole_reads =
      !((detail::GivesForNow<From> && !detail::TellsAbilities<From>) || ...);
  static_assert(whole_reads,
                "penstock: zip<Schema>(sources...) reads as many records of each source at once, "
                "and one of From gives fewer for now: read it by a Reader of its own.");
  static constexpr bool no_mix = !(detail::is_a_mix<From> || ...);
  static_assert(no_mix,
                "penstock: a mix has an order of its own, which zip() would lose: call zip() "
                "of its parts, and mix what comes of that.");
  static constexpr bool has_columns = detail::HasColumns<Schema>;
  static_assert(has_columns,
                "penstock: zip<Schema> fills the columns of a schema: derive it from ps::Columns.");
  static constexpr bool one_source_each = !has_columns || traits::count == sizeof...(From);
  static_assert(
      one_source_each,
      "penstock: zip<Schema>(sources...) takes one source for each column of the schema.");
  static_assert(!traits::ragged,
                "penstock: zip() cannot fill a Ragged column: write a source whose "
                "read() puts its records.");
  static constexpr bool one_dynamic_extent_each = []<class... Fields>(Columns<Fields...>*) {
    return ((detail::column_traits<Fields>::sizes <= 1) && ...);
  }(static_cast<typename detail::columns_of<Schema>::type*>(nullptr));
  static_assert(one_dynamic_extent_each,
                "penstock: zip() learns a dynamic extent from the bytes of "
                "a record, so a column may have one at most.");

 public:
  /// Whether it was refused, so that a Reader says no more about it.
  static constexpr bool refused = !all_are_sources || !whole_reads || !no_mix || !has_columns ||
                                  !one_source_each || traits::ragged || !one_dynamic_extent_each;
  /// Its columns.
  using schema = Schema;

  /// Takes one source for each column, in the schema's order.
  explicit Zip(From... sources) : sources_{std::move(sources)...} {}

  /// Opens all sources, one after the other; files are counted over all. Throws what they throw,
  /// SourceError if they differ in how many records they have or if a record does not fit its
  /// column, and OptionError if one is a mix.
  void open(const PrepareOptions& preparing = {}) {
    detail::OpeningInTurn opening{preparing};
    std::apply([&](auto&... source) { (opening.open(source), ...); }, sources_);
    each([this](std::size_t column, const auto& source) { this->check(column, source); });
    extents_.clear();
    for (std::size_t column = 0; column < expected_.size(); ++column) {
      if (expected_[column].dynamic) {
        extents_.push_back(record_bytes_[column] / expected_[column].bytes);
      }
    }
  }
  /// Returns how many records each source has. After open().
  std::uint64_t size() const { return std::get<0>(sources_).size(); }
  /// Returns the dynamic extents, in order. After open().
  const std::vector<std::size_t>& extents() const noexcept { return extents_; }

  /// Returns whether all sources have their records at hand in any order. After open().
  bool random_access() const {
    return std::apply(
        [](const auto&... source) { return !(detail::comes_in_order(source) || ...); }, sources_);
  }

  /// Hands on which records are soon to be read, to the sources that hear it. After open().
  void will_read(std::uint64_t first, std::uint64_t count) const noexcept
    requires(detail::HearsWhatComes<From> || ...)
  {
    each([&]<class S>(std::size_t, const S& source) {
      if constexpr (detail::HearsWhatComes<S>) {
        source.will_read(first, count);
      }
    });
  }
  /// Returns a number for all sources. After open().
  std::uint64_t identity() const {
    std::uint64_t all = 0;
    each([&](std::size_t, const auto& source) {
      all = detail::and_then(all, detail::identity_of(source));
    });
    return all;
  }
  /// Appends how the records were read.
  void note(std::string& to) const {
    each([&](std::size_t, const auto& source) { detail::note_of(source, to); });
  }

  /// Reads the records from into.index() on of every source. Any number of threads at once. Throws
  /// SourceError if one ends before another.
  template <HostSpace Where>
  std::size_t read(Batch<Schema, Where> into, const Patience& patience = {}) const {
    std::size_t first = 0;
    each([&]<class S>(std::size_t column, const S& source) {
      const Batch<typename S::schema, Where> part{
          static_cast<typename S::schema*>(into.view().parts[column]), into.size(), into.index(),
          record_bytes_[column], into.alignment()};
      const std::size_t got = detail::read_some(source, part, patience).count;
      if (column != 0 && got != first && !patience.stop_requested()) {
        detail::throw_source_error({"penstock: zip: of the ", into.size(), " records from number ",
                                    into.index(), " on, source number ", column, " has ", got,
                                    ", but number 0 has ", first,
                                    ": each record needs all its columns."},
                                   {}, 0, into.index() + std::min(got, first));
      }
      first = column == 0 ? got : std::min(got, first);
    });
    return first;
  }

 private:
  template <class F> void each(F f) const {
    std::apply(
        [&](const auto&... source) {
          [[maybe_unused]] std::size_t column = 0;
          (f(column++, source), ...);
        },
        sources_);
  }

  template <class S> void check(std::size_t column, const S& source) {
    if (source.size() != size()) {
      detail::throw_source_error({"penstock: zip: source number ", column, " has ", source.size(),
                                  " records, but number 0 has ", size(),
                                  ": each record needs all its columns."},
                                 {}, 0);
    }
    detail::check_no_mix("zip", detail::joined({"source number ", column}), source);
    if (detail::abilities_of(source).for_now) {
      detail::throw_source_error({"penstock: zip: source number ", column,
                                  " gives fewer records for now than it is asked for: read it by a "
                                  "Reader of its own."},
                                 {}, 0);
    }
    const std::size_t bytes = detail::record_bytes_of(source);
    const Expected expected = expected_[column];
    if (expected.dynamic ? bytes % expected.bytes != 0 : bytes != expected.bytes) {
      detail::throw_source_error(
          {"penstock: zip: source number ", column, " has records of ", bytes,
           " bytes, but its column's take ", (expected.dynamic ? "a multiple of " : ""),
           expected.bytes, ": check the column's type and extents, and the source's record_bytes."},
          {}, 0);
    }
    record_bytes_[column] = bytes;
  }

  struct Expected {
    std::size_t bytes;
    bool dynamic;
  };
  static constexpr std::array<Expected, sizeof...(From)> expected_ = []<class... Fields>(
                                                                         Columns<Fields...>*) {
    return std::array<Expected, sizeof...(Fields)>{
        Expected{detail::column_traits<Fields>::value_bytes * detail::column_traits<Fields>::fixed,
                 detail::column_traits<Fields>::sizes != 0}...};
  }(static_cast<typename detail::columns_of<Schema>::type*>(nullptr));

  std::tuple<From...> sources_;
  std::array<std::size_t, sizeof...(From)> record_bytes_{};
  std::vector<std::size_t> extents_;
};

/// Makes a source that reads each column of Schema from a source of its own, all of the same number
/// of records: `zip<Sample>(records<std::uint8_t>(images, {.offset = 16, .record_bytes = 784}),
/// records<…>(…))`. The sources stand in the order of the columns. A record of each is as long as
/// one of its column; where the column has a dynamic extent, the record's length sets it.
template <class Schema, class... From> Zip<Schema, From...> zip(From... sources) {
  return Zip<Schema, From...>{std::move(sources)...};
}

} // namespace penstock
