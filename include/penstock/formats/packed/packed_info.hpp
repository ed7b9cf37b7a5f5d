// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/packed.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace penstock {

/// Returns a codec's name.
constexpr const char* name_of(PackedCodec codec) noexcept {
  switch (codec) {
  case PackedCodec::bits:
    return "bits";
  case PackedCodec::bytes:
    return "bytes";
  case PackedCodec::float16:
    return "float16";
  case PackedCodec::ranked:
    return "ranked";
  case PackedCodec::classes:
    return "classes";
  case PackedCodec::raw:
    break;
  }
  return "raw";
}

/// A codec that a PackedWriter has tried on some chunks of a column.
struct PackedTry {
  PackedCodec codec{}; ///< Which.
  double ratio{};      ///< How many bytes it makes one of, its tables' share included.
};

/// A column of a packed file.
struct PackedColumnInfo {
  std::string name;                   ///< As a schema has it.
  std::string type;                   ///< As NumPy writes it, or "bfloat16 (V2)".
  std::vector<std::uint64_t> extents; ///< Of a record; none for one value a record.
  PackedCodec codec{};                ///< How its chunks are packed, but for those left raw.
  std::uint64_t chunks{};             ///< How many it has.
  std::uint64_t raw_chunks{};         ///< How many of these are raw.
  std::uint64_t bytes{};              ///< Of its values.
  std::uint64_t packed_bytes{};       ///< Of its packed chunks and its tables.
  std::vector<PackedTry> tried;       ///< Where it was just written: each codec that was tried.
};

} // namespace penstock
