// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/config.hpp>
#include <penstock/detail/base/throwing.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/formats/detail/line_index.hpp>
#include <penstock/io/detail/opening.hpp>
#include <penstock/io/direct.hpp>
#include <penstock/run/options.hpp>
#include <penstock/sources/detail/foreign_kind.hpp>
#include <penstock/sources/detail/largest_sums.hpp>
#include <penstock/sources/detail/record_files.hpp>
#include <penstock/sources/detail/thread_buffer.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <utility>

namespace penstock::detail {

/// Text files, one after the other, and where their lines lie.
template <class Io> class TextFiles {
 public:
  /// A file that has lines: those from number `first` to before `end`.
  struct Part {
    LineIndex lines;
    std::string path;
    std::uint64_t bytes;      // of the file
    std::uint64_t first_byte; // of the file, counted over all
    std::uint64_t first{};
    std::uint64_t end{};
  };

  /// Opens the files and reads all of them. Throws SourceError for a line of more than `longest`
  /// bytes.
  TextFiles(RecordFiles<Io> files, const PrepareOptions& preparing, DirectReads direct,
            std::uint64_t longest)
      : files_{std::move(files)} {
    files_.open(
        preparing, direct, 0, [](const auto&, std::size_t) { return 0; },
        [&](int, const auto& file, std::uint64_t before) {
          if (file.size() != 0) {
            parts_.push_back({{}, file.path(), file.size(), before});
          }
          return RecordsAt{0, file.size()};
        });
    index();
    std::uint64_t before = 0;
    for (Part& part : parts_) {
      part.first = before;
      before += part.lines.size();
      part.end = before;
    }
    if (sums_.of(1) > longest) {
      refuse_longer(longest);
    }
  }

  const RecordFiles<Io>& files() const noexcept { return files_; }
  /// Returns how many lines all files have.
  std::uint64_t size() const noexcept { return parts_.empty() ? 0 : parts_.back().end; }
  const LargestSums& sums() const noexcept { return sums_; }
  /// Calls f(part, first, count) for each file that has some of the `count` lines from `at` on:
  /// those from the file's number `first` on.
  template <class F> void each_part(std::uint64_t at, std::uint64_t count, F f) const {
    const Part* part =
        std::upper_bound(parts_.begin(), parts_.end(), at,
                         [](std::uint64_t line, const Part& p) { return line < p.end; });
    for (; count != 0; ++part) {
      const std::uint64_t here = std::min(part->end - at, count);
      f(*part, at - part->first, here);
      at += here;
      count -= here;
    }
  }

 private:
  struct Piece {
    std::size_t part;
    std::uint64_t at; // in the file
    LineEnds ends{};
  };

  // Most pieces have none of the longest lines, and so wait for no other thread.
  struct SharedLargest {
    Largest all{};
    StdAtomics::Atomic<std::uint64_t> least{0};
    std::mutex mutex{};

    void add(const Largest& lengths) {
      if (!lengths.empty()) {
        const std::scoped_lock lock{mutex};
        all.add(lengths);
        least.store(all.least(), StdAtomics::relaxed);
      }
    }
  };

  // All pieces of all files side by side: a file of any size is read by many threads.
  [[gnu::cold]] void index() {
    Vector<Piece> pieces;
    for (std::size_t i = 0; i != parts_.size(); ++i) {
      for (std::uint64_t at = 0; at < parts_[i].bytes; at += LineEnds::piece_bytes) {
        pieces.push_back({i, at});
      }
    }
    SharedLargest largest;
    const auto look = [&](std::size_t i) { pieces[i].ends = ends_in(pieces[i], largest); };
    const FirstFailure failure = for_all(pieces.size(), look, [] {});
    failure.rethrow_at(failure.at);
    for (std::size_t i = 0; i != pieces.size();) {
      Part& part = parts_[pieces[i].part];
      Vector<LineEnds> ends;
      ends.reserve((part.bytes - 1) / LineEnds::piece_bytes + 1);
      for (const std::size_t number = pieces[i].part;
           i != pieces.size() && pieces[i].part == number; ++i) {
        ends.push_back(std::move(pieces[i].ends));
      }
      part.lines = LineIndex{std::move(ends), part.bytes,
                             [&](std::uint64_t length) { largest.all.add(length); }};
    }
    sums_ = LargestSums{std::move(largest.all)};
  }
  LineEnds ends_in(const Piece& piece, SharedLargest& largest) const {
    const Part& part = parts_[piece.part];
    const auto bytes = thread_buffer().first(
        std::min<std::uint64_t>(LineEnds::piece_bytes, part.bytes - piece.at));
    files_.read_bytes(part.first_byte + piece.at, bytes, 0);
    if (piece.at == 0) {
      refuse_foreign(part, bytes);
    }
    std::byte before{};
    if (bytes[0] == std::byte{'\n'} && piece.at != 0) {
      files_.read_bytes(part.first_byte + piece.at - 1, {&before, 1}, 0);
    }
    const std::uint64_t least = largest.least.load(StdAtomics::relaxed);
    Largest longer;
    LineEnds ends{bytes, before, [&](std::uint64_t length) {
                    if (length > least) {
                      longer.add(length);
                    }
                  }};
    largest.add(longer);
    return ends;
  }

  static void refuse_foreign(const Part& part, std::span<const std::byte> first) {
    const auto some = first.first(std::min(first.size(), foreign_bytes));
    if (const std::string kind = foreign_kind(some, part.bytes); !kind.empty()) {
      throw_source_error({"penstock: ", part.path, " at byte 0 ", kind}, part.path, 0);
    }
  }

  [[gnu::cold]] void refuse_longer(std::uint64_t longest) const {
    for (const Part& part : parts_) {
      refuse_longer(part, longest);
    }
  }
  [[gnu::cold]] static void refuse_longer(const Part& part, std::uint64_t longest) {
    part.lines.each(0, part.lines.size(), [&](std::uint64_t number, LineIndex::Place line) {
      if (line.end - line.begin > longest) {
        throw_source_error({"penstock: lines: line ", number + 1, " of ", part.path, ", from byte ",
                            line.begin, " on, has ", line.end - line.begin,
                            " bytes, more than .longest, which is ", longest,
                            ": check that this is text, or set .longest."},
                           part.path, line.begin, part.first + number);
      }
      return true;
    });
  }

  RecordFiles<Io> files_;
  Vector<Part> parts_;
  LargestSums sums_;
};

} // namespace penstock::detail
