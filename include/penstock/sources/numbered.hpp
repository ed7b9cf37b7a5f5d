// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/batch.hpp>
#include <penstock/data/memory.hpp>
#include <penstock/data/schema.hpp>
#include <penstock/run/options.hpp>
#include <penstock/sources/detail/optional_members.hpp>
#include <penstock/sources/detail/renumbered.hpp>
#include <penstock/sources/patience.hpp>
#include <penstock/sources/source.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace penstock {

namespace detail {

template <class All> struct with_number;
template <class... Fields> struct with_number<Columns<Fields...>> {
  using type = Columns<Fields..., Field<"record", std::uint64_t>>;
};

} // namespace detail

/// A record of numbered(): the columns of S, and behind them "record", its number in the source.
template <class S> struct Numbered
    : detail::with_number<typename detail::columns_of<S>::type>::type {};

/// A source that gives each record of another, which has columns, with its number. Made by
/// numbered().
template <class From> class NumberedSource {
  using Theirs = typename detail::schema_of<From>::type;
  static constexpr bool of_columns = Source<From> && detail::HasColumns<Theirs>;
  static_assert(of_columns, "penstock: numbered(source) is of a source whose records have columns, "
                            "such as ps::files() or ps::tar<Sample>(): a Decoder that takes a "
                            "ps::Visit has the number of any record.");
  static constexpr bool no_mix = !detail::is_a_mix<From>;
  static_assert(no_mix, "penstock: a mix says by itself which record comes when: number its parts, "
                        "and mix what comes of that.");

 public:
  /// Whether it was refused, so that a Reader says no more about it.
  static constexpr bool refused = !of_columns || !no_mix || detail::refused_source<From>;
  /// What the other source has, and the number.
  using schema = Numbered<Theirs>;

  /// For numbered().
  explicit NumberedSource(From source) : source_{std::move(source)} {}

  /// Opens the other source, and throws what it throws.
  void open(const PrepareOptions& preparing = {}) { detail::open_source(source_, preparing); }
  /// Return what the other source returns, if it has such a member. After open().
  /// @{
  std::uint64_t size() const { return source_.size(); }
  bool random_access() const { return !detail::comes_in_order(source_); }
  std::vector<std::size_t> extents() const { return detail::extents_of(source_); }
  std::uint64_t identity() const { return detail::identity_of(source_); }
  std::uint64_t value_bytes(std::uint64_t records) const {
    return detail::value_bytes_of(source_, records);
  }
  void note(std::string& to) const { detail::note_of(source_, to); }
  std::string name(std::uint64_t record) const { return detail::name_of(source_, record); }
  void will_read(std::uint64_t first, std::uint64_t count) const noexcept
    requires detail::HearsWhatComes<From>
  {
    source_.will_read(first, count);
  }
  void lengths(std::uint64_t first, std::span<std::uint64_t> into) const
    requires detail::KnowsLengths<From>
  {
    source_.lengths(first, into);
  }
  /// @}

  /// Reads the records from into.index() on, as the other source does.
  template <HostSpace Where>
  detail::CountOf<From> read(Batch<schema, Where> into, const Patience& patience = {}) const {
    const Filled got = detail::read_some(source_, theirs(into), patience);
    const auto numbers = into.template get<"record">();
    std::iota(numbers.begin(), numbers.begin() + got.count, into.index());
    return detail::count_of<From>(got);
  }
  /// Reads the records of these numbers, where the other source can.
  template <HostSpace Where>
  std::size_t read_at(std::span<const std::uint64_t> numbers, Batch<schema, Where> into) const
    requires detail::ReadsAt<From, Where>
  {
    std::copy(numbers.begin(), numbers.end(), into.template get<"record">().begin());
    return source_.read_at(numbers, theirs(into));
  }

 private:
  // The batch without its last column.
  template <class Where>
  static Batch<Theirs, Where> theirs(const Batch<schema, Where>& into) noexcept {
    const auto& all = into.view();
    detail::BatchView<Theirs> view;
    std::copy_n(all.parts, std::size(view.parts), view.parts);
    std::copy_n(all.sizes, std::size(view.sizes), view.sizes);
    view.size = all.size;
    view.index = all.index;
    view.source_index = all.source_index;
    view.alignment = all.alignment;
    return Batch<Theirs, Where>{view};
  }

  From source_;
};

/// Makes a source that gives each record of another with its number, in a column "record":
/// `numbered(files("photos/"))`. Decoders and Kernels that hand the column on keep it, whatever is
/// left out and in whatever order records come, and `files.name(record)` says which file it was.
/// The other source's records have columns; a Decoder of any others takes a Visit.
template <class From> NumberedSource<From> numbered(From source) {
  return NumberedSource<From>{std::move(source)};
}

} // namespace penstock
