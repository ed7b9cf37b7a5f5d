// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/batch.hpp>
#include <penstock/data/memory.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/error.hpp>
#include <penstock/order/order.hpp>
#include <penstock/run/options.hpp>
#include <penstock/sources/patience.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <type_traits>
#include <vector>

namespace penstock {

namespace detail {

/// Whether S, const or not, fills batches in Where, and is told how long it may wait.
template <class S, class Where>
concept TakesPatience =
    requires(S& source, Batch<typename S::schema, Where> into, const Patience& patience) {
      { source.read(into, patience) } -> std::convertible_to<Filled>;
    };
/// Whether S, const or not, fills batches in Where.
template <class S, class Where>
concept Fills =
    TakesPatience<S, Where> || requires(S& source, Batch<typename S::schema, Where> into) {
      { source.read(into) } -> std::convertible_to<Filled>;
    };

} // namespace detail

/// What a Reader reads. A cheap, copyable description, with
/// - `schema`: the type of its records, or Columns;
/// - `size() const`: how many records it has, or unknown_size;
/// - `read(Batch<schema, Where> into) const`, for Pageable and for Pinned: fills all of `into`,
///   whose first record is the source's record number into.index(), and returns how many it filled:
///   fewer than into.size() only at the end of a source of unknown size. Blocks. Many threads call
///   it at once, each for a range of its own, in any order. Throws, best a SourceError.
///
/// What waits for records that come when they come has instead
/// - `read(Batch<schema, Where> into, const Patience& patience) const`: waits by `patience`, and
///   returns early, with what it has, when that says that the run ends. Or with a std::stop_token
///   in its place, to which Patience converts. It may return for_now(count), a Filled: fewer than
///   asked, and more will come.
///
/// It may have
/// - `open()`: opens and checks. prepare() calls it once, before anything else, on one thread, or,
///   if it throws, again on another copy as often as OnError::retries says. As
///   `open(const PrepareOptions&)` it gets the options of prepare(), and may call `progress`, on
///   that thread, if there is one;
/// - `random_access() const`: false if its records come in order only: one thread then reads all of
///   them, from the first on. Without it, true, but for a source of unknown size whose read()
///   returns a Filled;
/// - `begins_anywhere() const`: true if its records come in order only, and read() may be asked for
///   any all the same, which takes as long as passing over those before: a run then has Positions,
///   and ranks share a source of known size;
/// - `record_bytes() const`: for a plain schema, bytes from one record to the next, after open();
///   without it, sizeof(schema);
/// - `extents() const`: for a schema of Columns, the `dynamic` extents, in order, after open(): a
///   range of numbers;
/// - `read_bytes(std::uint64_t at, std::span<std::byte> into) const`: reads the bytes from `at` on,
///   counted over all records back to back; throws if there are not so many. A Reader then fetches
///   records larger than a read in pieces;
/// - `will_read(std::uint64_t first, std::uint64_t count) const`: hears that these records, which
///   lie together, are soon to be read one by one: see Order::window. Must not block or throw;
/// - `lengths(std::uint64_t first, std::span<std::uint64_t> into) const`: for a schema with Ragged
///   columns, how many values each record from `first` on has, those of one record's Ragged columns
///   side by side. read() must put as many. Several workers then read one slot together, which pays
///   where a slot has many records that each take long;
/// - `value_bytes(std::uint64_t records) const`: for a schema with Ragged columns, after open(),
///   how many bytes the values of one column of any `records` of its records have together at most,
///   or unknown_size. A Reader without .value_bytes then has room for any record;
/// - `together() const`: for a schema with Ragged columns, after open(), how many of its records a
///   Reader's slot is to have unless a `.batch` says otherwise;
/// - `read_at(std::span<const std::uint64_t> numbers, Batch<schema, Where> into) const`, for
///   Pageable and for Pinned: fills `into` with as many records, those of these numbers, in this
///   order, which may repeat some; returns how many: all, if the source's size is known. Pays where
///   many reads at once cost less than one after the other;
/// - `record_of(std::uint64_t visit, Seed shuffle) const` and `group() const`: if it says by itself
///   in which order its records come, as a Mix does. record_of() is the number of the record that
///   comes as number `visit`, counted over all epochs: a function of its arguments alone. group()
///   is how many visits belong together: each group of them has the same share of everything;
/// - `identity() const`: after open(), a number that tells this source from others with as many
///   records, such as a hash of its options. A run refuses a Position whose source had another
///   number. Without it 0;
/// - `note(std::string& to) const`: appends to the Report's note how the records were read. Any
///   thread, during a run. If it throws, the note says so, and the run goes on;
/// - `name(std::uint64_t record) const`: what errors and the Report's skipped items call a record,
///   such as its file. Any thread, during a run. If it throws, the record has no name.
///
/// For a Ragged column read() and read_at() must put() every record.
template <class S>
concept Source = std::copy_constructible<S> && std::is_object_v<typename S::schema> &&
                 requires(const S& source) {
                   { source.size() } -> std::convertible_to<std::uint64_t>;
                 } && detail::Fills<const S, Pageable> && detail::Fills<const S, Pinned>;

namespace detail {

template <class S>
concept HearsWhatComes = requires(const S& source, std::uint64_t first, std::uint64_t count) {
  source.will_read(first, count);
};

template <class S>
concept ReadsBytes = !schema_traits<typename S::schema>::named &&
                     requires(const S& source, std::uint64_t at, std::span<std::byte> into) {
                       source.read_bytes(at, into);
                     };

template <class S>
concept KnowsLengths = schema_traits<typename S::schema>::ragged &&
                       requires(const S& source, std::uint64_t first,
                                std::span<std::uint64_t> into) { source.lengths(first, into); };

/// Whether S reads records by their numbers.
template <class S, class Where>
concept ReadsAt = requires(const S& source, std::span<const std::uint64_t> numbers,
                           Batch<typename S::schema, Where> into) {
  { source.read_at(numbers, into) } -> std::convertible_to<std::size_t>;
};

/// Whether S says in which order its records come.
template <class S>
concept SaysOrder = requires(const S& source, std::uint64_t visit, Seed shuffle) {
  { source.record_of(visit, shuffle) } -> std::convertible_to<std::uint64_t>;
  { source.group() } -> std::convertible_to<std::uint64_t>;
};

/// Whether a source was refused already, so that no stage says more about it.
template <class S> inline constexpr bool refused_source = false;
template <class S>
  requires requires { S::refused; }
inline constexpr bool refused_source<S> = S::refused;

/// A source's record type; a byte for a source that has none, which is refused elsewhere.
template <class S> struct schema_of {
  using type = std::byte;
};
template <class S>
  requires requires { typename S::schema; }
struct schema_of<S> {
  using type = typename S::schema;
};

template <Source S> void open_source(S& source, const PrepareOptions& preparing = {}) {
  if constexpr (requires { source.open(preparing); }) {
    source.open(preparing);
  } else if constexpr (requires { source.open(); }) {
    source.open();
  }
}

/// Fills `into` by the read() that the source has.
template <Source S, class Where>
Filled read_some(const S& source, Batch<typename S::schema, Where> into, const Patience& patience) {
  if constexpr (TakesPatience<const S, Where>) {
    return source.read(into, patience);
  } else {
    return source.read(into);
  }
}
/// Whether the source may give fewer records for now.
template <class S>
concept GivesForNow =
    requires(const S& source, Batch<typename S::schema, Pageable> into, const Patience& patience) {
      { source.read(into, patience) } -> std::same_as<Filled>;
    } || requires(const S& source, Batch<typename S::schema, Pageable> into) {
      { source.read(into) } -> std::same_as<Filled>;
    };
/// Returns whether an opened source's records come in order only.
template <Source S> bool comes_in_order(const S& source) {
  if constexpr (requires {
                  { source.random_access() } -> std::convertible_to<bool>;
                }) {
    return !source.random_access();
  } else {
    return GivesForNow<S> && source.size() == unknown_size;
  }
}
/// Returns whether a run may begin at any record of an opened source all the same.
template <Source S> bool begins_anywhere(const S& source) {
  if constexpr (requires {
                  { source.begins_anywhere() } -> std::convertible_to<bool>;
                }) {
    return source.begins_anywhere();
  } else {
    return false;
  }
}

/// What an opened source can do of what it need not.
struct Abilities {
  bool read_bytes{};
  bool lengths{};
  bool read_at{};
  bool for_now{};    // its read() may give fewer records for now
  bool says_order{}; // it has record_of() and group()
  bool anywhere{};   // its records come in order, and a run may begin at any
};
/// Whether S has members that it cannot always do, since it holds a source of any type, and tells
/// by `abilities() const` which it can.
template <class S>
concept TellsAbilities = requires(const S& source) {
  { source.abilities() } -> std::same_as<Abilities>;
};
template <Source S> Abilities abilities_of(const S& source) {
  if constexpr (TellsAbilities<S>) {
    return source.abilities();
  } else {
    return {.read_bytes = ReadsBytes<S>,
            .lengths = KnowsLengths<S>,
            .read_at = ReadsAt<S, Pageable> && ReadsAt<S, Pinned>,
            .for_now = GivesForNow<S>,
            .says_order = SaysOrder<S>,
            .anywhere = begins_anywhere(source)};
  }
}

/// Whether S holds a source of any type, so that it has all optional members.
template <class S> inline constexpr bool holds_any = false;
/// Whether S is known to say in which order its records come: it has no first or last ones.
template <class S> inline constexpr bool is_a_mix = SaysOrder<S> && !holds_any<S>;

/// Returns the bytes of an opened source's records, never 0.
template <Source S> std::size_t record_bytes_of(const S& source) {
  if constexpr (requires {
                  { source.record_bytes() } -> std::convertible_to<std::size_t>;
                }) {
    const std::size_t bytes = source.record_bytes();
    if (bytes == 0) {
      throw_source_error({"penstock: the source says that its records have 0 bytes: its "
                          "record_bytes() must be at least 1."},
                         {}, 0);
    }
    return bytes;
  } else {
    return sizeof(typename S::schema);
  }
}

/// Returns the dynamic extents of an opened source's schema; for a plain schema the bytes of a
/// record.
template <Source S> std::vector<std::size_t> extents_of(const S& source) {
  if constexpr (!HasColumns<typename S::schema>) {
    return {record_bytes_of(source)};
  } else if constexpr (requires { source.extents(); }) {
    const auto& extents = source.extents();
    return {std::begin(extents), std::end(extents)};
  } else {
    return {};
  }
}

} // namespace detail
} // namespace penstock
