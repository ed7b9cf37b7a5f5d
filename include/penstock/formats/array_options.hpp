// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/io/direct.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace penstock {

/// What an array in a file is: what the info() of npy(), npz() and mnist() returns.
struct ArrayInfo {
  std::string type;                   ///< Of its values, as NumPy calls it, such as "float32".
  std::vector<std::uint64_t> extents; ///< Of a record, the slowest first; none: one value.
};

/// An array in a .npz file: what npz_arrays() returns.
struct NpzArray {
  std::string name;      ///< As npz() takes it, without .npy.
  std::uint64_t bytes{}; ///< With its header, and inflated.
  bool deflated{};       ///< Whether npz() needs NpzOptions::inflate for it.
};

/// Options of npy() and mnist().
struct ArrayOptions {
  /// Whether files are read past the page cache: see RecordsOptions::direct.
  DirectReads direct = DirectReads::automatic;
};

} // namespace penstock
