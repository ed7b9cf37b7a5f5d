// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/formats/inflate.hpp>
#include <penstock/io/direct.hpp>

#include <cstdint>

namespace penstock {

/// Options of npz().
struct NpzOptions {
  /// Whether files are read past the page cache: see RecordsOptions::direct. Deflated members are
  /// read once, through it.
  DirectReads direct = DirectReads::automatic;
  /// What inflates deflated members, such as zlib_inflate of `formats/zlib_inflate.hpp`; without it
  /// they are refused.
  Inflate inflate = nullptr;
  /// How many bytes inflated members may have, those of all files and columns together. They are
  /// kept in memory as long as a copy of the source lives. Copies made after open() share them;
  /// those made before inflate their own each, and this is the limit for all of them together.
  std::uint64_t inflated_bytes = std::uint64_t{1} << 30;
};

} // namespace penstock
