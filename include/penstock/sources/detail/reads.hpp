// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/data/batch.hpp>
#include <penstock/io/many_reads.hpp>
#include <penstock/sources/detail/part_of.hpp>
#include <penstock/sources/patience.hpp>
#include <penstock/sources/source.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <new>
#include <span>

namespace penstock::detail {

/// The bytes of thread_buffer().
inline constexpr std::size_t thread_buffer_bytes = std::size_t{256} << 10;

/// Returns memory for a piece of a file, aligned for direct reads. Each thread has its own, from
/// its first use to its end.
std::span<std::byte> thread_buffer();

/// Returns how many of these numbers, at least one, follow each other from the first on.
std::size_t run_of(std::span<const std::uint64_t> numbers) noexcept;

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

#if PENSTOCK_BODIES
PENSTOCK_INLINE std::span<std::byte> thread_buffer() {
  constexpr std::align_val_t alignment{page};
  struct Buffer {
    ~Buffer() { ::operator delete(at, alignment); }
    void* const at = ::operator new(thread_buffer_bytes, alignment);
  };
  thread_local const Buffer buffer;
  return {static_cast<std::byte*>(buffer.at), thread_buffer_bytes};
}

PENSTOCK_INLINE std::size_t run_of(std::span<const std::uint64_t> numbers) noexcept {
  std::size_t count = 1;
  while (count != numbers.size() && numbers[count] == numbers[0] + count) {
    ++count;
  }
  return count;
}
#endif

} // namespace penstock::detail
