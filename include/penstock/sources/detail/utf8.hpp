// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace penstock::detail {

/// Returns how many bytes the first character of a text has in UTF-8 (RFC 3629): no longer than
/// need be, no half of a pair, nothing above U+10FFFF. 0 if it is none. The text is not empty.
std::size_t utf8_bytes(std::string_view text) noexcept;

/// Whether the first character of a text, of so many bytes, is printed as one: it is none of those
/// that steer a terminal or turn the direction of a line.
bool is_printed(std::string_view text, std::size_t bytes) noexcept;

/// Returns some characters of a file for a message, on one line: at most 80 bytes, and a '?' for
/// each that cannot be printed.
[[gnu::cold]] std::string shown(std::string_view text);

/// Appends a code point.
void append_utf8(std::string& characters, std::uint32_t point);

#if PENSTOCK_BODIES
PENSTOCK_INLINE std::size_t utf8_bytes(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const auto follows = [&](std::size_t i) { return (byte(i) & 0xc0U) == 0x80; };
  const unsigned first = byte(0);
  const unsigned second = byte(1);
  if (first < 0x80) {
    return 1;
  }
  if (first >= 0xc2 && first <= 0xdf && follows(1)) {
    return 2;
  }
  const bool narrow = (first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
                      (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f);
  if (first >= 0xe0 && first <= 0xf4 && !narrow && follows(1) && follows(2)) {
    if (first < 0xf0) {
      return 3;
    }
    if (follows(3)) {
      return 4;
    }
  }
  return 0;
}

PENSTOCK_INLINE bool is_printed(std::string_view text, std::size_t bytes) noexcept {
  const std::string_view character = text.substr(0, bytes);
  return bytes == 1   ? character >= " " && character <= "~"
         : bytes == 2 ? character > "\xc2\x9f"
         : bytes == 3 ? (character < "\xe2\x80\x8b" || character > "\xe2\x80\x8f") &&
                            (character < "\xe2\x80\xa8" || character > "\xe2\x80\xae") &&
                            (character < "\xe2\x81\xa0" || character > "\xe2\x81\xaf")
                      : bytes == 4;
}

PENSTOCK_INLINE std::string shown(std::string_view text) {
  constexpr std::size_t most = 80;
  std::string printed;
  while (!text.empty()) {
    const std::size_t bytes = utf8_bytes(text);
    if (printed.size() + (bytes == 0 ? 1 : bytes) > most) {
      return printed + "...";
    }
    printed += is_printed(text, bytes) ? text.substr(0, bytes) : "?";
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return printed;
}

PENSTOCK_INLINE void append_utf8(std::string& characters, std::uint32_t point) {
  const auto put = [&](std::uint32_t byte) { characters += static_cast<char>(byte); };
  const auto follow = [&](unsigned shift) { put(0x80U | (point >> shift & 0x3fU)); };
  if (point < 0x80) {
    put(point);
  } else if (point < 0x800) {
    put(0xc0U | point >> 6U);
    follow(0);
  } else if (point < 0x10000) {
    put(0xe0U | point >> 12U);
    follow(6);
    follow(0);
  } else {
    put(0xf0U | point >> 18U);
    follow(12);
    follow(6);
    follow(0);
  }
}
#endif

} // namespace penstock::detail
