// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/batch.hpp>
#include <penstock/sources/detail/part_of.hpp>
#include <penstock/sources/patience.hpp>
#include <penstock/sources/source.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace penstock::detail {

/// Returns how many of these numbers, at least one, follow each other from the first on.
inline std::size_t run_of(std::span<const std::uint64_t> numbers) noexcept {
  std::size_t count = 1;
  while (count != numbers.size() && numbers[count] == numbers[0] + count) {
    ++count;
  }
  return count;
}

/// Fills `into` with the records of these numbers, as many, in this order: by the source's
/// read_at(), or, if it has none, each run of numbers that follow each other by one read(). Returns
/// fewer only where read() does.
template <Source S, class Where>
Filled read_numbered(const S& source, std::span<const std::uint64_t> numbers,
                     Batch<typename S::schema, Where> into, const Patience& patience) {
  if constexpr (ReadsAt<S, Where>) {
    if (abilities_of(source).read_at) {
      return source.read_at(numbers, into);
    }
  }
  Filled done = 0;
  while (done.count != numbers.size()) {
    const std::size_t run = run_of(numbers.subspan(done.count));
    const Filled got =
        read_some(source, part_of(into, done.count, run, numbers[done.count]), patience);
    done.count += got.count;
    if (got.count != run) {
      done.for_now = got.for_now;
      return done;
    }
  }
  return done;
}

} // namespace penstock::detail
