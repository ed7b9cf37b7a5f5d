// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/formats/detail/zstd_frames.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace penstock::detail {

/// The seek table of a file of zstd's seekable format.
class ZstdTable {
 public:
  /// Adds a frame that ends with the checksum of the `bytes` bytes in it.
  void add(std::span<const std::byte> frame, std::size_t bytes) {
    put(entries_, frame.size(), 4);
    put(entries_, bytes, 4);
    const auto checksum = frame.last(4);
    entries_.insert(entries_.end(), checksum.begin(), checksum.end());
    ++frames_;
  }
  /// Returns the table, as a frame that others skip.
  std::vector<std::byte> frame() const {
    std::vector<std::byte> all;
    put(all, zstd_table_frame, 4);
    put(all, entries_.size() + zstd_table_foot, 4);
    all.insert(all.end(), entries_.begin(), entries_.end());
    put(all, frames_, 4);
    put(all, zstd_table_has_checksums, 1);
    put(all, zstd_table_magic, 4);
    return all;
  }

 private:
  static void put(std::vector<std::byte>& to, std::uint64_t number, std::size_t bytes) {
    for (std::size_t i = 0; i != bytes; ++i) {
      to.push_back(static_cast<std::byte>(number >> 8 * i));
    }
  }

  std::vector<std::byte> entries_;
  std::uint64_t frames_{};
};

} // namespace penstock::detail
