// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/run/options.hpp>
#include <penstock/sources/detail/checks.hpp>
#include <penstock/sources/detail/optional_members.hpp>
#include <penstock/sources/detail/reads.hpp>
#include <penstock/sources/detail/renumbered.hpp>
#include <penstock/sources/patience.hpp>
#include <penstock/sources/source.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace penstock {

/// Those records of another source whose numbers a list has, in the list's order. Copies share the
/// list. Made by where().
template <class From> class Subset {
  static constexpr bool a_source = Source<From>;
  static_assert(a_source, "penstock: where(source, numbers) is of a source, such as "
                          "ps::records<T>(path), and From is none.");
  static constexpr bool no_mix = !detail::is_a_mix<From>;
  static_assert(no_mix, "penstock: the records of a mix come in an order of its own: call where() "
                        "of its parts, and mix what comes of that.");
  using Count = detail::CountOf<From>;

 public:
  /// Whether it was refused, so that a Reader says no more about it.
  static constexpr bool refused = !a_source || !no_mix || detail::refused_source<From>;
  /// What the other source has.
  using schema = typename detail::schema_of<From>::type;

  /// Takes any numbers; checks them in open().
  Subset(From source, std::vector<std::uint64_t> numbers)
      : source_{std::move(source)},
        numbers_{detail::new_shared<const std::vector<std::uint64_t>>(std::move(numbers))} {}

  /// Opens the other source. Throws what it throws; SourceError if the list has a number that it
  /// has not; OptionError if it is a mix, has no known size, or has its records in order only.
  void open(const PrepareOptions& preparing = {}) {
    detail::renumbered("where", here(0, list().size()),
                       [&] { detail::open_source(source_, preparing); });
    detail::check_no_mix("where", "the source", source_);
    detail::check_at_hand("where", "the source", source_);
    const std::uint64_t has = source_.size();
    const auto beyond = std::find_if(list().begin(), list().end(),
                                     [has](std::uint64_t number) { return number >= has; });
    if (beyond != list().end()) {
      const auto at = static_cast<std::uint64_t>(beyond - list().begin());
      detail::throw_source_error({"penstock: where: number ", at, " of the list is record ",
                                  *beyond, ", but the source has ", has,
                                  ": it must be less than that."},
                                 {}, 0, at);
    }
    ascends_ =
        std::adjacent_find(list().begin(), list().end(), std::greater_equal<>{}) == list().end();
  }
  /// Returns how many numbers the list has.
  std::uint64_t size() const noexcept { return list().size(); }
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

  /// Returns a number for the other source and the list. After open().
  std::uint64_t identity() const {
    std::uint64_t all = detail::identity_of(source_);
    for (const std::uint64_t number : list()) {
      all = detail::and_then(all, number);
    }
    return all;
  }
  /// Returns how many bytes any `records` records' values have together at most: a list that does
  /// not ascend may name the longest again and again. After open().
  std::uint64_t value_bytes(std::uint64_t records) const {
    return ascends_ ? detail::value_bytes_of(source_, records)
                    : detail::repeated_bytes(detail::value_bytes_of(source_, 1), records);
  }
  /// Appends how the records were read.
  void note(std::string& to) const { detail::note_of(source_, to); }
  /// Returns what the other source calls a record: nothing, if that has no names.
  std::string name(std::uint64_t record) const { return detail::name_of(source_, list()[record]); }

  /// Reads the records whose numbers the list has from its number into.index() on: by the other
  /// source's read_at(), or, if it has none, numbers that follow each other by one read(). Throws
  /// what that source throws; a SourceError has the record's place in the list.
  template <HostSpace Where>
  Count read(Batch<schema, Where> into, const Patience& patience = {}) const {
    detail::check_range("where", into.index(), into.size(), 0, size(), 0);
    return detail::renumbered("where", here(into.index(), into.size()), [&] {
      return detail::count_of<From>(
          detail::read_numbered(source_, part(into.index(), into.size()), into, patience));
    });
  }
  /// Reads the records at these places of the list, where the other source can.
  template <HostSpace Where>
  std::size_t read_at(std::span<const std::uint64_t> numbers, Batch<schema, Where> into) const
    requires detail::ReadsAt<From, Where>
  {
    detail::check_numbers("where", numbers, size());
    return detail::read_there("where", source_, numbers, into,
                              [this](std::uint64_t number) { return list()[number]; });
  }
  /// Reads the bytes from `at` on, counted over all records of the list, where the other source
  /// can.
  void read_bytes(std::uint64_t at, std::span<std::byte> into) const
    requires detail::ReadsBytes<From>
  {
    const std::size_t each = record_bytes();
    detail::check_bytes("where", at, into.size(), size(), each);
    while (!into.empty()) {
      const std::size_t within = at % each;
      const std::size_t some = std::min(into.size(), each - within);
      detail::renumbered("where", here(at / each, 1), [&] {
        source_.read_bytes(list()[at / each] * each + within, into.first(some));
      });
      into = into.subspan(some);
      at += some;
    }
  }
  /// Hands on which records are soon to be read, where the other source hears it. After open().
  void will_read(std::uint64_t first, std::uint64_t count) const noexcept
    requires detail::HearsWhatComes<From>
  {
    for (auto numbers = part(first, count); !numbers.empty();) {
      const std::size_t run = detail::run_of(numbers);
      source_.will_read(numbers[0], run);
      numbers = numbers.subspan(run);
    }
  }
  /// Returns the lengths of the records from place `first` of the list on, where the other source
  /// knows them.
  void lengths(std::uint64_t first, std::span<std::uint64_t> into) const
    requires detail::KnowsLengths<From>
  {
    constexpr std::size_t each = detail::ragged_columns<schema>;
    detail::check_range("where", first, into.size() / each, 0, size(), 0);
    auto numbers = part(first, into.size() / each);
    while (!numbers.empty()) {
      const std::size_t run = detail::run_of(numbers);
      detail::renumbered("where", detail::Moved{numbers[0], first},
                         [&] { source_.lengths(numbers[0], into.first(run * each)); });
      numbers = numbers.subspan(run);
      into = into.subspan(run * each);
      first += run;
    }
  }

 private:
  const std::vector<std::uint64_t>& list() const noexcept { return *numbers_; }
  std::span<const std::uint64_t> part(std::uint64_t first, std::size_t count) const noexcept {
    return std::span{list()}.subspan(first, count);
  }
  // The place of the other source's record among `count` places of the list from `first` on.
  auto here(std::uint64_t first, std::size_t count) const noexcept {
    return [first, these = part(first, count)](std::uint64_t record) {
      const auto at = std::find(these.begin(), these.end(), record);
      return at == these.end()
                 ? std::nullopt
                 : std::optional{first + static_cast<std::uint64_t>(at - these.begin())};
    };
  }

  From source_;
  detail::Shared<const std::vector<std::uint64_t>> numbers_;
  bool ascends_ = false; // so that no record comes twice
};

/// Makes a source of the records of another one that have these numbers, in this order; a number
/// may come again: `where(source, {7, 3, 7})` has three records. prepare() refuses numbers that the
/// other source has not, one of unknown size, and one whose records come in order only.
template <class From> Subset<From> where(From source, std::vector<std::uint64_t> numbers) {
  return {std::move(source), std::move(numbers)};
}
/// Refuses what is no list of numbers.
template <class From, class Choice>
  requires(!std::convertible_to<Choice, std::vector<std::uint64_t>>)
Subset<From> where(From source, Choice) {
  constexpr bool a_list = !sizeof(Choice);
  static_assert(a_list, "penstock: where(source, numbers) takes the numbers of the records, a "
                        "std::vector<std::uint64_t>; to choose by what is in the records, read "
                        "them once and keep the numbers of those that you want.");
  return {std::move(source), {}};
}

} // namespace penstock
