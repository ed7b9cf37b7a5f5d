// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/config.hpp>

#include <algorithm>
#include <chrono>

namespace penstock::detail {

/// When something has its turn.
struct Turn {
  std::chrono::steady_clock::time_point begin, end;
};

/// The turns on something pretended that does one thing at a time, such as a bus. Any thread.
///
/// Turns are booked ahead, and whoever books one sleeps until it ends. A sleep that lasts too long
/// takes nothing from the next turn, so such errors do not add up. All is relaxed: an order of
/// threads here would hide from ThreadSanitizer what they forgot to order.
class Turns {
  using Clock = std::chrono::steady_clock;

 public:
  /// Books the next turn that begins at `earliest` or later, for so long.
  Turn book(Clock::time_point earliest, Clock::duration takes) noexcept {
    Clock::rep free = free_from_.load(StdAtomics::relaxed);
    Clock::time_point begin;
    do {
      begin = std::max(earliest, Clock::time_point{Clock::duration{free}});
    } while (!free_from_.compare_exchange_weak(free, (begin + takes).time_since_epoch().count(),
                                               StdAtomics::relaxed));
    return {begin, begin + takes};
  }

 private:
  StdAtomics::Atomic<Clock::rep> free_from_{0};
};

} // namespace penstock::detail
