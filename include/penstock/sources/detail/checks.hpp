// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/data/batch.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/error.hpp>
#include <penstock/sources/source.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

namespace penstock::detail {

// What sources over sources ask of those that they are given, once these are open. `call` names
// what the user called, `which` the source.

/// Throws OptionError if the source says by itself in which order its records come.
template <Source S>
[[gnu::cold]] void check_no_mix(const char* call, std::string_view which, const S& source) {
  if (abilities_of(source).says_order) {
    throw_error<OptionError>({"penstock: ", call, ": ", which,
                              " is a mix, which has an order of its own, and no first or last "
                              "records: call ",
                              call, "() of its parts, and mix what comes of that."});
  }
}
/// Throws OptionError unless the source knows how many records it has, and has them at hand in any
/// order.
template <Source S>
[[gnu::cold]] void check_at_hand(const char* call, std::string_view which, const S& source) {
  if (source.size() == unknown_size) {
    throw_error<OptionError>({"penstock: ", call, ": nobody knows how many records ", which,
                              " has before its end is reached, and ", call,
                              "() must know: only take() is for such a source."});
  }
  if (comes_in_order(source)) {
    throw_error<OptionError>({"penstock: ", call, ": the records of ", which,
                              " come in order only, from its first on, and ", call,
                              "() reads others first: only take() is for such a source."});
  }
}

/// Returns the size of T's records: `asked`, which the user gave, or sizeof(T) if that is 0. `call`
/// names what the user called. Throws OptionError.
std::size_t checked_record_bytes(const char* call, std::size_t asked, std::size_t of_t);
template <class T> std::size_t checked_record_bytes(const char* call, std::size_t asked) {
  return checked_record_bytes(call, asked, sizeof(T));
}

/// Throws OptionError unless the source has a record of this number.
void check_number(const char* call, std::uint64_t number, std::uint64_t size);

/// Throws SourceError unless `count` records of `bytes` from record `first` on are a range of a
/// source of `size` records of `record_bytes`.
void check_range(const char* call, std::uint64_t first, std::size_t count, std::size_t bytes,
                 std::uint64_t size, std::size_t record_bytes);
/// Throws SourceError unless `into` is such a range of the source. Call it before you write
/// anything.
template <class T, class Where>
void check_range(const char* call, Batch<T, Where> into, std::uint64_t size,
                 std::size_t record_bytes) {
  check_range(call, into.index(), into.size(), into.record_bytes(), size, record_bytes);
}

/// Throws SourceError if read_bytes() asks a source of `size` records for bytes beyond them.
void check_bytes(const char* call, std::uint64_t at, std::size_t bytes, std::uint64_t size,
                 std::size_t record_bytes);

#if PENSTOCK_BODIES
PENSTOCK_INLINE std::size_t checked_record_bytes(const char* call, std::size_t asked,
                                                 std::size_t of_t) {
  constexpr std::size_t most = std::numeric_limits<std::ptrdiff_t>::max();
  if (asked != 0 && of_t != 1) {
    throw_error<OptionError>({"penstock: ", call, ": record_bytes is ", asked,
                              ", but it is for records of single bytes, and T has ", of_t,
                              ": leave it out, or take std::byte for T."});
  }
  if (asked > most) {
    throw_error<OptionError>({"penstock: ", call, ": record_bytes is ", asked,
                              ", more than any memory can hold: give the bytes of one record."});
  }
  return asked != 0 ? asked : of_t;
}

PENSTOCK_INLINE void check_number(const char* call, std::uint64_t number, std::uint64_t size) {
  if (number >= size) {
    throw_error<OptionError>({"penstock: ", call, ": asked for number ", number, ", but there are ",
                              size,
                              ", counted from 0: give a number below that. batch.index() goes on "
                              "through all epochs; visit(i).record does not."});
  }
}

PENSTOCK_INLINE void check_range(const char* call, std::uint64_t first, std::size_t count,
                                 std::size_t bytes, std::uint64_t size, std::size_t record_bytes) {
  if (first > size || count > size - first) {
    throw_source_error({"penstock: ", call, ": asked for ", count, " records from record ", first,
                        " on, but the source has ", size, ": ask for no more than size()."},
                       {}, 0, first);
  }
  if (bytes != record_bytes) {
    throw_source_error({"penstock: ", call, ": asked for records of ", bytes,
                        " bytes, but they have ", record_bytes, ": give the batch record_bytes()."},
                       {}, 0, first);
  }
}

PENSTOCK_INLINE void check_bytes(const char* call, std::uint64_t at, std::size_t bytes,
                                 std::uint64_t size, std::size_t record_bytes) {
  const std::uint64_t end = size * record_bytes;
  if (at > end || bytes > end - at) {
    throw_source_error({"penstock: ", call, ": asked for ", bytes, " bytes from byte ", at,
                        " on, but the source has ", end, ": ask for no more than there are."},
                       {}, 0, at / record_bytes);
  }
}
#endif

} // namespace penstock::detail
