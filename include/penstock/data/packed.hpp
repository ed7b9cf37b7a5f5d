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
};

/// What unpacks a column's chunks. The tables lie where the chunks are unpacked: on the host, or in
/// a device's memory.
struct PackedCode {
  std::uint32_t value_bytes{};   ///< Of a value: 1, 2, 4 or 8.
  bool turned{};                 ///< Whether values were turned left by a bit, as BFloat16 is.
  const std::uint32_t* table{};  ///< 4096 entries; null where the codec has none.
  const std::uint32_t* ranked{}; ///< The values by rank; null where the codec has none.
  std::uint32_t ranks{};         ///< How many these are.
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

/// Returns how many bits follow a rank's symbol.
PENSTOCK_HD constexpr unsigned packed_rank_bits(std::uint32_t symbol) {
  return symbol < 16 ? 0 : symbol / 8 - 1;
}

} // namespace detail
} // namespace penstock
