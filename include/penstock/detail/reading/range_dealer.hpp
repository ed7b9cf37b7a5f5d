// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/engine/run_control.hpp>
#include <penstock/detail/links/host_link.hpp>
#include <penstock/detail/reading/slot_ranges.hpp>

#include <cstddef>
#include <cstdint>

namespace penstock::detail {

/// Deals out the units of a source where the number of a slot does not say which it holds: see
/// DealtRanges.
struct RangeDealer {
  using Range = SlotRanges::Range;

  RangeDealer() = default;
  RangeDealer(const RangeDealer&) = delete;
  RangeDealer& operator=(const RangeDealer&) = delete;
  virtual ~RangeDealer() = default;
  /// Has a run's early end stop it. Call it when `control` watches the ring: a worker that gets
  /// nothing drops a claim, which must not be seen in an open ring.
  virtual void be_watched(RunControl& control) = 0;
  /// Begins a run over what `ranges` say, which must outlive it.
  virtual void reset(const SlotRanges& ranges) = 0;
  /// Blocks until a worker that has claimed this ticket may read, and returns what; nothing if
  /// there is no more, and then ends the ring.
  virtual Range next(std::uint64_t ticket, HostRing& ring) noexcept = 0;
  /// Says that no slot from this ticket on will be filled.
  virtual void end_at(std::uint64_t ticket, HostRing& ring) noexcept = 0;
  /// Says that only `units` of a range, which was dealt last, were read, so that the others come
  /// next: for one worker.
  virtual void cut(const Range& range, std::size_t units) noexcept = 0;
  /// Gives back the credits of units that nobody hands on.
  virtual void give_back(std::size_t units) noexcept = 0;
};

} // namespace penstock::detail
