// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/config.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/io/detail/opening.hpp>
#include <penstock/io/direct.hpp>
#include <penstock/run/options.hpp>
#include <penstock/sources/detail/foreign_kind.hpp>
#include <penstock/sources/detail/largest_sums.hpp>
#include <penstock/sources/detail/reads.hpp>
#include <penstock/sources/detail/record_files.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <span>
#include <string>
#include <utility>

namespace penstock::detail {

/// The line ends in a piece of a file. Each takes two bytes: its place in a block of 32 KiB, and
/// whether "\r" stands before it.
class LineEnds {
 public:
  /// Bytes of all pieces but a file's last.
  static constexpr std::size_t piece_bytes = thread_buffer_bytes;

  /// One "\n": where in the piece, and whether "\r" stands before it.
  struct End {
    std::size_t at;
    bool is_two;
  };

  LineEnds() = default;
  /// Looks through a piece. `before` is the byte before it, if there is one. Calls length(bytes)
  /// for each line that begins behind an end in this piece and ends in it.
  template <class F> LineEnds(std::span<const std::byte> bytes, std::byte before, F length) {
    std::size_t feeds = 0;
    each_word(bytes, [&](std::size_t, std::uint64_t found) {
      feeds += (found >> 7) * 0x0101'0101'0101'0101 >> 56; // without the processor's own count
    });
    ends_ = Vector<std::uint16_t>(feeds);
    std::size_t count = 0;
    std::size_t begin = 0; // of a line
    each_word(bytes, [&](std::size_t word, std::uint64_t found) {
      for (; found != 0; found &= found - 1) {
        const std::size_t at = word + static_cast<std::size_t>(std::countr_zero(found)) / 8;
        const bool is_two = (at == 0 ? before : bytes[at - 1]) == std::byte{'\r'};
        ends_[count] = static_cast<std::uint16_t>(at % block_bytes | (is_two ? two : 0));
        if (count != 0) {
          length(at - begin - (is_two ? 1 : 0));
        }
        begin = at + 1;
        counts_[at / block_bytes] = static_cast<std::uint32_t>(++count);
      }
    });
    for (std::size_t block = 1; block != blocks; ++block) {
      counts_[block] = std::max(counts_[block], counts_[block - 1]);
    }
  }

  std::size_t size() const noexcept { return ends_.size(); }
  End operator[](std::size_t i) const noexcept {
    const auto block = std::upper_bound(counts_.begin(), counts_.end(), i) - counts_.begin();
    return {static_cast<std::size_t>(block) * block_bytes + (ends_[i] & (two - 1U)),
            (ends_[i] & two) != 0};
  }

 private:
  static constexpr std::size_t block_bytes = std::size_t{1} << 15;
  static constexpr std::size_t blocks = piece_bytes / block_bytes;
  static constexpr unsigned two = block_bytes;

  // Calls f(at, found) for each eight bytes from `at` on: `found` has the highest bit of those that
  // are "\n". Lines are short, and to call memchr() for each takes twice as long.
  template <class F> static void each_word(std::span<const std::byte> bytes, F f) {
    static_assert(std::endian::native == std::endian::little);
    constexpr std::uint64_t low = 0x7f7f'7f7f'7f7f'7f7f;
    constexpr std::uint64_t feed = 0x0a0a'0a0a'0a0a'0a0a;
    const auto look = [&](std::size_t at, std::uint64_t word) {
      word ^= feed; // a byte behind the last becomes no 0
      f(at, ~(((word & low) + low) | word | low));
    };
    std::uint64_t word = 0;
    std::size_t at = 0;
    for (; at + sizeof word <= bytes.size(); at += sizeof word) {
      std::memcpy(&word, bytes.data() + at, sizeof word);
      look(at, word);
    }
    if (at != bytes.size()) {
      word = 0;
      std::memcpy(&word, bytes.data() + at, bytes.size() - at);
      look(at, word);
    }
  }

  Vector<std::uint16_t> ends_;
  std::array<std::uint32_t, blocks> counts_{}; // ends up to the end of each block
};

/// Where the lines of a file lie. A line is what stands before "\n" or "\r\n"; and what stands
/// behind the last of these, if anything does.
class LineIndex {
 public:
  /// A line's bytes in the file, without its end.
  struct LinePlace {
    std::uint64_t begin;
    std::uint64_t end;
  };

  LineIndex() = default;
  /// Joins the pieces of a file of `bytes` bytes. Calls length(bytes) for each line that none of
  /// them could tell of.
  template <class F>
  LineIndex(Vector<LineEnds> pieces, std::uint64_t bytes, F length)
      : pieces_{std::move(pieces)}, bytes_{bytes} {
    before_.reserve(pieces_.size());
    std::uint64_t begin = 0; // of the line that goes on
    for (std::size_t i = 0; i != pieces_.size(); ++i) {
      const LineEnds& piece = pieces_[i];
      before_.push_back(size_);
      size_ += piece.size();
      if (piece.size() != 0) {
        const std::uint64_t base = i * LineEnds::piece_bytes;
        const LineEnds::End first = piece[0];
        length(base + first.at - (first.is_two ? 1 : 0) - begin);
        begin = base + piece[piece.size() - 1].at + 1;
      }
    }
    size_ += begin != bytes ? 1 : 0;
    length(bytes - begin);
  }

  /// Returns how many lines there are.
  std::uint64_t size() const noexcept { return size_; }
  /// Returns where line `number` lies.
  LinePlace operator[](std::uint64_t number) const {
    LinePlace found{};
    each(number, 1, [&](std::uint64_t, LinePlace place) {
      found = place;
      return true;
    });
    return found;
  }
  /// Calls f(number, place) for `count` lines from number `first` on, until f returns false.
  template <class F> void each(std::uint64_t first, std::uint64_t count, F f) const {
    if (count == 0) {
      return;
    }
    auto [piece, at] = find(first);
    std::uint64_t begin = 0;
    if (first != 0) {
      const auto [before, last] = find(first - 1);
      begin = before * LineEnds::piece_bytes + pieces_[before][last].at + 1;
    }
    for (std::uint64_t number = first; number != first + count; ++number, ++at) {
      while (piece != pieces_.size() && at == pieces_[piece].size()) {
        ++piece;
        at = 0;
      }
      LinePlace place{begin, bytes_}; // without an end
      if (piece != pieces_.size()) {
        const LineEnds::End end = pieces_[piece][at];
        const std::uint64_t stop = piece * LineEnds::piece_bytes + end.at;
        place.end = stop - (end.is_two ? 1 : 0);
        begin = stop + 1;
      }
      if (!f(number, place)) {
        return;
      }
    }
  }

 private:
  // Returns the piece in which a line ends, and the number of its end there. For one without an
  // end, that is behind the last.
  std::pair<std::size_t, std::size_t> find(std::uint64_t line) const noexcept {
    const auto behind = std::upper_bound(before_.begin(), before_.end(), line);
    const auto piece = static_cast<std::size_t>(behind - before_.begin()) - 1;
    return {piece, line - before_[piece]};
  }

  Vector<LineEnds> pieces_;
  Vector<std::uint64_t> before_; // lines that end before a piece
  std::uint64_t bytes_{};
  std::uint64_t size_{};
};

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
  struct Stretch {
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
    Vector<Stretch> pieces;
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
  LineEnds ends_in(const Stretch& piece, SharedLargest& largest) const {
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
    part.lines.each(0, part.lines.size(), [&](std::uint64_t number, LineIndex::LinePlace line) {
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
