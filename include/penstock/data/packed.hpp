// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#include <cstddef>
#include <cstdint>

namespace penstock {

/// How values are packed: see docs/packed.md.
enum class PackedCodec : std::uint8_t {
  raw = 0,     ///< As they are.
  bits = 1,    ///< Whole numbers from a base on, in as few bits as a chunk needs.
  bytes = 2,   ///< Bytes, the frequent ones in fewer bits.
  float16 = 3, ///< BFloat16 or Half: the bits of the exponent so, the others as they are.
  ranked = 4,  ///< Tokens of 16 or 32 bits: the frequent ones in fewer bits.
  classes = 5, ///< Tokens or bytes: those that often follow the one before in fewer bits.
};

/// What unpacks a column's chunks. The tables lie where the chunks are unpacked: on the host, or in
/// a device's memory.
struct PackedCode {
  std::uint32_t value_bytes{};    ///< Of a value: 1, 2, 4 or 8.
  bool turned{};                  ///< Whether values were turned left by a bit, as BFloat16 is.
  const std::uint32_t* table{};   ///< 4096 entries a class; null where the codec has none.
  const std::uint32_t* ranked{};  ///< The values by rank; null where the codec has none.
  std::uint32_t ranks{};          ///< How many these are.
  const std::uint32_t* symbols{}; ///< 256 entries; null where the codec has no classes.
  std::uint32_t classes{};        ///< How many tables of 4096 entries there are.
};

/// A chunk of packed values, and where those of it that are wanted go.
struct PackedChunk {
  const std::byte* packed{};    ///< Its packed bytes, from a multiple of 16 on.
  std::uint32_t packed_bytes{}; ///< How many these are.
  PackedCodec codec{};          ///< How it is packed.
  PackedCode code{};            ///< The column's.
  std::uint32_t values{};       ///< How many values it has, of at most 64 KiB together.
  std::uint32_t first{};        ///< The first that is wanted.
  std::uint32_t wanted{};       ///< How many are wanted from there on.
  std::byte* out{};             ///< Where they go, aligned for a value; 16 bytes are faster.
};

namespace detail {

/// The last of the codecs.
inline constexpr PackedCodec packed_last_codec = PackedCodec::classes;
/// The most bytes that the values of a chunk have.
inline constexpr std::uint32_t packed_chunk_bytes = 64 << 10;
/// The values that a warp decodes between two writes.
inline constexpr std::uint32_t packed_block = 512;
/// The bytes before the words of PackedCodec::bits.
inline constexpr std::uint32_t packed_bits_head = 16;
/// The most values that PackedCodec::ranked has ranks for: 16 and 16 times 8 symbols stand for
/// them.
inline constexpr std::uint32_t packed_most_ranks = 1U << 20;
inline constexpr std::uint32_t packed_rank_symbols = 144;

/// The most classes that PackedCodec::classes has, with that of no value.
inline constexpr std::uint32_t packed_most_classes = 16;
/// The most bits that follow a symbol of PackedCodec::classes.
inline constexpr unsigned packed_most_following = 15;

/// What a symbol of PackedCodec::classes stands for: ranks from `rank` on, of which the bits that
/// follow choose one, all of one class.
struct PackedSymbol {
  std::uint32_t rank;
  unsigned bits;
  std::uint32_t its_class;

  /// Takes an entry of PackedCode::symbols.
  PENSTOCK_HD static constexpr PackedSymbol of(std::uint32_t entry) {
    return {entry % packed_most_ranks, entry >> 20 & packed_most_following, entry >> 24};
  }
  PENSTOCK_HD constexpr std::uint32_t entry() const { return rank | bits << 20 | its_class << 24; }
};

/// Returns how many bits follow a rank's symbol.
PENSTOCK_HD constexpr unsigned packed_rank_bits(std::uint32_t symbol) {
  return symbol < 16 ? 0 : symbol / 8 - 1;
}

} // namespace detail
} // namespace penstock
