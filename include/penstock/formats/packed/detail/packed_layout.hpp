// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/packed.hpp>
#include <penstock/formats/packed/detail/column_code.hpp>
#include <penstock/io/crc32c.hpp>
#include <penstock/sources/detail/utf8.hpp>
#include <penstock/sources/detail/value_type.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// The layout of packed files, which docs/packed.md describes.
namespace penstock::detail {

inline constexpr std::string_view packed_magic{"\x89PSPK\r\n\x1a", 8};
inline constexpr std::uint32_t packed_version = 1;
inline constexpr std::size_t packed_header_bytes = 64;
inline constexpr std::size_t packed_column_bytes = 144;
inline constexpr std::size_t packed_name_bytes = 64;
inline constexpr std::size_t packed_most_extents = 8;
inline constexpr std::size_t packed_most_columns = 65'536;
inline constexpr std::size_t packed_chunk_entry_bytes = 24;
inline constexpr std::uint64_t packed_alignment = 16;

/// Whether all of a name is UTF-8 that prints on one line.
inline bool prints_whole(std::string_view name) noexcept {
  while (!name.empty()) {
    const std::size_t bytes = utf8_bytes(name);
    if (bytes == 0 || !is_printed(name, bytes)) {
      return false;
    }
    name.remove_prefix(bytes);
  }
  return true;
}

/// Whether packed files have values of a type.
inline bool is_packed_type(ValueType type) noexcept {
  const bool power = type.bytes == 1 || type.bytes == 2 || type.bytes == 4 || type.bytes == 8;
  return power && (type.kind == 'u' || type.kind == 'i' || (type.kind == 'f' && type.bytes != 1) ||
                   (type.kind == 'b' && type.bytes == 1) || (type.kind == 'V' && type.bytes == 2));
}

/// A chunk in the index.
struct PackedPlace {
  std::uint64_t at;
  std::uint32_t bytes;
  PackedCodec codec;
  std::uint32_t packed_crc;
  std::uint32_t crc;
};

/// A column of a file.
struct PackedColumn {
  std::string name;
  ValueType type{};
  std::vector<std::uint64_t> extents{};
  std::uint32_t chunk_values{};
  ColumnCode code{};
  std::vector<PackedPlace> chunks{};

  /// Returns the values of a record.
  std::uint64_t record_values() const {
    return std::accumulate(extents.begin(), extents.end(), std::uint64_t{1}, std::multiplies<>{});
  }
  std::uint64_t chunk_bytes() const noexcept { return std::uint64_t{chunk_values} * type.bytes; }
};

/// Bytes that are put one number after the other, the lowest byte first.
class PutBytes {
 public:
  template <class T> void number(T value) {
    for (std::size_t i = 0; i != sizeof(T); ++i) {
      bytes_.push_back(static_cast<std::byte>(static_cast<std::uint64_t>(value) >> (8 * i)));
    }
  }
  void text(std::string_view text, std::size_t room) {
    const auto bytes = std::as_bytes(std::span{text});
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    bytes_.resize(bytes_.size() + (room - text.size()));
  }
  const std::vector<std::byte>& bytes() const noexcept { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

/// Returns the index of these columns.
inline std::vector<std::byte> packed_index(std::span<const PackedColumn> columns) {
  PutBytes put;
  for (const PackedColumn& column : columns) {
    put.text(column.name, packed_name_bytes);
    put.number(static_cast<std::uint8_t>(column.type.kind));
    put.number(static_cast<std::uint8_t>(column.type.bytes));
    put.number(static_cast<std::uint8_t>(column.code.codec));
    put.number(static_cast<std::uint8_t>(column.extents.size()));
    put.number(column.chunk_values);
    put.number(static_cast<std::uint32_t>(column.code.ranked.size()));
    put.number(static_cast<std::uint32_t>(
        column.code.symbols.empty() ? 0 : column.code.frequencies.size()));
    for (std::size_t i = 0; i != packed_most_extents; ++i) {
      put.number(i < column.extents.size() ? column.extents[i] : std::uint64_t{0});
    }
  }
  for (const PackedColumn& column : columns) {
    for (const RansFrequencies& table : column.code.frequencies) {
      for (const std::uint16_t frequency : table.of) {
        put.number(frequency);
      }
    }
    for (const std::uint32_t symbol : column.code.symbols) {
      put.number(symbol);
    }
    for (const std::uint32_t value : column.code.ranked) {
      put.number(value);
    }
  }
  for (const PackedColumn& column : columns) {
    for (const PackedPlace& chunk : column.chunks) {
      put.number(chunk.at);
      put.number(chunk.bytes);
      put.number(static_cast<std::uint32_t>(chunk.codec));
      put.number(chunk.packed_crc);
      put.number(chunk.crc);
    }
  }
  return put.bytes();
}

/// Returns the header of a file whose index lies at byte `index_at`.
inline std::vector<std::byte> packed_header(std::size_t columns, std::uint64_t records,
                                            std::uint64_t index_at,
                                            std::span<const std::byte> index) {
  PutBytes put;
  put.text(packed_magic, packed_magic.size());
  put.number(packed_version);
  put.number(static_cast<std::uint32_t>(columns));
  put.number(records);
  put.number(index_at);
  put.number(std::uint64_t{index.size()});
  put.text({}, 16);
  put.number(crc32c(index));
  put.number(crc32c(put.bytes()));
  return put.bytes();
}

} // namespace penstock::detail
