// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace transformer {

/// What a text is made of: the bytes that occur in it, in the order of their values. A byte's id is
/// its place among them.
class Vocabulary {
 public:
  /// Has no byte.
  Vocabulary() = default;
  /// Takes a byte's number of occurrences, or any other number that is 0 if there is none.
  explicit Vocabulary(const std::array<std::uint64_t, 256>& counts) {
    for (std::size_t byte = 0; byte < counts.size(); ++byte) {
      if (counts[byte] != 0) {
        add(static_cast<std::uint8_t>(byte));
      }
    }
  }
  /// Reads what characters() returned. Throws std::invalid_argument for any other text.
  explicit Vocabulary(std::string_view characters) {
    for (const char character : characters) {
      const auto byte = static_cast<std::uint8_t>(character);
      if (size_ != 0 && byte <= bytes_[size_ - 1]) {
        throw std::invalid_argument{"these characters are no vocabulary: they are not in order"};
      }
      add(byte);
    }
  }

  /// Returns how many bytes it has, and so how many ids there are.
  std::size_t size() const noexcept { return size_; }
  /// Returns whether it has a byte.
  bool has(std::uint8_t byte) const noexcept { return size_ != 0 && bytes_[ids_[byte]] == byte; }
  /// Returns the id of a byte that it has; 0 for any other.
  std::uint8_t id(std::uint8_t byte) const noexcept { return ids_[byte]; }
  /// Returns the byte of an id, which is less than size().
  std::uint8_t byte(std::size_t id) const noexcept { return bytes_[id]; }
  /// Returns each byte's id: what a Decoder needs of it.
  const std::array<std::uint8_t, 256>& ids() const noexcept { return ids_; }

  /// Returns the bytes in the order of their ids, as a checkpoint keeps them.
  std::string characters() const {
    return {bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(size_)};
  }
  bool operator==(const Vocabulary&) const = default;

 private:
  void add(std::uint8_t byte) noexcept {
    bytes_[size_] = byte;
    ids_[byte] = static_cast<std::uint8_t>(size_++);
  }

  std::array<std::uint8_t, 256> bytes_{};
  std::array<std::uint8_t, 256> ids_{};
  std::size_t size_ = 0;
};

} // namespace transformer
