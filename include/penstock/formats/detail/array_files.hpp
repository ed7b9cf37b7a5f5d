// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/batch.hpp>
#include <penstock/data/memory.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/formats/array_options.hpp>
#include <penstock/formats/detail/array_header.hpp>
#include <penstock/io/file.hpp>
#include <penstock/run/options.hpp>
#include <penstock/sources/detail/checks.hpp>
#include <penstock/sources/detail/header_file.hpp>
#include <penstock/sources/detail/record_files.hpp>
#include <penstock/sources/detail/value_type.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace penstock::detail {

/// A source of the records of arrays, one array a file, one record for each index of the first
/// axis. Format has the name of what the user called, and says what array is in a file.
template <class T, class Format, class Io> class ArrayFiles {
  static constexpr bool known = is_value<T>;
  static_assert(known, "penstock: files of arrays hold numbers, bool, ps::Half or ps::BFloat16, "
                       "and T is none of them: give std::byte for rows as they lie.");

 public:
  /// Whether it was refused, so that a Reader says no more about it.
  static constexpr bool refused = !known;
  /// The type of its records, or of the values of one.
  using schema = T;

  /// Takes files and directories, to be read one after the other, and the extents that a record
  /// has; touches none before open().
  ArrayFiles(std::vector<std::string> paths, ArrayOptions options, Io io,
             std::vector<std::size_t> extents = {}, Format format = {})
      : files_{Format::call, std::move(paths), std::move(io)}, options_{options},
        format_{std::move(format)}, extents_{std::move(extents)} {}

  /// Opens the files, many by several threads at once, and refuses the first in order whose header
  /// is wrong, is not of the type or the extents that are wanted or of another type or shape than
  /// those before it, or does not fit the file's size. Blocks. Throws SourceError; what progress
  /// throws. Does nothing the second time.
  void open(const PrepareOptions& preparing = {}) {
    if (!files_.is_open()) {
      open_files(preparing);
    }
  }

  /// Returns how many records all files have. After open().
  std::uint64_t size() const { return files_.size(); }
  /// Returns how many files are read directly: see ArrayOptions::direct. After open().
  std::size_t direct_files() const { return files_.direct_files(); }
  /// Returns the bytes of one record. After open().
  std::size_t record_bytes() const noexcept { return record_bytes_; }
  /// Returns what the arrays of all files are; nothing of none. After open().
  ArrayInfo info() const {
    std::vector<std::uint64_t> extents{of_record_.begin(), of_record_.end()};
    return {name_of(type_), std::move(extents)};
  }
  /// For errors: the paths, and what the array in the first is called.
  /// @{
  const std::vector<std::string>& paths() const noexcept { return files_.paths(); }
  const RecordFiles<Io>& files() const noexcept { return files_; }
  std::string named() const { return format_.named(paths().front()); }
  /// @}

  /// Reads the records from into.index() on, which are numbered through all files. After open().
  /// Blocks; any number of threads at once. Throws SourceError with file, offset and record.
  template <HostSpace Where> std::size_t read(Batch<T, Where> into) const {
    check_range(Format::call, into, size(), record_bytes());
    read_bytes(into.index() * record_bytes(),
               {reinterpret_cast<std::byte*>(into.data()), into.size_bytes()});
    return into.size();
  }
  /// Reads the bytes from `at` on, counted over all records, as they lie in this machine's memory.
  void read_bytes(std::uint64_t at, std::span<std::byte> into) const {
    if (!swapped_) {
      files_.read_bytes(at, into, record_bytes_);
    } else {
      read_swapped(at, into);
    }
  }
  /// Has the system read these records into the page cache. Any thread.
  void will_read(std::uint64_t first, std::uint64_t count) const noexcept
    requires requires(const Io& io) { io.will_read(0, first, count); }
  {
    files_.will_read(first, count, record_bytes_);
  }
  /// Appends how the files are read, where it is not as most are.
  [[gnu::cold]] void note(std::string& to) const {
    files_.note(to);
    if (swapped_) {
      add_note(to, "turns the bytes of each value");
    }
  }

 private:
  [[gnu::cold]] void open_files(const PrepareOptions& preparing) {
    const WantedArray wanted{value_type_of<T>(), std::is_same_v<T, std::byte>, extents_};
    CheckedArray first;
    std::string first_path;
    files_.open(
        preparing, options_.direct, 0,
        [&](const File<Io>& file, std::size_t) {
          const auto read = [&](std::uint64_t at, std::span<std::byte> into) {
            read_full(file, at, into);
          };
          return format_.array(HeaderFile{file.path(), file.size(), read}, wanted);
        },
        [&](CheckedArray& array, const File<Io>& file, std::uint64_t) {
          const RecordsAt at{array.offset, array.records, array.in_memory};
          if (first_path.empty()) {
            first_path = file.path();
            first = std::move(array);
          } else {
            check_alike(array, file.path(), first, first_path);
          }
          return at;
        });
    type_ = first.type;
    of_record_ = std::move(first.extents);
    swapped_ = first.swapped;
    record_bytes_ = first.record_bytes;
  }
  [[gnu::cold]] void check_alike(const CheckedArray& array, const std::string& path,
                                 const CheckedArray& first, const std::string& first_path) const {
    const auto said = [](const CheckedArray& a) {
      return joined({name_of(a.type), a.swapped ? " of the other byte order" : "", " with shape ",
                     shape_of(a.extents)});
    };
    const bool alike = array.type == first.type && array.swapped == first.swapped &&
                       array.record_bytes == first.record_bytes &&
                       std::equal(array.extents.begin(), array.extents.end(), first.extents.begin(),
                                  first.extents.end());
    if (!alike) {
      throw_source_error({"penstock: ", format_.named(path), " has records of ", said(array),
                          ", and those of ", format_.named(first_path), " are ", said(first),
                          ": read files of equal records together, and others by a source of "
                          "their own."},
                         path, 0);
    }
  }

  // `at` and its end may lie within values: those are read whole beside.
  [[gnu::cold]] void read_swapped(std::uint64_t at, std::span<std::byte> into) const {
    check_bytes(Format::call, at, into.size(), size(), record_bytes_);
    const std::size_t width = type_.bytes;
    const auto part = [&](std::size_t past, std::size_t count) {
      std::byte value[16];
      files_.read_bytes(at - past, {value, width}, record_bytes_);
      swap_values({value, width}, width);
      std::memcpy(into.data(), value + past, count);
      into = into.subspan(count);
      at += count;
    };
    if (const std::size_t past = at % width; past != 0) {
      part(past, std::min(width - past, into.size()));
    }
    const std::span whole = into.first(into.size() / width * width);
    files_.read_bytes(at, whole, record_bytes_);
    swap_values(whole, width);
    at += whole.size();
    into = into.subspan(whole.size());
    if (!into.empty()) {
      part(0, into.size());
    }
  }

  RecordFiles<Io> files_;
  ArrayOptions options_;
  [[no_unique_address]] Format format_;
  std::vector<std::size_t> extents_;
  // Known once it is open.
  ValueType type_ = value_type_of<T>();
  Vector<std::uint64_t> of_record_;
  std::size_t record_bytes_ = sizeof(T);
  bool swapped_ = false;
};

} // namespace penstock::detail
