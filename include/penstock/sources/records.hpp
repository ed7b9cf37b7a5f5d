// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/batch.hpp>
#include <penstock/data/memory.hpp>
#include <penstock/data/schema.hpp>
#include <penstock/io/direct.hpp>
#include <penstock/io/file.hpp>
#include <penstock/io/many_reads.hpp>
#include <penstock/io/posix.hpp>
#include <penstock/run/options.hpp>
#include <penstock/sources/detail/checks.hpp>
#include <penstock/sources/detail/foreign_kind.hpp>
#include <penstock/sources/detail/paths.hpp>
#include <penstock/sources/detail/record_files.hpp>
#include <penstock/sources/detail/renumbered.hpp>
#include <penstock/sources/source.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace penstock {

/// Options of records().
struct RecordsOptions {
  /// Bytes to pass over at the start of each file.
  std::uint64_t offset = 0;
  /// Bytes of one record, if T is a single byte; 0: one T.
  std::size_t record_bytes = 0;
  /// Leaves out what a file has after its last whole record, as one may that is still being
  /// written; without it such a file is refused.
  bool drop_partial = false;
  /// Whether files are read past the page cache. Such reads leave nothing there for the next run,
  /// so `automatic` makes none if all files together fit into half of the memory that is free.
  DirectReads direct = DirectReads::automatic;
  /// Takes files whatever they begin with. Without it a file that is compressed is refused, and so
  /// is one of another format unless `offset` passes over how it begins; records of one byte are
  /// taken from any. Of more than 256 files the others are looked at only if their names end as
  /// those of compressed ones do.
  bool as_it_is = false;
};

