// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/batch.hpp>
#include <penstock/data/column.hpp>
#include <penstock/data/memory.hpp>
#include <penstock/data/schema.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/error.hpp>
#include <penstock/formats/detail/text_files.hpp>
#include <penstock/io/direct.hpp>
#include <penstock/io/posix.hpp>
#include <penstock/run/options.hpp>
#include <penstock/sources/detail/checks.hpp>
#include <penstock/sources/detail/paths.hpp>
#include <penstock/sources/detail/reads.hpp>
#include <penstock/sources/detail/record_files.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace penstock {

/// Options of lines().
struct LinesOptions {
  /// The longest line that is taken, in bytes without its end: what is no text has longer ones. A
  /// Reader without .value_bytes has room for it in each slot.
  std::uint64_t longest = std::uint64_t{1} << 20;
  /// Whether files are read past the page cache: see RecordsOptions::direct.
  DirectReads direct = DirectReads::automatic;
};

/// A record of lines(): the bytes of a line, without its end.
struct Line : Columns<Field<"text", Ragged<char>>> {};

/// A source of the lines of text files, file after file. Made by lines(). A line ends with "\n" or
/// "\r\n", or where its file does; an empty line is a record, and any byte may stand in one. Copies
/// share what open() has opened. Io makes the system calls: see PosixIo.
template <class Io = PosixIo> class Lines {
  using Files = detail::TextFiles<Io>;
  using Part = typename Files::Part;
  using LinePlace = detail::LineIndex::LinePlace;

 public:
  /// The type of its records.
  using schema = Line;

  /// Takes files and directories; touches none before open().
  explicit Lines(std::vector<std::string> paths, LinesOptions options = {}, Io io = {})
      : closed_{"lines", std::move(paths), std::move(io)}, options_{options} {}

  /// Opens the files, reads all of them once, by several threads side by side, and remembers where
  /// lines end: in two bytes a line, and some 400 for each MiB of text. Blocks. Throws SourceError
  /// where a file cannot be read or is of another kind, such as a compressed one, for a directory
  /// whose files have several endings, and for a line longer than `longest`, the first in order,
  /// with file, offset and record; what progress throws. Does nothing the second time.
  void open(const PrepareOptions& preparing = {}) {
    if (!files_) {
      files_ = detail::new_shared<Files>(closed_, preparing, options_.direct, options_.longest);
    }
  }

  /// Returns how many lines all files have. After open().
  std::uint64_t size() const { return files().size(); }
  /// Returns how many of the files that are not empty are read directly. After open().
  std::size_t direct_files() const { return files().files().direct_files(); }

  /// Puts the lines from into.index() on, which are numbered through all files. After open().
  /// Blocks; any number of threads at once, each of which keeps 256 KiB of memory for it. Throws
  /// SourceError with file, offset and record; Error if the batch has no room for the lines.
  template <HostSpace Where> std::size_t read(Batch<Line, Where> into) const {
    const Column<Ragged<char>> text = get<"text">(into);
    detail::check_range("lines", into.index(), into.size(), 0, size(), 0);
    std::size_t done = 0;
    files().each_part(into.index(), into.size(),
                      [&](const Part& part, std::uint64_t first, std::uint64_t count) {
                        read_part(files(), part, first, count, text, done);
                        done += count;
                      });
    return into.size();
  }
  /// Tells how many bytes each line from number `first` on has. After open(); any thread. Throws
  /// SourceError if there are not so many.
  void lengths(std::uint64_t first, std::span<std::uint64_t> into) const {
    detail::check_range("lines", first, into.size(), 0, size(), 0);
    auto to = into.begin();
    files().each_part(first, into.size(),
                      [&](const Part& part, std::uint64_t number, std::uint64_t count) {
                        part.lines.each(number, count, [&](std::uint64_t, LinePlace line) {
                          *to++ = line.end - line.begin;
                          return true;
                        });
                      });
  }
  /// Returns how many bytes any `records` lines have together at most. After open(); any thread.
  std::uint64_t value_bytes(std::uint64_t records) const { return files().sums().of(records); }
  /// Has the system read these lines into the page cache. Any thread.
  void will_read(std::uint64_t first, std::uint64_t count) const noexcept
    requires requires(const Io& io) { io.will_read(0, first, count); }
  {
    files_->each_part(first, count,
                      [&](const Part& part, std::uint64_t number, std::uint64_t lines) {
                        const std::uint64_t begin = part.lines[number].begin;
                        files_->files().will_read(part.first_byte + begin,
                                                  part.lines[number + lines - 1].end - begin, 1);
                      });
  }
  /// Appends how the files are read.
  [[gnu::cold]] void note(std::string& to) const { files().files().note(to); }

 private:
  const Files& files() const {
    if (!files_) {
      static_cast<void>(closed_.size()); // throws
    }
    return *files_;
  }

  // Puts `count` lines of a file from its number `first` on, as record `at` of the batch and those
  // behind it. Reads as many at once as the thread's memory holds.
  static void read_part(const Files& files, const Part& part, std::uint64_t first,
                        std::uint64_t count, const Column<Ragged<char>>& text, std::size_t at) {
    const std::uint64_t end = part.lines[first + count - 1].end;
    LinePlace held{};
    const std::span<std::byte> buffer = detail::thread_buffer();
    part.lines.each(first, count, [&](std::uint64_t number, LinePlace line) {
      const std::size_t bytes = line.end - line.begin;
      const auto read = [&](std::span<std::byte> into) {
        try {
          files.files().read_bytes(part.first_byte + line.begin, into, 0);
        } catch (const SourceError& e) {
          detail::throw_of_record(e, e.offset(),
                                  part.first + line_at(part, number, first + count, e.offset()));
        }
      };
      char* const to = text.put(at++, bytes);
      if (bytes > buffer.size()) {
        read({reinterpret_cast<std::byte*>(to), bytes});
      } else if (bytes != 0) {
        if (line.end > held.end) {
          held = {line.begin, std::min<std::uint64_t>(line.begin + buffer.size(), end)};
          read(buffer.first(held.end - held.begin));
        }
        std::memcpy(to, buffer.data() + (line.begin - held.begin), bytes);
      }
      return true;
    });
  }
  // Returns which of the lines from `number` to before `end` has a byte of the file.
  static std::uint64_t line_at(const Part& part, std::uint64_t number, std::uint64_t end,
                               std::uint64_t byte) {
    std::uint64_t found = number;
    part.lines.each(number, end - number, [&](std::uint64_t line, LinePlace place) {
      found = line;
      return place.end <= byte;
    });
    return found;
  }

  detail::RecordFiles<Io> closed_;
  LinesOptions options_;
  detail::Shared<const Files> files_;
};

/// Makes a source of the lines of a text file, or of all files in a directory, in the order of
/// their names' bytes, or of a list of both: `lines("corpus.txt")`. It touches no file before
/// open(), which prepare() calls. The files must stay as they are while they are read.
template <class Io = PosixIo>
Lines<Io> lines(detail::Paths paths, LinesOptions options = {}, Io io = {}) {
  return Lines<Io>{std::move(paths).take(), options, std::move(io)};
}

} // namespace penstock
