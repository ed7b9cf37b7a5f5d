// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#include <cstdint>

namespace penstock {

/// What a Reader or a Decoder does when an item fails, with any exception. An item is a slot; for a
/// Decoder it is what its callable got, a record or a batch. By default the first error ends the
/// run: `.on_error = {.skips = 100}` leaves out up to 100 items, `.on_error = {.retries = 3}` tries
/// each up to three times more.
struct OnError {
  /// How often an item is tried again before it counts as bad, after a pause of 1 ms that doubles
  /// each time, up to 1 s, and that the run's end cuts short. A Reader also tries so often to open
  /// its source.
  unsigned retries = 0;
  /// How many bad items a run may leave out; one more ends it. The Report lists what was left out.
  std::uint64_t skips = 0;
};

} // namespace penstock
