// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/io/many_reads.hpp>
#include <penstock/sources/detail/reads.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>

namespace penstock::detail {

/// Where a record lies, and how many records, with it, the file has from there on.
struct RecordPlace {
  std::size_t file;
  std::uint64_t offset;
  std::uint64_t records;
};

/// Reads the records of these numbers, one behind the other: those that are neighbours in one
/// piece, and many pieces at once. `find(number)` returns a RecordPlace; `read_rest(piece)` reads
/// what of a piece did not come, in the order of the pieces. Throws what both throw.
template <class Many, class Find, class ReadRest>
void read_many(Many& many, std::span<const std::uint64_t> numbers, std::span<std::byte> into,
               std::size_t record_bytes, Find find, ReadRest read_rest) {
  FileRead pieces[Many::most];
  while (!numbers.empty()) {
    std::size_t count = 0;
    for (; count != std::size(pieces) && !numbers.empty(); ++count) {
      const RecordPlace at = find(numbers[0]);
      const auto run =
          static_cast<std::size_t>(std::min<std::uint64_t>(run_of(numbers), at.records));
      const std::size_t bytes = run * record_bytes;
      pieces[count] = {at.file, at.offset, into.first(bytes)};
      numbers = numbers.subspan(run);
      into = into.subspan(bytes);
    }
    const auto filled = std::span{pieces}.first(count);
    many.read(filled);
    for (const FileRead& piece : filled) {
      if (piece.got < piece.into.size()) {
        read_rest(piece);
      }
    }
  }
}

} // namespace penstock::detail
