// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/formats/frames.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace penstock::detail {

/// How frames begin.
inline constexpr std::uint64_t lz4_magic = 0x184D'2204;
inline constexpr std::uint64_t lz4_legacy_magic = 0x184C'2102;

/// Kinds of Frame of LZ4: bits.
inline constexpr std::uint8_t lz4_whole_frame = 0;
inline constexpr std::uint8_t lz4_packed_block = 1; // of a frame whose blocks are independent
inline constexpr std::uint8_t lz4_stored_block = 2; // the same, as it is
inline constexpr std::uint8_t lz4_checked = 4;      // its checksum is XXH32 of the block's bytes

/// Returns how many bytes come out of a block; a negative number if it is damaged, or if more than
/// `most` would.
using Lz4BlockBytes = Borrowed<std::int64_t(std::span<const std::byte> block, std::uint64_t most)>;

/// What the header of an LZ4 frame says (lz4, doc/lz4_Frame_format.md).
struct Lz4Head {
  std::size_t bytes;                   ///< Of the header.
  std::uint64_t block;                 ///< The most bytes that come out of a block.
  bool independent;                    ///< Whether blocks are.
  std::size_t block_checksum;          ///< Bytes behind a block.
  std::size_t checksum;                ///< Bytes behind the frame's blocks.
  std::optional<std::uint64_t> claims; ///< How much comes out.
};

/// Adds the frames of a file of LZ4, or their blocks where those are independent. The last block of
/// a frame that does not say its size is decompressed.
[[gnu::cold]] void index_lz4(const FrameFile& file, FrameIndex& into, Lz4BlockBytes block_bytes);

[[gnu::cold]] inline Lz4Head lz4_head(const FrameFile& file, std::uint64_t at) {
  std::array<std::byte, 14> head{};
  constexpr std::size_t least = 7;
  if (file.size - at < least) {
    refuse_cut(file, at);
  }
  file.read(at, std::span{head}.first(least));
  const auto flags = std::to_integer<unsigned>(head[4]);
  const auto block = std::to_integer<unsigned>(head[5]) >> 4 & 7;
  const bool sized = (flags & 8) != 0;
  if (flags >> 6 != 1 || block < 4) {
    file.refuse(at, {"a frame's header is damaged: copy or download the file again."});
  }
  if ((flags & 1) != 0) {
    file.refuse(at, {"a frame needs a dictionary, which nobody can give here: compress it without "
                     "one."});
  }
  Lz4Head found{least + (sized ? 8U : 0U),  std::uint64_t{1} << (8 + 2 * block),
                (flags & 0x20) != 0,        (flags & 0x10) != 0 ? 4U : 0U,
                (flags & 4) != 0 ? 4U : 0U, {}};
  if (sized) {
    if (file.size - at < found.bytes) {
      refuse_cut(file, at);
    }
    file.read(at, head);
    found.claims = little_endian(std::span{head}.subspan(6, 8));
  }
  return found;
}

// Adds a frame's blocks. Returns the byte behind the frame.
[[gnu::cold]] inline std::uint64_t index_lz4_frame(const FrameFile& file, FrameIndex& into,
                                                   std::uint64_t at, Lz4BlockBytes block_bytes) {
  const Lz4Head head = lz4_head(file, at);
  const std::size_t before = into.frames().size();
  const std::uint64_t bytes_before = into.bytes();
  std::uint64_t bytes = 0;
  std::uint64_t end = at + head.bytes;
  std::array<std::byte, 4> word;
  const auto read_word = [&](std::uint64_t from) {
    if (from > file.size || file.size - from < word.size()) {
      refuse_cut(file, at);
    }
    file.read(from, word);
    return little_endian(word);
  };
  std::uint64_t next = read_word(end);
  while (next != 0) {
    constexpr std::uint64_t stored = 0x8000'0000;
    const std::uint64_t packed = next & ~stored;
    const std::uint64_t begin = end + word.size();
    if (packed > head.block) {
      file.refuse(end, {"a block of ", packed,
                        " bytes is larger than its frame allows: the file "
                        "is damaged. Copy or download it again."});
    }
    std::uint32_t checksum = 0;
    if (head.block_checksum != 0) {
      checksum = static_cast<std::uint32_t>(read_word(begin + packed));
    }
    const bool is_stored = (next & stored) != 0;
    end = begin + packed + head.block_checksum;
    next = read_word(end);
    std::uint64_t holds = is_stored ? packed : head.block;
    if (next == 0 && !is_stored && head.independent) { // the last block may hold less
      if (head.claims) {
        holds = *head.claims - bytes; // which is far too large if more was there before
      } else {
        std::vector<std::byte> block(static_cast<std::size_t>(packed));
        file.read(begin, block);
        const std::int64_t made = block_bytes(block, head.block);
        if (made < 0) {
          file.refuse(begin, {"a block is damaged: copy or download the file again."});
        }
        holds = static_cast<std::uint64_t>(made);
      }
    }
    if (head.independent && holds <= head.block) {
      const unsigned kind = (is_stored ? lz4_stored_block : lz4_packed_block) |
                            (head.block_checksum != 0 ? unsigned{lz4_checked} : 0);
      into.add(file, begin, packed, holds, static_cast<std::uint8_t>(kind), checksum);
    }
    bytes += holds;
  }
  end += word.size() + head.checksum;
  if (end > file.size) {
    refuse_cut(file, at);
  }
  // Blocks that depend on each other, or of which not all but the last are full.
  if (!head.independent || (head.claims && *head.claims != into.bytes() - bytes_before)) {
    into.cut(before);
    if (!head.claims) {
      file.refuse(at, {"the blocks of a frame depend on each other, and it does not say how many "
                       "bytes it holds: read the file by ps::interleaved, or compress it again "
                       "with independent blocks."});
    }
    into.add(file, at, end - at, *head.claims, lz4_whole_frame);
  }
  return end;
}

inline void index_lz4(const FrameFile& file, FrameIndex& into, Lz4BlockBytes block_bytes) {
  for (std::uint64_t at = 0; at != file.size;) {
    std::array<std::byte, 4> head;
    if (file.size - at < head.size()) {
      refuse_cut(file, at);
    }
    file.read(at, head);
    const std::uint64_t magic = little_endian(head);
    if (is_skippable(magic)) {
      at += skippable_bytes(file, at);
    } else if (magic == lz4_magic) {
      at = index_lz4_frame(file, into, at, block_bytes);
    } else {
      file.refuse(at, {magic == lz4_legacy_magic
                           ? "a frame of the kind that lz4 -l writes: compress it without -l."
                           : "bytes that begin no LZ4 frame: cut off what another program has left "
                             "there."});
    }
  }
}

} // namespace penstock::detail
