// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/vector.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

namespace penstock::detail {

/// Where the lines of a file lie: a line is what stands before "\n" or "\r\n", and what stands
/// behind the last of these, if that is not nothing. Made of pieces of the file, which may be
/// indexed side by side. A line takes two bytes, the place of its end in a block of 32 KiB, and a
/// block takes four.
class LineIndex {
 public:
  /// Bytes of all pieces but a file's last.
  static constexpr std::size_t piece_bytes = std::size_t{1} << 20;
  static constexpr std::size_t block_bytes = std::size_t{1} << 15;

  /// A line's text, without its end, in the file.
  struct Line {
    std::uint64_t begin;
    std::uint64_t end;
  };

  /// The line ends in one piece.
  class Piece {
   public:
    Piece() = default;
    /// Looks through the piece's bytes, behind the byte `before`.
    Piece(std::span<const std::byte> bytes, char before) {
      const char* const text = reinterpret_cast<const char*>(bytes.data());
      ends_ = Vector<std::uint16_t>(
          static_cast<std::size_t>(std::count(text, text + bytes.size(), '\n')));
      std::size_t count = 0;
      for (std::size_t block = 0; block != blocks; ++block) {
        const std::size_t base = std::min(block * block_bytes, bytes.size());
        const std::size_t end = std::min(base + block_bytes, bytes.size());
        for (std::size_t at = base; at != end; ++at) {
          const void* const found = std::memchr(text + at, '\n', end - at);
          if (!found) {
            break;
          }
          at = static_cast<std::size_t>(static_cast<const char*>(found) - text);
          const bool two = (at == 0 ? before : text[at - 1]) == '\r';
          ends_[count++] = static_cast<std::uint16_t>((at - base) | (two ? two_bytes : 0));
        }
        counts_[block] = static_cast<std::uint32_t>(count);
      }
    }

    std::size_t ends() const noexcept { return ends_.size(); }
    /// Returns where in the piece "\n" number `i` stands, and whether "\r" stands before it.
    std::pair<std::size_t, bool> end(std::size_t i) const noexcept {
      const auto block =
          std::upper_bound(counts_.begin(), counts_.end(), static_cast<std::uint32_t>(i)) -
          counts_.begin();
      const unsigned end = ends_[i];
      return {static_cast<std::size_t>(block) * block_bytes + (end & ~two_bytes),
              (end & two_bytes) != 0};
    }

   private:
    static constexpr std::size_t blocks = piece_bytes / block_bytes;
    static constexpr unsigned two_bytes = block_bytes;

    Vector<std::uint16_t> ends_;
    std::array<std::uint32_t, blocks> counts_{}; // of ends up to the end of each block
  };

  LineIndex() = default;
  /// Joins the pieces of a file of `bytes` bytes.
  LineIndex(Vector<Piece> pieces, std::uint64_t bytes) : pieces_{std::move(pieces)}, bytes_{bytes} {
    before_.reserve(pieces_.size());
    std::uint64_t end = 0;
    for (std::size_t i = 0; i != pieces_.size(); ++i) {
      before_.push_back(size_);
      size_ += pieces_[i].ends();
      if (pieces_[i].ends() != 0) {
        end = i * piece_bytes + pieces_[i].end(pieces_[i].ends() - 1).first + 1;
      }
    }
    size_ += end != bytes ? 1 : 0;
  }

  /// Returns how many lines there are.
  std::uint64_t size() const noexcept { return size_; }
  /// Calls f(number, line) for `count` lines from number `first` on, until f returns false.
  template <class F> void each(std::uint64_t first, std::uint64_t count, F f) const {
    if (count == 0) {
      return;
    }
    Cursor at = find(first);
    std::uint64_t begin = first == 0 ? 0 : behind(find(first - 1));
    for (std::uint64_t number = first; number != first + count; ++number) {
      while (at.piece != pieces_.size() && at.end == pieces_[at.piece].ends()) {
        at = {at.piece + 1, 0};
      }
      const bool unended = at.piece == pieces_.size();
      const auto [end, two] = unended ? std::pair{std::size_t{0}, false} //
                                      : pieces_[at.piece].end(at.end);
      const std::uint64_t stop = unended ? bytes_ : at.piece * piece_bytes + end;
      if (!f(number, Line{begin, stop - (two ? 1 : 0)})) {
        return;
      }
      begin = stop + 1;
      ++at.end;
    }
  }

 private:
  struct Cursor {
    std::size_t piece;
    std::size_t end; // in the piece
  };

  // Returns where the line's end stands; for one without an end, behind all.
  Cursor find(std::uint64_t line) const noexcept {
    const auto piece = std::upper_bound(before_.begin(), before_.end(), line) - before_.begin() - 1;
    const auto at = static_cast<std::size_t>(piece);
    return {at, static_cast<std::size_t>(line - before_[at])};
  }
  std::uint64_t behind(Cursor at) const noexcept {
    return at.piece * piece_bytes + pieces_[at.piece].end(at.end).first + 1;
  }

  Vector<Piece> pieces_;
  Vector<std::uint64_t> before_; // lines that end before a piece
  std::uint64_t bytes_{};
  std::uint64_t size_{};
};

} // namespace penstock::detail
