// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/data/batch.hpp>
#include <penstock/data/schema.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/error.hpp>
#include <penstock/sources/detail/part_of.hpp>
#include <penstock/sources/detail/reads.hpp>
#include <penstock/sources/patience.hpp>
#include <penstock/sources/source.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <type_traits>

namespace penstock::detail {

// What sources need that number the records of another source anew. `call` names what the user
// called.

/// What read() of a source over these returns: a number, unless one of them gives for now.
template <class... From>
using CountOf = std::conditional_t<(GivesForNow<From> || ...), Filled, std::size_t>;
template <class... From> CountOf<From...> count_of(const Filled& filled) noexcept {
  if constexpr (std::is_same_v<CountOf<From...>, Filled>) {
    return filled;
  } else {
    return filled.count;
  }
}

/// How many lengths a record has: one for each Ragged column, which has two arrays.
template <HasColumns S>
inline constexpr std::size_t ragged_columns =
    schema_traits<S>::parts - schema_traits<S>::columns::count;

/// Throws `e` as an error about record `number`, or about none.
[[noreturn, gnu::cold]] void throw_renumbered(const SourceError& e, const char* call,
                                              std::optional<std::uint64_t> number);
/// Calls f, which asks another source, and returns what it does. If f throws a SourceError about a
/// record, `here(record)` says which one that is here, or none.
template <class Here, class F> auto renumbered(const char* call, Here here, F f) {
  try {
    return f();
  } catch (const SourceError& e) {
    if (!e.record()) {
      throw;
    }
    const std::optional<std::uint64_t> number = here(*e.record());
    if (number == e.record()) {
      throw;
    }
    throw_renumbered(e, call, number);
  }
}
/// For renumbered(): the records of another source from number `there` on are those from `first`
/// on.
struct Moved {
  std::uint64_t there;
  std::uint64_t first;
  std::optional<std::uint64_t> operator()(std::uint64_t record) const noexcept {
    return record >= there ? std::optional{first + (record - there)} : std::nullopt;
  }
};

/// Throws SourceError unless all numbers are less than `size`.
void check_numbers(const char* call, std::span<const std::uint64_t> numbers, std::uint64_t size);

/// Fills `into` with the records of these numbers, of a source in which record `number` has the
/// number there(number). Returns how many.
template <Source S, class Where, class There>
std::size_t read_there(const char* call, const S& source, std::span<const std::uint64_t> numbers,
                       Batch<typename S::schema, Where> into, There there) {
  std::uint64_t theirs[128];
  std::size_t done = 0;
  while (done != numbers.size()) {
    const std::size_t some = std::min(numbers.size() - done, std::size(theirs));
    const auto ours = numbers.subspan(done, some);
    std::transform(ours.begin(), ours.end(), theirs, there);
    const auto here = [&](std::uint64_t record) -> std::optional<std::uint64_t> {
      const auto* const at = std::find(theirs, theirs + some, record);
      return at == theirs + some ? std::nullopt
                                 : std::optional{ours[static_cast<std::size_t>(at - theirs)]};
    };
    const std::size_t got = renumbered(call, here, [&] {
      return read_numbered(source, std::span{theirs, some}, part_of(into, done, some, theirs[0]),
                           Patience{})
          .count;
    });
    done += got;
    if (got != some) {
      break;
    }
  }
  return done;
}

#if PENSTOCK_BODIES
PENSTOCK_NOINLINE void throw_renumbered(const SourceError& e, const char* call,
                                        std::optional<std::uint64_t> number) {
  if (number) {
    throw_source_error({text_of(e), " In ", call, "() it is record ", *number, "."}, e.file(),
                       e.offset(), number);
  }
  throw SourceError{text_of(e), e.file(), e.offset()};
}

PENSTOCK_INLINE void check_numbers(const char* call, std::span<const std::uint64_t> numbers,
                                   std::uint64_t size) {
  for (const std::uint64_t number : numbers) {
    if (number >= size) {
      throw_source_error({"penstock: ", call, ": asked for record ", number,
                          ", but the source has ", size, ": ask for no more than size()."},
                         {}, 0, number);
    }
  }
}
#endif

} // namespace penstock::detail
