// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/links/device_link.hpp>
#include <penstock/detail/links/host_link.hpp>
#include <penstock/order/detail/source_numbers.hpp>

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

/// Adds to a batch on a device what is known of `count` units of adjacent slots, from unit `first`
/// on. `gaps`: some may have been left out. May then throw std::bad_alloc.
template <AnyDevice D>
void describe(DeviceSlot<D>& place, const HostLink& in, const HostRing::Take& slots,
              std::size_t first, std::size_t count, bool gaps) {
  const std::size_t units = in.layout().units;
  if (place.units == 0) {
    place.source = slots.slot(first / units).source[first % units];
    place.read = in.was_read(slots.place() + first / units);
  }
  const std::size_t last = first + count - 1;
  const SourceNumbers& turns = slots.slot(last / units).source;
  // A batch that is a slot ends behind what was left out of it; others are filled up.
  place.until = in.layout().in_records(in.layout().ragged() ? turns[last % units + 1]
                                                            : turns[last % units] + 1);
  if (gaps) {
    each_slot(units, first, count,
              [&](std::size_t slot, std::size_t at, std::size_t part, std::size_t done) {
                place.turns.go_on(place.units + done, slots.slot(slot).source, at, part);
              });
  }
  if (in.ahead) {
    each_slot(units, first, count,
              [&](std::size_t slot, std::size_t at, std::size_t part, std::size_t) {
                const std::uint64_t credits = in.credits(slots.place() + slot);
                const std::uint64_t of = slots.slot(slot).units;
                place.credits += credits_of(credits, of, at + part) - credits_of(credits, of, at);
              });
  }
}

} // namespace penstock::detail
