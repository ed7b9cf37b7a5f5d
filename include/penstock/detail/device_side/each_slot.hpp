// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/links/host_link.hpp>

#include <algorithm>
#include <cstddef>

namespace penstock::detail {

/// Calls f(i, at, part, done) for `count` units of adjacent slots, each of `units` but perhaps the
/// last, from unit `first` on: `part` of them, after `done` others, lie in slot number `i` from its
/// unit `at` on.
template <class F>
[[gnu::cold]] void each_slot(std::size_t units, std::size_t first, std::size_t count, F f) {
  for (std::size_t done = 0; done != count;) {
    const std::size_t from = first + done;
    const std::size_t part = std::min(count - done, units - from % units);
    f(from / units, from % units, part, done);
    done += part;
  }
}

/// Returns how many of a run's slots, from its first on, are of one epoch. An epoch's last slot may
/// be full and say nothing of the end, if an earlier copier has left out what came after it.
inline std::size_t slots_of_one_epoch(const HostRing::Take& run) noexcept {
  std::size_t slots = run.size();
  while (run.slot(slots - 1).epoch != run.slot().epoch) {
    --slots;
  }
  return slots;
}

} // namespace penstock::detail
