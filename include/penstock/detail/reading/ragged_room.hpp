// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/engine/sizes.hpp>
#include <penstock/sources/detail/optional_members.hpp>
#include <penstock/sources/source.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace penstock::detail {

/// How many records a slot holds, and how many bytes of each Ragged column's values.
struct RaggedRoom {
  std::size_t records;
  std::size_t value_bytes;
};

/// Returns the room of slots of `records` records, or fewer unless that many are `fixed`. A source
/// that tells how long its records are gets room for any of them: `value_bytes` is what the user
/// asked for, or 0. Each record may stand in a slot `times`.
template <class S>
[[gnu::cold]] RaggedRoom ragged_room(const S& source, std::size_t records, bool fixed,
                                     std::size_t value_bytes, std::uint64_t times) {
  const std::size_t enough = usual_values(value_bytes);
  if constexpr (requires { source.value_bytes(std::uint64_t{1}); }) {
    if (source.value_bytes(1) == unknown_size) {
      return {records, enough};
    }
    const auto room = [&](std::size_t some) {
      const std::uint64_t each = source.value_bytes((some + times - 1) / times);
      const std::uint64_t most = std::numeric_limits<std::ptrdiff_t>::max() / times;
      return std::size_t{std::min(each, most) * times};
    };
    // Slots of few records take long. Where few records are far longer than the rest, slots that
    // are mostly empty are the better choice.
    const std::uint64_t all = source.size();
    const std::uint64_t in_all = value_bytes != 0 ? unknown_size : source.value_bytes(all);
    const std::uint64_t usual = all == 0 || in_all == unknown_size ? unknown_size : in_all / all;
    const auto fits = [&](std::size_t some_records) {
      const std::size_t bytes = room(some_records);
      return bytes <= enough || (bytes <= 8 * enough && usual <= enough / some_records);
    };
    std::size_t some = fixed ? records : 1;
    while (some < records && fits(std::min(2 * some, records))) {
      some = std::min(2 * some, records);
    }
    return {some, value_bytes != 0 ? value_bytes : std::max(enough, room(some))};
  }
  return {records, enough};
}

} // namespace penstock::detail
