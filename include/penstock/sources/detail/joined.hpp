// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/text.hpp>
#include <penstock/run/options.hpp>
#include <penstock/sources/detail/checks.hpp>
#include <penstock/sources/detail/opening_in_turn.hpp>
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
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace penstock::detail {

/// Some sources: a std::tuple of any types, or a std::vector of one.
template <class All> struct Sources;
template <class First, class... More> struct Sources<std::tuple<First, More...>> {
  using schema = typename schema_of<First>::type;
  using Count = CountOf<First, More...>;
  static constexpr bool are_sources = Source<First> && (Source<More> && ...);
  static constexpr bool same_records =
      (std::is_same_v<typename schema_of<More>::type, schema> && ...);
  static constexpr bool no_mix = !(is_a_mix<First> || ... || is_a_mix<More>);
  static constexpr bool refused = (refused_source<First> || ... || refused_source<More>);
  static constexpr bool read_bytes = ReadsBytes<First> && (ReadsBytes<More> && ...);
  static constexpr bool hear = (HearsWhatComes<First> || ... || HearsWhatComes<More>);
  static constexpr bool lengths = KnowsLengths<First> && (KnowsLengths<More> && ...);
  template <class Where>
  static constexpr bool read_at = ReadsAt<First, Where> && (ReadsAt<More, Where> && ...);

  static Count counted(const Filled& filled) noexcept { return count_of<First, More...>(filled); }
  template <class All> static std::size_t number(const All&) noexcept {
    return 1 + sizeof...(More);
  }
  /// Calls f with source number `at`.
  template <class All, class F> static void with(All& all, std::size_t at, F f) {
    std::size_t i = 0;
    std::apply([&](auto&... source) { ((i++ == at ? f(source) : void()), ...); }, all);
  }
};
template <class S> struct Sources<std::vector<S>> : Sources<std::tuple<S>> {
  static std::size_t number(const std::vector<S>& all) noexcept { return all.size(); }
  template <class All, class F> static void with(All& all, std::size_t at, F f) { f(all[at]); }
};

/// Sources one after the other, as one: what concat() and mix() are made of. `All` is a std::tuple
/// or a std::vector of them.
template <class All> class Joined {
  using They = Sources<All>;

 public:
  /// What all of the sources have.
  using schema = typename They::schema;

  /// Returns how many records all have. After open().
  std::uint64_t size() const {
    std::uint64_t sum = 0;
    each([&](std::size_t, const auto& source) { sum += source.size(); });
    return sum;
  }
  /// Returns the bytes from one record to the next. After open().
  std::size_t record_bytes() const
    requires(!HasColumns<schema>)
  {
    std::size_t bytes = 0;
    They::with(sources_, 0, [&](const auto& source) { bytes = record_bytes_of(source); });
    return bytes;
  }
  /// Returns the dynamic extents, in order. After open().
  std::vector<std::size_t> extents() const
    requires HasColumns<schema>
  {
    return extents_of_first();
  }
  /// For stages: what all of the sources can do, and whether one gives for now.
  Abilities abilities() const {
    Abilities all{.read_bytes = true, .lengths = true, .read_at = true};
    each([&](std::size_t, const auto& source) {
      const Abilities its = abilities_of(source);
      all = {.read_bytes = all.read_bytes && its.read_bytes,
             .lengths = all.lengths && its.lengths,
             .read_at = all.read_at && its.read_at,
             .for_now = all.for_now || its.for_now};
    });
    return all;
  }

  /// Tells it from others of as many records. After open().
  std::uint64_t identity() const {
    std::uint64_t all = 0;
    each([&](std::size_t, const auto& source) {
      all = and_then(and_then(all, identity_of(source)), source.size());
    });
    return all;
  }
  /// Appends how the records were read.
  void note(std::string& to) const {
    each([&](std::size_t, const auto& source) { note_of(source, to); });
  }

  /// Reads the records from into.index() on, which are numbered through all sources. Throws what
  /// the sources throw; a SourceError has the record's number here.
  template <HostSpace Where>
  typename They::Count read(Batch<schema, Where> into, const Patience& patience = {}) const {
    check_range(call_, into.index(), into.size(), 0, end(), 0);
    Filled all = 0;
    pieces(into.index(), into.size(), 1,
           [&](const auto& source, std::uint64_t there, std::size_t done, std::size_t count) {
             const Filled got = read_some(source, part_of(into, done, count, there), patience);
             all.count += got.count;
             all.for_now = got.for_now;
             return got.count == count;
           });
    return They::counted(all);
  }
  /// Reads the records of these numbers, where all sources can.
  template <HostSpace Where>
  std::size_t read_at(std::span<const std::uint64_t> numbers, Batch<schema, Where> into) const
    requires(They::template read_at<Where>)
  {
    check_numbers(call_, numbers, end());
    std::size_t done = 0;
    for (std::size_t run = 0; done != numbers.size(); done += run) {
      const std::size_t number = number_of(numbers[done]);
      const std::uint64_t first = first_of(number);
      for (run = 1; done + run != numbers.size() && number_of(numbers[done + run]) == number;) {
        ++run;
      }
      std::size_t got = 0;
      They::with(sources_, number, [&](const auto& source) {
        got = read_there(call_, source, numbers.subspan(done, run),
                         part_of(into, done, run, numbers[done]),
                         [first](std::uint64_t record) { return record - first; });
      });
      if (got != run) {
        return done + got;
      }
    }
    return done;
  }
  /// Reads the bytes from `at` on, counted over all records, where all sources can.
  void read_bytes(std::uint64_t at, std::span<std::byte> into) const
    requires(They::read_bytes)
  {
    check_bytes(call_, at, into.size(), end(), record_bytes());
    pieces(at, into.size(), record_bytes(),
           [&](const auto& source, std::uint64_t there, std::size_t done, std::size_t count) {
             source.read_bytes(there, into.subspan(done, count));
             return true;
           });
  }
  /// Hands on which records are soon to be read, to the sources that hear it. After open().
  void will_read(std::uint64_t first, std::uint64_t records) const noexcept
    requires(They::hear)
  {
    pieces(first, records, 1,
           []<class S>(const S& source, std::uint64_t there, std::size_t, std::size_t count) {
             if constexpr (HearsWhatComes<S>) {
               source.will_read(there, count);
             }
             return true;
           });
  }
  /// Returns the lengths of the records from `first` on, where all sources know them.
  void lengths(std::uint64_t first, std::span<std::uint64_t> into) const
    requires(They::lengths)
  {
    constexpr std::size_t a_record = ragged_columns<schema>;
    check_range(call_, first, into.size() / a_record, 0, end(), 0);
    pieces(first, into.size() / a_record, 1,
           [&](const auto& source, std::uint64_t there, std::size_t done, std::size_t count) {
             source.lengths(there, into.subspan(done * a_record, count * a_record));
             return true;
           });
  }

 protected:
  /// `call` names what the user called.
  Joined(const char* call, All sources) : call_{call}, sources_(std::move(sources)) {}

  /// Opens all sources, one after the other, and calls check(which, source) for each.
  template <class Check> void open_all(const PrepareOptions& preparing, Check check) {
    if (They::number(sources_) == 0) {
      throw_error<OptionError>({"penstock: ", call_,
                                ": the list of sources is empty: give it at "
                                "least one."});
    }
    ends_.clear();
    OpeningInTurn opening{preparing};
    each([&](std::size_t number, auto& source) {
      renumbered(call_, Moved{0, end()}, [&] { opening.open(source); });
      const std::string which = joined({"source number ", number});
      check_at_hand(call_, which, source);
      check(which, source);
      check_shape(number, extents_of(source));
      if (source.size() >= unknown_size - end()) {
        throw_source_error({"penstock: ", call_, ": with ", which, ", which has ", source.size(),
                            " records, these are more than 64 bits can count: give fewer."},
                           {}, 0);
      }
      ends_.push_back(end() + source.size());
    });
  }

  const All& sources() const noexcept { return sources_; }
  /// Return the number of a source's first record here, and how many records it has.
  /// @{
  std::uint64_t first_of(std::size_t number) const noexcept {
    return number == 0 ? 0 : ends_[number - 1];
  }
  std::uint64_t size_of(std::size_t number) const noexcept {
    return ends_[number] - first_of(number);
  }
  /// @}

 private:
  std::uint64_t end() const noexcept { return ends_.empty() ? 0 : ends_.back(); }
  std::size_t number_of(std::uint64_t record) const noexcept {
    return static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), record) -
                                    ends_.begin());
  }
  template <class F> void each(F f) const { each_of(sources_, f); }
  template <class F> void each(F f) { each_of(sources_, f); }
  template <class A, class F> static void each_of(A& all, F& f) {
    for (std::size_t i = 0; i != They::number(all); ++i) {
      They::with(all, i, [&](auto& source) { f(i, source); });
    }
  }
  std::vector<std::size_t> extents_of_first() const {
    std::vector<std::size_t> extents;
    They::with(sources_, 0, [&](const auto& source) { extents = extents_of(source); });
    return extents;
  }

  // Calls f(source, there, done, count) for each source that has some of the `count` units from
  // `at` on, of which a record has `a_record`: so many from the source's unit `there` on are those
  // behind the first `done`. Until f returns false.
  template <class F>
  void pieces(std::uint64_t at, std::size_t count, std::uint64_t a_record, F f) const {
    bool goes_on = true;
    for (std::size_t number = number_of(at / a_record), done = 0; done != count && goes_on;
         ++number) {
      const std::uint64_t there = at + done - first_of(number) * a_record;
      const auto some = static_cast<std::size_t>(
          std::min<std::uint64_t>(count - done, size_of(number) * a_record - there));
      if (some != 0) {
        They::with(sources_, number, [&](const auto& source) {
          goes_on = renumbered(call_, Moved{0, first_of(number)},
                               [&] { return f(source, there, done, some); });
        });
      }
      done += some;
    }
  }

  [[gnu::cold]] void check_shape(std::size_t number,
                                 const std::vector<std::size_t>& extents) const {
    const std::vector<std::size_t> first = extents_of_first();
    for (std::size_t i = 0; i != std::max(extents.size(), first.size()); ++i) {
      const auto at = [i](const std::vector<std::size_t>& of) { return i < of.size() ? of[i] : 0; };
      if (at(extents) != at(first)) {
        const bool columns = HasColumns<schema>;
        throw_source_error(
            {"penstock: ", call_, ": source number ", number,
             columns ? " has for a ps::dynamic extent " : " has records of so many bytes: ",
             at(extents), ", but number 0 has ", at(first), ": all must have the same."},
            {}, 0);
      }
    }
  }

  const char* call_;
  All sources_;
  std::vector<std::uint64_t> ends_; // of the sources that are open, in records
};

} // namespace penstock::detail
