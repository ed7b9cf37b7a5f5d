// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/formats/frames.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace penstock::detail {

/// Adds the blocks of a file of BGZF: members of gzip, each of which says its own size (SAM format
/// specification, section 4.1).
[[gnu::cold]] void index_bgzf(const FrameFile& file, FrameIndex& into);

/// Returns how many bytes a block of BGZF has that begins with `head` at byte `at` of the file; 0
/// if a member of gzip does not say.
[[gnu::cold]] std::uint64_t bgzf_block_bytes(const FrameFile& file, std::uint64_t at,
                                             std::span<const std::byte, 18> head);

inline std::uint64_t bgzf_block_bytes(const FrameFile& file, std::uint64_t at,
                                      std::span<const std::byte, 18> head) {
  constexpr std::size_t extra_at = 12;
  const bool has_extra = (std::to_integer<unsigned>(head[3]) & 4) != 0;
  const std::uint64_t extra = has_extra ? little_endian(head.subspan(10, 2)) : 0;
  if (extra > file.size - at - extra_at) {
    refuse_cut(file, at);
  }
  std::vector<std::byte> fields(static_cast<std::size_t>(extra)); // less than 64 KiB
  file.read(at + extra_at, fields);
  for (std::span<const std::byte> left = fields; left.size() >= 6;) {
    const std::uint64_t bytes = little_endian(left.subspan(2, 2));
    if (left[0] == std::byte{'B'} && left[1] == std::byte{'C'} && bytes == 2) {
      return little_endian(left.subspan(4, 2)) + 1;
    }
    left = left.subspan(static_cast<std::size_t>(std::min<std::uint64_t>(4 + bytes, left.size())));
  }
  return 0;
}

inline void index_bgzf(const FrameFile& file, FrameIndex& into) {
  constexpr std::size_t least = 26; // of a header with a size, and what is behind the data
  std::uint64_t last = 0;           // how many bytes the last block holds
  for (std::uint64_t at = 0; at != file.size;) {
    std::array<std::byte, 18> head;
    if (file.size - at < least) {
      refuse_cut(file, at);
    }
    file.read(at, head);
    if (little_endian(std::span{head}.first(3)) != 0x08'8B1F) {
      file.refuse(at, {"bytes that begin no gzip member: cut off what another program has left "
                       "there."});
    }
    const std::uint64_t bytes = bgzf_block_bytes(file, at, head);
    if (bytes == 0) {
      file.refuse(at,
                  {"a gzip member does not say how many bytes it has in the file, as those of "
                   "BGZF do: read the file by ps::interleaved, or compress it again by bgzip."});
    }
    if (bytes < least || bytes > file.size - at) {
      refuse_cut(file, at);
    }
    std::array<std::byte, 4> size;
    file.read(at + bytes - size.size(), size);
    last = little_endian(size);
    into.add(file, at, bytes, last);
    at += bytes;
  }
  if (last != 0) {
    file.refuse(file.size, {"no empty block ends the file, as BGZF has it: it was cut. Copy or "
                            "download it again, or read it by ps::interleaved."});
  }
}

} // namespace penstock::detail
