// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/diagnose/detail/call_names.hpp>
#include <penstock/diagnose/gpu_watch_summary.hpp>

namespace penstock::detail {

/// Tells the calls of a program's loop from those of its set-up, and of its end. It notes how many
/// there were at each launch whose number is a power of two: what lies between the last but one of
/// these and the last launch is at least half of the launches.
class LoopCalls {
 public:
  void add(CudaCall kind, double seconds) noexcept {
    switch (kind) {
    case CudaCall::allocation:
    case CudaCall::page_lock:
      return count(now_.allocations, seconds);
    case CudaCall::release:
      return count(now_.releases, seconds);
    case CudaCall::launch:
      ++now_.launches;
      at_last_ = now_;
      if ((now_.launches & (now_.launches - 1)) == 0) {
        before_ = at_power_;
        at_power_ = now_;
      }
      return;
    default:
      return;
    }
  }
  /// Returns the later part; nothing unless two launches are in it.
  WatchedLoop later() const noexcept {
    if (before_.launches == 0) {
      return {};
    }
    const auto less = [](const WatchedCalls& all, const WatchedCalls& first) {
      return WatchedCalls{all.calls - first.calls, all.seconds - first.seconds};
    };
    return {at_last_.launches - before_.launches, less(at_last_.allocations, before_.allocations),
            less(at_last_.releases, before_.releases)};
  }

 private:
  static void count(WatchedCalls& calls, double seconds) noexcept {
    ++calls.calls;
    calls.seconds += seconds;
  }

  WatchedLoop now_;
  WatchedLoop at_last_;  ///< At the last launch.
  WatchedLoop at_power_; ///< At the last launch whose number is a power of two.
  WatchedLoop before_;   ///< At the one before that; of no launch, if there was none.
};

} // namespace penstock::detail
