// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/text.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

namespace penstock {

/// A part of a file that is to be read.
struct FileRead {
  std::size_t file{};        ///< Which of the files.
  std::uint64_t offset{};    ///< Where in it.
  std::span<std::byte> into; ///< Where to; not empty.
  std::size_t got{};         ///< How many bytes came, from the first on.
};

/// Whether an Io reads many parts of files at once, as UringIo does. Its type ManyReads is made
/// once for some files: `ManyReads(io, descriptors)`, a std::span<const int>, with -1 for a file
/// that it is to leave alone. It has
/// - `most`: how many parts it takes at once;
/// - `most_bytes`: the bytes of the largest record that gains by it;
/// - `usable()`: whether it reads anything at all;
/// - `read(std::span<FileRead> parts)`: reads what it can of these, of whole parts, some bytes, or
///   none, and sets `got`. When it returns, nothing more is written to them. Whoever calls it reads
///   the rest as if there were no ManyReads, so it has no errors. Any number of threads at once;
/// - `note()`: returns for the Report's note what became of it, perhaps nothing. Any thread.
template <class Io>
concept ReadsMany =
    std::constructible_from<typename Io::ManyReads, const Io&, std::span<const int>> &&
    requires(typename Io::ManyReads& many, std::span<FileRead> parts) {
      { std::as_const(many).usable() } noexcept -> std::same_as<bool>;
      { many.read(parts) } noexcept;
      { std::as_const(many).note() } -> std::same_as<std::string>;
    };

namespace detail {

/// What Io reads many parts of files with; nothing if it cannot.
template <class Io> struct ManyReadsOf {};
template <ReadsMany Io> struct ManyReadsOf<Io> {
  Owned<typename Io::ManyReads> many;
};

} // namespace detail
} // namespace penstock

namespace penstock::detail {

/// Returns how many records of `bytes` a file of `size` bytes has behind `offset`.
std::uint64_t whole_records(std::uint64_t size, std::uint64_t offset, std::size_t bytes) noexcept;

/// Returns the number of the first of these files that has `most` files of more than `empty` bytes
/// before it.
template <class Files>
[[gnu::cold]] std::size_t behind_first(std::size_t most, const Files& files,
                                       std::uint64_t empty) noexcept {
  std::size_t i = 0;
  for (; i < files.size() && most != 0; ++i) {
    most -= files[i].size > empty ? 1U : 0U;
  }
  return i;
}

/// Throws SourceError if a file's records are, with the `before` of files before it, more than 64
/// bits count.
[[gnu::cold]] void check_countable(const std::string& path, std::uint64_t size,
                                   std::uint64_t records, std::uint64_t before);

/// Returns how many whole records a file has that has `before` records in the files before it.
/// Throws SourceError if the file ends before the offset or, unless it is to be dropped, in the
/// middle of a record, and if all records together are more than 64 bits count.
[[gnu::cold]] std::uint64_t checked_whole_records(const std::string& path, std::uint64_t size,
                                                  std::uint64_t offset, std::size_t bytes,
                                                  std::uint64_t before, bool drop_partial);

#if PENSTOCK_BODIES
PENSTOCK_INLINE std::uint64_t whole_records(std::uint64_t size, std::uint64_t offset,
                                            std::size_t bytes) noexcept {
  return size < offset ? 0 : (size - offset) / bytes;
}

PENSTOCK_INLINE void check_countable(const std::string& path, std::uint64_t size,
                                     std::uint64_t records, std::uint64_t before) {
  if (records >= ~std::uint64_t{0} - before) {
    throw_source_error({"penstock: ", path, " has ", size,
                        " bytes, and with the files before it these are more records than 64 bits "
                        "can count: read fewer files at once."},
                       path, 0, before);
  }
}

PENSTOCK_INLINE std::uint64_t checked_whole_records(const std::string& path, std::uint64_t size,
                                                    std::uint64_t offset, std::size_t bytes,
                                                    std::uint64_t before, bool drop_partial) {
  if (size < offset) {
    throw_source_error({"penstock: ", path, " has ", size, " bytes, fewer than the offset of ",
                        offset,
                        " that is passed over in each file: check the offset and the file."},
                       path, size, before);
  }
  const std::uint64_t records = whole_records(size, offset, bytes);
  const std::uint64_t rest = size - offset - records * bytes;
  if (rest != 0 && !drop_partial) {
    throw_source_error({"penstock: ", path, " has ", size, " bytes, and after the offset of ",
                        offset, " these are no whole number of records of ", bytes,
                        " bytes: ", rest,
                        " are left over. If the file is whole, the record's type, record_bytes or "
                        "offset is wrong; else cut it to ",
                        size - rest, " bytes, or set .drop_partial."},
                       path, size - rest, before + records);
  }
  check_countable(path, size, records, before);
  return records;
}
#endif

} // namespace penstock::detail