/// A source of records that lie back to back in files, as they lie in memory. Made by records().
/// Copies share what open() has opened. Io makes the system calls: see PosixIo.
template <class T, class Io = PosixIo> class Records {
  static_assert(!std::is_const_v<T>, "penstock: records<T> writes T's into memory, so T must not "
                                     "be const.");
  static constexpr bool plain = !detail::HasColumns<T>;
  static_assert(plain, "penstock: records<T>(path) reads T's as they lie in the files, and T has "
                       "columns: read each from files of its own by zip<T>(...), or read structs, "
                       "and let a Decoder fill T.");

 public:
  /// Whether it was refused, so that a Reader says no more about it.
  static constexpr bool refused = !plain;
  /// The type of its records.
  using schema = T;

  /// Takes files and directories, to be read one after the other; touches none before open().
  explicit Records(std::vector<std::string> paths, RecordsOptions options = {}, Io io = {})
      : files_{"records", std::move(paths), std::move(io)}, options_{options} {}

  /// Opens the files, many by several threads at once, and refuses those that cannot be read in
  /// whole records, naming the first in order: one that is missing or no regular file, a directory
  /// without files or with files of several endings, one that is compressed or of a format that has
  /// a source of its own, a file that ends in the middle of a record or before the offset. A file
  /// that ends at the offset has no records. Blocks. Throws SourceError; OptionError for
  /// record_bytes; what progress throws. Does nothing the second time.
  void open(const PrepareOptions& preparing = {}) {
    if (!files_.is_open()) {
      open_files(preparing);
    }
  }

  /// Returns how many records all files have. After open().
  std::uint64_t size() const { return files_.size(); }
  /// Returns how many of the files that have records are read directly: see RecordsOptions::direct.
  /// After open().
  std::size_t direct_files() const { return files_.direct_files(); }
  /// Returns the bytes of one record.
  std::size_t record_bytes() const noexcept {
    return options_.record_bytes != 0 ? options_.record_bytes : sizeof(T);
  }

  /// Reads the records from into.index() on, which are numbered through all files. After open().
  /// Blocks; any number of threads at once. Throws SourceError with file, offset and record.
  template <HostSpace Where> std::size_t read(Batch<T, Where> into) const {
    detail::check_range("records", into, size(), record_bytes());
    read_bytes(into.index() * record_bytes(),
               {reinterpret_cast<std::byte*>(into.data()), into.size_bytes()});
    return into.size();
  }
  /// Reads the records of these numbers, in this order, many at once, and the errors are those of
  /// reading one after the other. After open(). Blocks; any number of threads at once. Throws
  /// SourceError with file, offset and record.
  template <HostSpace Where>
  std::size_t read_at(std::span<const std::uint64_t> numbers, Batch<T, Where> into) const
    requires ReadsMany<Io>
  {
    detail::check_numbers("records", numbers, size());
    detail::check_range("records", 0, 0, into.record_bytes(), size(), record_bytes());
    if (numbers.size() > into.size()) {
      detail::throw_source_error({"penstock: records: a batch of ", into.size(),
                                  " records is to hold ", numbers.size(),
                                  ": give read_at() as many numbers as it has."},
                                 {}, 0);
    }
    files_.read_many(numbers, {reinterpret_cast<std::byte*>(into.data()), into.size_bytes()},
                     record_bytes());
    return numbers.size();
  }
  /// For stages: whether records of this size are read many at once.
  detail::Abilities abilities() const
    requires ReadsMany<Io>
  {
    return {.read_bytes = true, .read_at = files_.reads_many(record_bytes())};
  }
  /// Reads the bytes from `at` on, counted over all records.
  void read_bytes(std::uint64_t at, std::span<std::byte> into) const {
    files_.read_bytes(at, into, record_bytes());
  }
  /// Has the system read these records into the page cache, so that it reads them in one run. Files
  /// that are read past it, and those that are opened for each read, are left alone. Any thread.
  void will_read(std::uint64_t first, std::uint64_t count) const noexcept
    requires requires(const Io& io) { io.will_read(0, first, count); }
  {
    files_.will_read(first, count, record_bytes());
  }
  /// Appends how the files are read, where it is not through the page cache by a descriptor each.
  [[gnu::cold]] void note(std::string& to) const { files_.note(to); }

 private:
  struct Nothing {};

  [[gnu::cold]] void open_files(const PrepareOptions& preparing) {
    const std::size_t bytes = detail::checked_record_bytes<T>("records", options_.record_bytes);
    const std::uint64_t empty =
        options_.offset + std::min<std::uint64_t>(bytes - 1, ~options_.offset);
    files_.open(
        preparing, options_.direct, empty,
        [&](const File<Io>& file, std::size_t i) {
          check_kind(file, i);
          return Nothing{};
        },
        [&](Nothing, const File<Io>& file, std::uint64_t before) {
          const std::uint64_t records = detail::checked_whole_records(
              file.path(), file.size(), options_.offset, bytes, before, options_.drop_partial);
          return detail::RecordsAt{options_.offset, records};
        });
  }

  // To look at a file is one more call, so of very many only some are looked at.
  [[gnu::cold]] void check_kind(const File<Io>& file, std::size_t number) const {
    constexpr std::size_t most_looked_at = 256;
    const bool skipped = number >= most_looked_at && !detail::is_named_packed(file.path());
    if (options_.as_it_is || record_bytes() == 1 || skipped) {
      return;
    }
    const auto read = [&](std::uint64_t at, std::span<std::byte> into) {
      read_full(file, at, into);
    };
    detail::refuse_foreign({file.path(), file.size(), read},
                           " If it has records alone, set .as_it_is.", options_.offset == 0);
  }

  detail::RecordFiles<Io> files_;
  RecordsOptions options_;
};

/// Makes a source of files of records: `records<Frame>("frames.bin")`,
/// `records<std::byte>(path, {.offset = 16, .record_bytes = 784})`. A directory stands for the
/// files in it, which end alike, in the order of their names' bytes. A list of paths, `{"a.bin",
/// "b.bin"}` or a std::vector, stands for all of them, one after the other. It touches no file
/// before open(), which prepare() calls. The files must stay as they are while they are read.
template <class T, class Io = PosixIo>
Records<T, Io> records(detail::Paths paths, RecordsOptions options = {}, Io io = {}) {
  return Records<T, Io>{std::move(paths).take(), options, std::move(io)};
}

} // namespace penstock
