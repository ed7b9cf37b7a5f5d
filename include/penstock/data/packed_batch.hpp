// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/data/packed.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>

// A packed piece: the chunks that have the values of some records, in one piece of memory. It
// begins with a PackedHead; a PackedPart for each chunk follows, and then the chunks' packed bytes,
// each from a multiple of 16 on. Several pieces share a slot, which several threads read side by
// side, and one copy brings to a device; one slot or several make a batch.
namespace penstock {

/// What a packed piece begins with.
struct alignas(16) PackedHead {
  std::uint32_t chunks{};  ///< How many PackedParts follow.
  std::uint32_t records{}; ///< How many records it has.
  std::uint64_t first{};   ///< The number of the first of them, counted over all files.

  /// Compares all.
  bool operator==(const PackedHead&) const = default;
};

/// A chunk of a packed piece.
struct alignas(16) PackedPart {
  std::uint32_t table{};        ///< The number of its PackedTable.
  std::uint32_t codec{};        ///< Its PackedCodec.
  std::uint32_t packed_bytes{}; ///< How many packed bytes it has.
  std::uint32_t values{};       ///< How many values it has.
  std::uint32_t first{};        ///< The first that the piece has.
  std::uint32_t wanted{};       ///< How many the piece has from there on.
  std::uint64_t at{};           ///< Where its packed bytes begin, in the piece.
  std::uint64_t to{};           ///< Where its values go: a byte of its column in the piece.
};

/// A piece in a slot, as it should be.
struct PackedPiece {
  PackedHead head{};       ///< What it should begin with.
  std::uint64_t at{};      ///< Where it begins in the slot: a multiple of 16.
  std::uint64_t bytes{};   ///< How many it has.
  std::uint64_t records{}; ///< How many records of the batch come before its own.
};

/// What unpacks the chunks of one column of one file.
struct PackedTable {
  PackedCode code{};      ///< Its tables lie where the chunks are unpacked.
  std::uint32_t column{}; ///< The column of the batch that they go to.
};

/// A slot of packed pieces, and where the values of its `Columns` columns go: what unpack() of a
/// stream is given. All of it lies where the chunks are unpacked, but `damaged`.
template <std::size_t Columns> struct PackedBatch {
  /// A column of the batch.
  struct Column {
    std::byte* to{};       ///< Where its values go.
    std::uint64_t bytes{}; ///< How many bytes it has room for.
    std::uint64_t each{};  ///< How many a record has.
  };
  /// The most pieces of a slot.
  static constexpr std::uint32_t most_pieces = 4;
  /// What `damaged` is set to if a piece does not begin with its head.
  static constexpr std::uint64_t another = ~std::uint64_t{0};

  const std::byte* packed{};         ///< From a multiple of 16 on.
  const std::int64_t* offsets{};     ///< Where each piece that came begins, and the end.
  PackedPiece pieces[most_pieces]{}; ///< Back to back.
  std::uint32_t piece_count{};       ///< How many these are.
  const PackedTable* tables{};       ///< By number.
  std::uint32_t table_count{};       ///< How many these are.
  Column columns[Columns]{};         ///< By number.
  /// Set to a damaged chunk's number in its piece, plus 1, and 2 to the 32 times the number of the
  /// piece: if several are damaged, to that of any. Pinned memory.
  std::uint64_t* damaged{};

  /// Returns what `damaged` is to be set to for a chunk.
  PENSTOCK_HD static constexpr std::uint64_t chunk_in(std::uint32_t piece, std::uint32_t i) {
    return std::uint64_t{piece} << 32 | (i + 1);
  }
  /// Returns the most chunks that a piece has.
  std::uint32_t most_chunks() const noexcept {
    std::uint32_t most = 0;
    for (std::uint32_t i = 0; i != piece_count; ++i) {
      most = pieces[i].head.chunks > most ? pieces[i].head.chunks : most;
    }
    return most;
  }
  /// Returns whether what came is the piece that should have come.
  PENSTOCK_HD bool is_itself(std::uint32_t piece) const {
    const PackedPiece& its = pieces[piece];
    if (static_cast<std::uint64_t>(offsets[piece]) != its.at ||
        static_cast<std::uint64_t>(offsets[piece + 1]) != its.at + its.bytes ||
        its.bytes < sizeof(PackedHead) ||
        (its.bytes - sizeof(PackedHead)) / sizeof(PackedPart) < its.head.chunks) {
      return false;
    }
    const auto has = part<PackedHead>(its.at);
    return has.chunks == its.head.chunks && has.records == its.head.records &&
           has.first == its.head.first;
  }
  /// Makes chunk number `i` of a piece that is itself; returns false if it would reach beyond the
  /// piece, its tables or its columns.
  PENSTOCK_HD bool chunk(const PackedPiece& of, std::uint32_t i, PackedChunk& made) const {
    const auto its =
        part<PackedPart>(of.at + sizeof(PackedHead) + std::size_t{i} * sizeof(PackedPart));
    if (its.table >= table_count || its.at > of.bytes || its.packed_bytes > of.bytes - its.at ||
        its.codec > static_cast<std::uint32_t>(detail::packed_last_codec)) {
      return false;
    }
    const PackedTable& table = tables[its.table];
    if (table.column >= Columns) {
      return false;
    }
    const Column& column = columns[table.column];
    const std::uint64_t before = of.records * column.each;
    if (before > column.bytes || its.to > column.bytes - before ||
        std::uint64_t{its.wanted} * table.code.value_bytes > column.bytes - before - its.to) {
      return false;
    }
    made.packed = packed + of.at + its.at;
    made.packed_bytes = its.packed_bytes;
    made.codec = static_cast<PackedCodec>(its.codec);
    made.code = table.code;
    made.values = its.values;
    made.first = its.first;
    made.wanted = its.wanted;
    made.out = column.to + before + its.to;
    return true;
  }

 private:
  template <class T> PENSTOCK_HD T part(std::size_t at) const {
#if defined(__CUDA_ARCH__)
    return *reinterpret_cast<const T*>(packed + at);
#else
    T value;
    std::memcpy(&value, packed + at, sizeof value);
    return value;
#endif
  }
};

} // namespace penstock
