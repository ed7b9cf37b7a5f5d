// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/run/on_error.hpp>

#include <cstddef>
#include <vector>

namespace penstock {

/// Options of a Decoder.
struct DecoderOptions {
  /// Threads that decode at once, each with its own copy of the callable; 0: half of the
  /// processors, at most 16.
  unsigned workers = 0;
  /// Slots in flight, at least 2; 0: as many as 48 MiB hold.
  std::size_t depth = 0;
  /// The `dynamic` extents of what it gives, in order; for records of single bytes, the bytes of a
  /// record.
  std::vector<std::size_t> extents = {};
  /// Bytes of each Ragged column's values that a slot holds; 0: 1 MiB.
  std::size_t value_bytes = 0;
  /// For a callable of batches that fills an Output: how many records it gets at a time, the same
  /// whatever sizes the slots have. They follow each other in the order, from a multiple of
  /// `group` in the epoch on; only an epoch's last are fewer, and skipped ones are missing.
  std::size_t group = 0;
  /// What it does when an item fails.
  OnError on_error = {};
};

} // namespace penstock
