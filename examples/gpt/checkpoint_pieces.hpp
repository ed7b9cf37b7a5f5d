// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/io/crc32c.hpp>
#include <penstock/io/file.hpp>
#include <penstock/io/new_file.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace transformer {

/// Floats that pass between a file and a model at once: 4 MiB.
inline constexpr std::size_t piece_floats = std::size_t{1} << 20;

/// Writes a file from its beginning to its end in pieces, and keeps the CRC-32C of all of it.
template <class Io> class PieceWriter {
 public:
  explicit PieceWriter(const penstock::NewFile<Io>& file) : file_{file}, piece_(piece_floats) {}

  /// Calls get(first, into) for parts of `count` floats, which it fills, and writes them.
  template <class Get> void floats(std::size_t count, Get get) {
    for (std::size_t first = 0; first < count;) {
      const std::size_t some = std::min(count - first, piece_.size() - filled_);
      get(first, std::span{piece_}.subspan(filled_, some));
      first += some;
      fill(some);
    }
  }
  /// Writes bytes, a multiple of 4 of them.
  void bytes(std::span<const std::byte> from) {
    floats(from.size() / sizeof(float), [&](std::size_t first, std::span<float> into) {
      std::memcpy(into.data(), from.data() + first * sizeof(float), into.size_bytes());
    });
  }
  /// Ends the file with the CRC-32C of all that was written.
  void end() {
    flush();
    const std::uint32_t crc = crc_;
    file_.write(at_, std::as_bytes(std::span{&crc, 1}));
  }

 private:
  void fill(std::size_t count) {
    filled_ += count;
    if (filled_ == piece_.size()) {
      flush();
    }
  }
  void flush() {
    const auto bytes = std::as_bytes(std::span{piece_}.first(filled_));
    file_.write(at_, bytes);
    crc_ = penstock::crc32c(bytes, crc_);
    at_ += bytes.size();
    filled_ = 0;
  }

  const penstock::NewFile<Io>& file_;
  std::vector<float> piece_;
  std::size_t filled_ = 0;
  std::uint64_t at_ = 0;
  std::uint32_t crc_ = 0;
};

/// Returns the CRC-32C of the first `bytes` of a file.
template <class Io>
std::uint32_t crc32c_of(const penstock::File<Io>& file, std::uint64_t bytes) {
  std::vector<std::byte> piece(piece_floats * sizeof(float));
  std::uint32_t crc = 0;
  for (std::uint64_t at = 0; at < bytes;) {
    const auto part = std::span{piece}.first(std::min<std::uint64_t>(piece.size(), bytes - at));
    read_full(file, at, part);
    crc = penstock::crc32c(part, crc);
    at += part.size();
  }
  return crc;
}

} // namespace transformer
