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
  /// Whether an archive that open() would refuse is left out, with all its samples, if another is
  /// whole: one that is cut, damaged, of another kind, has a link for a column or cannot be read.
  /// left_out() and the Report tell of them.
  bool leave_out_damaged = false;
  /// The largest member of a column that is taken, in bytes.
  std::uint64_t largest = std::uint64_t{64} << 20;
};

} // namespace penstock
