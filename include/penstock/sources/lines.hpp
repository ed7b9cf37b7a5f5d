// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/batch.hpp>
#include <penstock/column.hpp>
#include <penstock/detail/base/shared.hpp>
#include <penstock/detail/base/throwing.hpp>
#include <penstock/error.hpp>
#include <penstock/io/direct.hpp>
#include <penstock/io/posix.hpp>
#include <penstock/memory.hpp>
#include <penstock/prepare_options.hpp>
#include <penstock/schema.hpp>
#include <penstock/sources/detail/indexed_files.hpp>
#include <penstock/sources/detail/line_index.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock {

/// Options of lines().
struct LinesOptions {
  /// The longest line that is taken, in bytes without its end. What is no text has longer ones. A
  /// slot that holds a longer line than 1 MiB needs ReaderOptions::value_bytes too.
  std::uint64_t longest = std::uint64_t{1} << 20;
  /// Whether files are read past the page cache: see RecordsOptions::direct.
  DirectReads direct = DirectReads::automatic;
};

/// A record of lines(): the bytes of a line, without its end.
struct TextLine : Columns<Field<"text", Ragged<char>>> {};

/// A source of the lines of text files, one after the other. Made by lines(). A line ends with "\n"
/// or "\r\n", or where its file does; an empty line is a record, and any byte may stand in one.
/// Lines may be read in any order, by any number of threads. Copies share what open() has opened.
/// Io makes the system calls: see PosixIo.
template <class Io = PosixIo> class Lines {
 public:
  /// The type of its records.
  using schema = TextLine;

  /// Takes files and directories; touches none before open().
  explicit Lines(std::vector<std::string> paths, LinesOptions options = {}, Io io = {})
      : paths_{std::move(paths)}, options_{options}, io_{std::move(io)} {}

  /// Opens the files, reads all of them once, by several threads at once, and remembers where lines
  /// end: two bytes a line, and 128 for each MiB of text. Blocks. Throws SourceError where a file
  /// cannot be read, and, for the first in order, where a line is longer than `longest`, with its
  /// number and offset; what progress throws. Does nothing the second time.
  void open(const PrepareOptions& preparing = {}) {
    if (!files_) {
      files_ = detail::new_shared<const Files>(io_, paths_, options_.direct, options_.longest,
                                               preparing);
    }
  }

  /// Returns how many lines all files have. After open().
  std::uint64_t size() const { return files().parts().back().end; }
  /// Returns how many of the files are read directly. After open().
  std::size_t direct_files() const { return files().files().direct_files(); }

  /// Puts the lines from into.index() on, which are numbered through all files. After open().
  /// Blocks; any number of threads at once, each of which allocates 256 KiB for its first. Throws
  /// SourceError with file, offset and record; Error if a batch has no room for the lines.
  template <HostSpace Where> std::size_t read(Batch<TextLine, Where> into) const {
    const auto text = get<"text">(into);
    detail::check_range("lines", into.index(), into.size(), 0, size(), 0);
    Run run;
    files().each(into.index(), into.size(), [&](const auto& line) {
      if (run.count != 0 && !run.goes_on(line)) {
        read_run(run, into.index(), text);
        run = {};
      }
      run.add(line);
    });
    read_run(run, into.index(), text);
    return into.size();
  }
  /// Tells how many bytes each line from `first` on has. After open(). Never blocks.
  void lengths(std::uint64_t first, std::span<std::uint64_t> into) const {
    detail::check_range("lines", first, into.size(), 0, size(), 0);
    files().each(first, into.size(),
                 [&](const auto& line) { into[line.number - first] = line.end - line.begin; });
  }
  /// Has the system read these lines into the page cache. Any thread.
  void will_read(std::uint64_t first, std::uint64_t count) const noexcept
    requires requires(const Io& io) { io.will_read(0, first, count); }
  {
    files_->each_part(first, count, [&](std::size_t file, std::uint64_t begin, std::uint64_t end) {
      files_->files().will_read(file, begin, end - begin);
    });
  }
  /// Appends how the files are read.
  [[gnu::cold]] void note(std::string& to) const { files().files().note(to); }

 private:
  using Files = detail::IndexedFiles<Io>;
  using Line = typename Files::Line;

  // Lines of one file that are read at once.
  struct Run {
    static constexpr std::size_t most_bytes = std::size_t{256} << 10;
    static constexpr std::size_t most_lines = 1024;

    bool goes_on(const Line& line) const noexcept {
      return line.file == lines[0].file && count != most_lines &&
             line.end - lines[0].begin <= most_bytes;
    }
    void add(const Line& line) noexcept { lines[count++] = line; }

    std::size_t count = 0;
    Line lines[most_lines];
  };

  const Files& files() const {
    if (!files_) {
      const std::string_view first = paths_.empty() ? std::string_view{} : paths_.front();
      detail::throw_source_error(
          {"penstock: lines: ", first, " is not open yet: call open() first."}, first, 0);
    }
    return *files_;
  }

  void read_run(const Run& run, std::uint64_t index, const Column<Ragged<char>>& text) const {}

  std::vector<std::string> paths_;
  LinesOptions options_;
  Io io_;
  std::shared_ptr<const Files> files_;
};

} // namespace penstock
