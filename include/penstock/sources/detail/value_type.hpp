// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/data/float16.hpp>
#include <penstock/detail/base/text.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>

namespace penstock::detail {

/// A type of values in a file: how they are made, with NumPy's letter for it, and their bytes.
struct ValueType {
  char kind; // b: bool; i, u: whole numbers; f: IEEE 754; V: bytes of no type, as of bfloat16
  unsigned bytes;
  bool operator==(const ValueType&) const = default;
};

/// Whether files may hold T's.
template <class T>
inline constexpr bool is_value =
    (std::is_arithmetic_v<T> && !std::is_same_v<T, long double>) || std::is_same_v<T, std::byte> ||
    std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

/// Returns the type of T's; that of std::byte stands for any.
template <class T> constexpr ValueType value_type_of() noexcept {
  const char kind = std::is_same_v<T, bool>                                       ? 'b'
                    : std::is_floating_point_v<T> || std::is_same_v<T, Half>      ? 'f'
                    : std::is_same_v<T, std::byte> || std::is_same_v<T, BFloat16> ? 'V'
                    : std::is_signed_v<T>                                         ? 'i'
                                                                                  : 'u';
  return {kind, sizeof(T)};
}

/// Returns a type's name, as NumPy writes it where it has one.
[[gnu::cold]] std::string name_of(ValueType type);

/// Returns a T that lies anywhere in memory, with its bytes in either order.
template <class T> T number_at(const std::byte* at, bool big_endian) noexcept {
  T value{};
  for (std::size_t i = 0; i != sizeof(T); ++i) {
    const std::size_t shift = 8 * (big_endian ? sizeof(T) - 1 - i : i);
    value = static_cast<T>(value | static_cast<T>(static_cast<T>(at[i]) << shift));
  }
  return value;
}

template <class Word> void swap_words(std::span<std::byte> bytes) noexcept {
  for (std::byte* at = bytes.data(); at != bytes.data() + bytes.size(); at += sizeof(Word)) {
    Word word;
    std::memcpy(&word, at, sizeof word);
    if constexpr (sizeof(Word) == 2) {
      word = __builtin_bswap16(word);
    } else if constexpr (sizeof(Word) == 4) {
      word = __builtin_bswap32(word);
    } else {
      word = __builtin_bswap64(word);
    }
    std::memcpy(at, &word, sizeof word);
  }
}
/// Turns the order of the bytes in each value of `width` bytes, of which `bytes` has whole ones.
void swap_values(std::span<std::byte> bytes, std::size_t width) noexcept;

#if PENSTOCK_BODIES
PENSTOCK_INLINE std::string name_of(ValueType type) {
  switch (type.kind) {
  case 'b':
    return "bool";
  case 'i':
    return joined({"int", 8 * type.bytes});
  case 'u':
    return joined({"uint", 8 * type.bytes});
  case 'f':
    return joined({"float", 8 * type.bytes});
  default:
    return type.bytes == 2 ? std::string{"bfloat16 (V2)"} : joined({"V", type.bytes});
  }
}

PENSTOCK_INLINE void swap_values(std::span<std::byte> bytes, std::size_t width) noexcept {
  switch (width) {
  case 1:
    break;
  case 2:
    swap_words<std::uint16_t>(bytes);
    break;
  case 4:
    swap_words<std::uint32_t>(bytes);
    break;
  case 8:
    swap_words<std::uint64_t>(bytes);
    break;
  default:
    for (std::size_t i = 0; i != bytes.size(); i += width) {
      std::reverse(bytes.data() + i, bytes.data() + i + width);
    }
  }
}
#endif

} // namespace penstock::detail
