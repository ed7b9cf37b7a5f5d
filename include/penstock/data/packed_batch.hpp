// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/data/packed.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>

// A packed batch: the chunks that have the values of some records, in one piece of memory, so that
// one copy brings all of it to a device. It begins with a PackedHead; a PackedPart for each chunk
// follows, and then the chunks' packed bytes, each from a multiple of 16 on.
namespace penstock {

/// What a packed batch begins with.
struct alignas(16) PackedHead {
  std::uint32_t chunks{};  ///< How many PackedParts follow.
  std::uint32_t records{}; ///< How many records it has.
  std::uint64_t first{};   ///< The number of the first of them, counted over all files.

  /// Compares all.
  bool operator==(const PackedHead&) const = default;
};

/// A chunk of a packed batch.
struct alignas(16) PackedPart {
  std::uint32_t table{};        ///< The number of its PackedTable.
  std::uint32_t codec{};        ///< Its PackedCodec.
  std::uint32_t packed_bytes{}; ///< How many packed bytes it has.
  std::uint32_t values{};       ///< How many values it has.
  std::uint32_t first{};        ///< The first that the batch has.
  std::uint32_t wanted{};       ///< How many the batch has from there on.
  std::uint64_t at{};           ///< Where its packed bytes begin, in the packed batch.
  std::uint64_t to{};           ///< Where its values go: a byte of its column in the batch.
};

/// What unpacks the chunks of one column of one file.
struct PackedTable {
  PackedCode code{};      ///< Its tables lie where the chunks are unpacked.
  std::uint32_t column{}; ///< The column of the batch that they go to.
};

/// A packed batch, and where the values of its `Columns` columns go: what unpack() of a stream is
/// given. All of it lies where the chunks are unpacked, but `damaged`.
template <std::size_t Columns> struct PackedBatch {
  /// A column of the batch.
  struct Column {
    std::byte* to{};       ///< Where its values go.
    std::uint64_t bytes{}; ///< How many bytes it has room for.
  };
  /// What `damaged` is set to if the bytes are no packed batch with this head and these bytes.
  static constexpr std::uint32_t another = ~std::uint32_t{0};

  const std::byte* packed{};     ///< From a multiple of 16 on.
  const std::int64_t* offsets{}; ///< Two: 0, and how many bytes came.
  std::uint64_t bytes{};         ///< How many should have come.
  PackedHead head{};             ///< What it should begin with.
  const PackedTable* tables{};   ///< By number.
  std::uint32_t table_count{};   ///< How many these are.
  Column columns[Columns]{};     ///< By number.
  /// Set to a damaged chunk's number, plus 1: if several are damaged, that of any. Pinned memory.
  std::uint32_t* damaged{};

  /// Returns whether what came is the batch that should have come.
  PENSTOCK_HD bool is_itself() const {
    if (offsets[0] != 0 || static_cast<std::uint64_t>(offsets[1]) != bytes ||
        bytes < sizeof(PackedHead) ||
        (bytes - sizeof(PackedHead)) / sizeof(PackedPart) < head.chunks) {
      return false;
    }
    const auto has = part<PackedHead>(0);
    return has.chunks == head.chunks && has.records == head.records && has.first == head.first;
  }
  /// Makes chunk number `i` of a batch that is itself; returns false if it would reach beyond the
  /// batch, its tables or its columns.
  PENSTOCK_HD bool chunk(std::uint32_t i, PackedChunk& made) const {
    const auto its = part<PackedPart>(sizeof(PackedHead) + std::size_t{i} * sizeof(PackedPart));
    if (its.table >= table_count || its.at > bytes || its.packed_bytes > bytes - its.at ||
        its.codec > static_cast<std::uint32_t>(detail::packed_last_codec)) {
      return false;
    }
    const PackedTable& table = tables[its.table];
    if (table.column >= Columns) {
      return false;
    }
    const Column& column = columns[table.column];
    if (its.to > column.bytes ||
        std::uint64_t{its.wanted} * table.code.value_bytes > column.bytes - its.to) {
      return false;
    }
    made.packed = packed + its.at;
    made.packed_bytes = its.packed_bytes;
    made.codec = static_cast<PackedCodec>(its.codec);
    made.code = table.code;
    made.values = its.values;
    made.first = its.first;
    made.wanted = its.wanted;
    made.out = column.to + its.to;
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
