// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace penstock::detail {

/// About so many bytes of a stream are decoded at a time.
inline constexpr std::size_t stream_part_bytes = std::size_t{512} << 10;

/// Bytes that grow at their end, which nobody fills with zeros first, and that keep their room.
class StreamBytes {
 public:
  std::byte* data() noexcept { return bytes_.get(); }
  const std::byte* data() const noexcept { return bytes_.get(); }
  std::size_t size() const noexcept { return size_; }

  /// Returns room for `more` bytes behind those that are there, which add() then counts.
  std::span<std::byte> room(std::size_t more) {
    if (more > room_ - size_) {
      const std::size_t room = std::max(size_ + more, 2 * size_);
      auto bytes = std::make_unique_for_overwrite<std::byte[]>(room);
      std::copy_n(bytes_.get(), size_, bytes.get());
      bytes_ = std::move(bytes);
      room_ = room;
    }
    return {bytes_.get() + size_, more};
  }
  void add(std::size_t count) noexcept { size_ += count; }
  void append(const void* from, std::size_t count) {
    if (count != 0) {
      std::memcpy(room(count).data(), from, count);
      add(count);
    }
  }
  /// Has none. Gives back what only a very long record needed.
  void clear() noexcept {
    size_ = 0;
    if (room_ > 16 * stream_part_bytes) {
      bytes_.reset();
      room_ = 0;
    }
  }

 private:
  std::unique_ptr<std::byte[]> bytes_;
  std::size_t size_{};
  std::size_t room_{};
};

/// Some records of a stream.
struct StreamPart {
  // Of the bytes.
  struct Place {
    std::size_t begin;
    std::size_t bytes;
  };

  StreamBytes bytes;
  std::vector<Place> places; // of each column of each record; none of records of one length
  std::size_t records{};
  bool last{};                // nothing comes behind it
  std::exception_ptr failure; // what comes behind it instead

  /// Has no records.
  void clear() noexcept {
    bytes.clear();
    places.clear();
    records = 0;
    last = false;
    failure = nullptr;
  }
};

} // namespace penstock::detail
