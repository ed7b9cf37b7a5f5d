// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>

#include <cstdint>

namespace penstock::detail {

/// How long the last stage of a pipeline has waited for input since the run began. One thread says
/// when a wait begins and ends; any thread reads, at a time of its own, and so learns how much of
/// an interval of its own the last stage waited. Times are nanoseconds of the steady clock.
class WaitClock {
  static constexpr auto relaxed = StdAtomics::relaxed;

 public:
  void reset() noexcept { word_.store(0, relaxed); }
  /// @{
  /// Says that a wait began, or ended, at `now`. They alternate; one thread.
  void begin(std::uint64_t now) noexcept { set(now - at(now), true); }
  void end(std::uint64_t now) noexcept { set(at(now), false); }
  /// @}
  /// Returns the time waited until `now`. A reader whose `now` is older than a change that it sees
  /// gets the time at that change, or less, by as much as its `now` is older; at least 0.
  std::uint64_t at(std::uint64_t now) const noexcept {
    const std::uint64_t word = word_.load(relaxed);
    const std::uint64_t time = word >> 1U;
    return (word & 1U) == 0 ? time : now - (now > time ? time : now);
  }

 private:
  void set(std::uint64_t time, bool waits) noexcept {
    word_.store(time << 1U | (waits ? 1U : 0U), relaxed);
  }

  // While a wait goes on, what the clock is ahead of the sum; else the sum. Its lowest bit says
  // which: one word, so that no reader sees half of a change.
  StdAtomics::Atomic<std::uint64_t> word_{0};
};

} // namespace penstock::detail
