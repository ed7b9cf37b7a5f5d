// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/packed.hpp>
#include <penstock/formats/packed/detail/rans_encoder.hpp>
#include <penstock/sources/detail/value_type.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace penstock::detail {

/// How a column is packed: its codec, and the tables that this one has.
struct ColumnCode {
  PackedCodec codec = PackedCodec::raw;
  std::vector<RansFrequencies> frequencies{}; // for each class; of other codecs one
  std::vector<std::uint32_t> symbols{};       // entries of PackedSymbols
  std::vector<std::uint32_t> ranked{};        // values by rank

  /// Returns the bytes that the tables take in a file.
  std::size_t table_bytes() const noexcept {
    return frequencies.size() * sizeof(RansFrequencies) + 4 * (symbols.size() + ranked.size());
  }
};

/// Whether a codec has frequencies.
inline bool has_frequencies(PackedCodec codec) noexcept {
  return codec == PackedCodec::bytes || codec == PackedCodec::float16 ||
         codec == PackedCodec::ranked || codec == PackedCodec::classes;
}
/// Whether a codec has ranks.
inline bool has_ranks(PackedCodec codec) noexcept {
  return codec == PackedCodec::ranked || codec == PackedCodec::classes;
}

/// Whether values are turned left by a bit before PackedCodec::float16.
inline bool is_turned(ValueType type) noexcept {
  return type == ValueType{'V', 2};
}
/// The high byte of a value of two bytes is what PackedCodec::float16 codes.
inline std::uint32_t turned_value(std::uint32_t value, bool turned) noexcept {
  return turned ? (value << 1 & 0xFFFF) | value >> 15 : value;
}

/// Returns value number `i` of a chunk, which need not lie aligned.
template <class T> T value_at(std::span<const std::byte> chunk, std::size_t i) noexcept {
  T value;
  std::memcpy(&value, chunk.data() + i * sizeof(T), sizeof value);
  return value;
}

/// The tables by which a column's chunks are unpacked, in one array, for the host or to be copied
/// to a device.
class CodeTables {
 public:
  CodeTables(ValueType type, const ColumnCode& code)
      : code_{.value_bytes = type.bytes,
              .turned = is_turned(type),
              .ranks = static_cast<std::uint32_t>(code.ranked.size()),
              .classes = static_cast<std::uint32_t>(code.frequencies.size())},
        has_symbols_{!code.symbols.empty()} {
    for (const RansFrequencies& frequencies : code.frequencies) {
      const std::vector<std::uint32_t> table = frequencies.table();
      numbers_.insert(numbers_.end(), table.begin(), table.end());
    }
    numbers_.insert(numbers_.end(), code.symbols.begin(), code.symbols.end());
    numbers_.insert(numbers_.end(), code.ranked.begin(), code.ranked.end());
  }

  const std::vector<std::uint32_t>& numbers() const noexcept { return numbers_; }
  /// Returns what unpacks chunks, by these numbers or a copy of them at `at`.
  PackedCode code(const std::uint32_t* at) const noexcept {
    PackedCode made = code_;
    if (code_.classes != 0) {
      made.table = at;
      at += std::size_t{rans_entries} * code_.classes;
    }
    if (has_symbols_) {
      made.symbols = at;
      at += rans_symbols;
    }
    if (code_.ranks != 0) {
      made.ranked = at;
    }
    return made;
  }
  PackedCode code() const noexcept { return code(numbers_.data()); }

 private:
  PackedCode code_;
  bool has_symbols_;
  std::vector<std::uint32_t> numbers_;
};

} // namespace penstock::detail
