// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#include <cstdint>

namespace penstock {

/// Options of tar().
struct TarOptions {
  /// Whether an index of each shard is kept beside it, in a hidden file such as
  /// `.train-0000.tar.penstock-index`, for the next program that opens it. It is made anew where
  /// the shard's size or time has changed. Where it cannot be written the Report says so.
  bool keep_index = false;
  /// The largest member of a column that is taken, in bytes.
  std::uint64_t largest = std::uint64_t{64} << 20;
};

} // namespace penstock
