// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/text.hpp>
#include <penstock/run/options.hpp>
#include <penstock/sources/detail/checks.hpp>
#include <penstock/sources/detail/optional_members.hpp>
#include <penstock/sources/detail/part_of.hpp>
#include <penstock/sources/detail/renumbered.hpp>
#include <penstock/sources/patience.hpp>
#include <penstock/sources/source.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace penstock {

namespace detail {

enum class Sliced : std::uint8_t { first, rest };

} // namespace detail

/// The first records of another source, or those after them. Made by take() and drop().
template <class From> class Slice {
  static constexpr bool a_source = Source<From>;
  static_assert(a_source, "penstock: take(source, n) and drop(source, n) are of a source, such as "
                          "ps::records<T>(path), and From is none.");
  static constexpr bool no_mix = !detail::is_a_mix<From>;
  static_assert(no_mix, "penstock: a mix has no first or last records: take or drop of its parts, "
                        "and mix what comes of that.");
  using Count = detail::CountOf<From>;

 public:
  /// Whether it was refused, so that a Reader says no more about it.
  static constexpr bool refused = !a_source || !no_mix || detail::refused_source<From>;
  /// What the other source has.
  using schema = typename detail::schema_of<From>::type;

  /// For take() and drop(): has the first `count` records, or the rest.
  Slice(From source, detail::Sliced part, std::uint64_t count)
      : source_{std::move(source)}, part_{part}, count_{count} {}

  /// Opens the other source. Throws what it throws; SourceError if it has fewer records than
  /// `count`; OptionError if it is a mix, or, for the rest, has no known size or has its records in
  /// order only.
  void open(const PrepareOptions& preparing = {}) {
    detail::renumbered(call(), moved(), [&] { detail::open_source(source_, preparing); });
    detail::check_no_mix(call(), "the source", source_);
    if (part_ == detail::Sliced::rest) {
      detail::check_at_hand(call(), "the source", source_);
    }
    if (const std::uint64_t has = source_.size(); has < count_) {
      detail::throw_source_error({"penstock: ", call(), ": the source has ", has,
                                  " records, fewer than the ", count_, " that are to be ",
                                  part_ == detail::Sliced::first ? "taken" : "dropped",
                                  ": give it more, or a smaller number."},
                                 {}, 0);
    }
  }
  /// Returns how many records it has. Of the first ones of a source of unknown size nobody knows
  /// whether they are fewer. After open().
  std::uint64_t size() const {
    const std::uint64_t has = source_.size();
    return part_ == detail::Sliced::rest ? has - std::min(has, count_)
           : has == unknown_size         ? has
                                         : count_;
  }
  /// Returns whether the other source has its records at hand in any order. After open().
  bool random_access() const { return !detail::comes_in_order(source_); }
  /// Returns the bytes from one record to the next. After open().
  std::size_t record_bytes() const
    requires(!detail::HasColumns<schema>)
  {
    return detail::record_bytes_of(source_);
  }
  /// Returns the dynamic extents, in order. After open().
  std::vector<std::size_t> extents() const
    requires detail::HasColumns<schema>
  {
    return detail::extents_of(source_);
  }
  /// For stages: what the other source can do.
  detail::Abilities abilities() const { return detail::abilities_of(source_); }

  /// Returns a number for the other source and where this begins in it. After open().
  std::uint64_t identity() const {
    return detail::and_then(detail::identity_of(source_), skipped());
  }
  /// Returns how many bytes any `records` records' values have together at most.
  std::uint64_t value_bytes(std::uint64_t records) const {
    return detail::value_bytes_of(source_, records);
  }
  /// Appends how the records were read.
  void note(std::string& to) const { detail::note_of(source_, to); }
  /// Returns what the other source calls a record: nothing, if that has no names.
  std::string name(std::uint64_t record) const {
    return detail::name_of(source_, skipped() + record);
  }

  /// Reads the records from into.index() on, as the other source does. Of a source of unknown size
  /// it returns fewer behind the last that is taken. Throws what that source throws; a SourceError
  /// has the record's number here.
  template <HostSpace Where>
  Count read(Batch<schema, Where> into, const Patience& patience = {}) const {
    const std::uint64_t index = into.index();
    std::size_t wanted = into.size();
    if (const std::uint64_t has = size(); has != unknown_size) {
      detail::check_range(call(), index, wanted, 0, has, 0);
    } else if (count_ - std::min(index, count_) < wanted) {
      wanted = count_ - std::min(index, count_);
      if (wanted == 0) {
        return 0; // without a question to a source that may wait
      }
    }
    return detail::renumbered(call(), moved(), [&] {
      return detail::count_of<From>(detail::read_some(
          source_, detail::part_of(into, 0, wanted, skipped() + index), patience));
    });
  }
  /// Reads the records of these numbers, where the other source can. After open().
  template <HostSpace Where>
  std::size_t read_at(std::span<const std::uint64_t> numbers, Batch<schema, Where> into) const
    requires detail::ReadsAt<From, Where>
  {
    detail::check_numbers(call(), numbers, most());
    return detail::read_there(call(), source_, numbers, into,
                              [this](std::uint64_t number) { return skipped() + number; });
  }
  /// Reads the bytes from `at` on, counted over all records, where the other source can.
  void read_bytes(std::uint64_t at, std::span<std::byte> into) const
    requires detail::ReadsBytes<From>
  {
    detail::check_bytes(call(), at, into.size(), most(), record_bytes());
    detail::renumbered(call(), moved(),
                       [&] { source_.read_bytes(skipped() * record_bytes() + at, into); });
  }
  /// Hands on which records are soon to be read, where the other source hears it. After open().
  void will_read(std::uint64_t first, std::uint64_t count) const noexcept
    requires detail::HearsWhatComes<From>
  {
    source_.will_read(skipped() + first, count);
  }
  /// Returns the lengths of the records from `first` on, where the other source knows them.
  void lengths(std::uint64_t first, std::span<std::uint64_t> into) const
    requires detail::KnowsLengths<From>
  {
    detail::renumbered(call(), moved(), [&] { source_.lengths(skipped() + first, into); });
  }

 private:
  // More than there are if nobody knows how many there are.
  std::uint64_t most() const { return part_ == detail::Sliced::first ? count_ : size(); }
  const char* call() const noexcept { return part_ == detail::Sliced::first ? "take" : "drop"; }
  std::uint64_t skipped() const noexcept { return part_ == detail::Sliced::first ? 0 : count_; }
  detail::Moved moved() const noexcept { return {skipped(), 0}; }

  From source_;
  detail::Sliced part_;
  std::uint64_t count_;
};

/// Makes a source of another one's first `count` records, which keep their numbers: `take(source,
/// 1000)`. prepare() refuses a source that has fewer. Of a source of unknown size it takes fewer if
/// that ends first, and asks for no more than `count`; it may be one whose records come when they
/// come, and gives them for now as that does.
template <class From> Slice<From> take(From source, std::uint64_t count) {
  return {std::move(source), detail::Sliced::first, count};
}
/// Makes a source of all records of another one but the first `count`: `drop(source, 1000)`, whose
/// record 0 is the other's record 1000. prepare() refuses a source that has fewer, one of unknown
/// size, and one whose records come in order only.
template <class From> Slice<From> drop(From source, std::uint64_t count) {
  return {std::move(source), detail::Sliced::rest, count};
}

} // namespace penstock
