// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#include <cstdint>

namespace penstock {

/// Which record a Decoder's callable is called for: its third parameter, if it takes one, by value
/// or const reference. What is random and must repeat is seeded by a seed of yours, `record` and
/// `epoch`: a record then gets the same augmentation in the same epoch on any machine, whatever the
/// number of workers and whatever was left out before it. Behind a Kernel that gives another number
/// of records, `record` and `step` go on from the source_index() of the device batch.
struct Visit {
  std::uint64_t record{}; ///< Its number in the source, from 0; skipped records count too.
  std::uint64_t epoch{};  ///< How often the source was delivered before, from 0.
  /// Its position over all epochs, as if nothing was skipped: epoch times the source's size and its
  /// position in the epoch. The position alone where the source does not tell its size.
  std::uint64_t step{};
};

} // namespace penstock
