// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/vector.hpp>
#include <penstock/formats/frames.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace penstock::detail {

/// Kinds of Frame of zstd.
inline constexpr std::uint8_t zstd_frame_alone = 0;   // without a checksum in a seek table
inline constexpr std::uint8_t zstd_frame_checked = 1; // the lowest bits of XXH64 of what comes out

/// What zstd's seekable format and its frames have (zstd, contrib/seekable_format and
/// doc/zstd_compression_format.md).
inline constexpr std::uint64_t zstd_magic = 0xFD2F'B528;
inline constexpr std::uint64_t zstd_table_magic = 0x8F92'EAB1;
inline constexpr std::uint64_t zstd_table_frame = 0x184D'2A5E;
inline constexpr std::size_t zstd_table_foot = 9;
inline constexpr std::uint8_t zstd_table_has_checksums = 0x80;

/// Adds the frames that the seek table at a file's end has. Returns false if there is none that
/// fits the file.
[[gnu::cold]] bool index_by_table(const FrameFile& file, FrameIndex& into);

/// Adds the frames of a file of zstd, by the headers of its frames and blocks.
[[gnu::cold]] void index_by_headers(const FrameFile& file, FrameIndex& into);

/// Adds the frames of a file of zstd.
inline void index_zstd(const FrameFile& file, FrameIndex& into) {
  if (!index_by_table(file, into)) {
    index_by_headers(file, into);
  }
}

// What a frame's header says; `bytes` is 0 for one that is to be skipped.
struct ZstdHead {
  std::size_t bytes;                   // of the header
  std::size_t checksum;                // bytes behind the frame's blocks
  std::optional<std::uint64_t> claims; // how much comes out
};

[[gnu::cold]] inline ZstdHead zstd_head(const FrameFile& file, std::uint64_t at) {
  std::array<std::byte, 18> head;
  const auto there = std::span{head}.first(
      static_cast<std::size_t>(std::min<std::uint64_t>(head.size(), file.size - at)));
  if (there.size() < 5) {
    refuse_cut(file, at);
  }
  file.read(at, there);
  const std::uint64_t magic = little_endian(there.first(4));
  if (is_skippable(magic)) {
    return {0, 0, {}};
  }
  if (magic != zstd_magic) {
    file.refuse(at, {"bytes that begin no zstd frame: cut off what another program has left "
                     "there."});
  }
  const auto flags = std::to_integer<unsigned>(head[4]);
  const bool single = (flags & 0x20) != 0;
  constexpr std::array<std::size_t, 4> id_bytes{0, 1, 2, 4};
  constexpr std::array<std::size_t, 4> size_bytes{0, 2, 4, 8};
  const std::size_t size_at = 5 + (single ? 0U : 1U) + id_bytes[flags & 3];
  const std::size_t sized = flags >> 6 == 0 && single ? 1 : size_bytes[flags >> 6];
  if (there.size() < size_at + sized) {
    refuse_cut(file, at);
  }
  ZstdHead found{size_at + sized, (flags & 4) != 0 ? 4U : 0U, {}};
  if (sized != 0) {
    found.claims = little_endian(there.subspan(size_at, sized)) + (sized == 2 ? 256 : 0);
  }
  return found;
}

// Checks a frame out of which nothing comes, as the table says.
[[gnu::cold]] inline void check_empty(const FrameFile& file, std::uint64_t at,
                                      std::uint64_t packed) {
  if (packed == 0) {
    return;
  }
  constexpr std::size_t block = 3; // the head of a block of no bytes
  const ZstdHead head = zstd_head(file, at);
  if (head.bytes != 0 &&
      (head.claims ? *head.claims != 0 : packed != head.bytes + block + head.checksum)) {
    file.refuse(at, {"the seek table says that nothing comes out of the frame here, and it holds "
                     "something: the file is damaged. Copy or download it again."});
  }
}

inline bool index_by_table(const FrameFile& file, FrameIndex& into) {
  constexpr std::size_t head = 8;
  std::array<std::byte, zstd_table_foot> foot;
  if (file.size < head + foot.size()) {
    return false;
  }
  file.read(file.size - foot.size(), foot);
  const auto flags = std::to_integer<std::uint8_t>(foot[4]);
  constexpr std::uint8_t reserved = 0x7C;
  if (little_endian(std::span{foot}.subspan(5)) != zstd_table_magic || (flags & reserved) != 0) {
    return false;
  }
  const bool checked = (flags & zstd_table_has_checksums) != 0;
  const std::uint64_t each = checked ? 12 : 8;
  const std::uint64_t held = little_endian(std::span{foot}.first(4)) * each + foot.size();
  if (held > file.size - head) {
    return false;
  }
  const std::uint64_t begin = file.size - held - head;
  std::array<std::byte, head> first;
  file.read(begin, first);
  if (little_endian(std::span{first}.first(4)) != zstd_table_frame ||
      little_endian(std::span{first}.subspan(4)) != held) {
    return false;
  }
  Vector<std::byte> entries(held - foot.size()); // as the file has
  file.read(begin + head, {entries.begin(), entries.size()});
  const auto number = [&](std::size_t at) {
    return little_endian(std::span<const std::byte>{entries.begin() + at, 4});
  };
  std::uint64_t sum = 0;
  for (std::size_t at = 0; at != entries.size(); at += each) {
    sum += number(at);
  }
  if (sum != begin) {
    return false; // of another file, such as the last of several that were joined
  }
  std::uint64_t place = 0;
  for (std::size_t at = 0; at != entries.size(); at += each) {
    const std::uint64_t bytes = number(at + 4);
    if (bytes == 0) {
      check_empty(file, place, number(at));
    }
    into.add(file, place, number(at), bytes, checked ? zstd_frame_checked : zstd_frame_alone,
             checked ? static_cast<std::uint32_t>(number(at + 8)) : 0);
    place += number(at);
  }
  return true;
}

inline void index_by_headers(const FrameFile& file, FrameIndex& into) {
  for (std::uint64_t at = 0; at != file.size;) {
    const ZstdHead head = zstd_head(file, at);
    if (head.bytes == 0) {
      at += skippable_bytes(file, at);
      continue;
    }
    if (!head.claims) {
      file.refuse(at, {"a frame does not say how many bytes it holds, and there is no seek table "
                       "that fits the file: read it by ps::interleaved, or compress it again with "
                       "its size."});
    }
    std::uint64_t end = at + head.bytes;
    for (bool last = false; !last;) {
      std::array<std::byte, 3> block;
      if (end > file.size || file.size - end < block.size()) {
        refuse_cut(file, at);
      }
      file.read(end, block);
      const std::uint64_t said = little_endian(block);
      constexpr std::uint64_t run = 1; // one byte, again and again
      last = (said & 1) != 0;
      end += block.size() + ((said >> 1 & 3) == run ? 1 : said >> 3);
    }
    end += head.checksum;
    if (end > file.size) {
      refuse_cut(file, at);
    }
    into.add(file, at, end - at, *head.claims);
    at = end;
  }
}

} // namespace penstock::detail
