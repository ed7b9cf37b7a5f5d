// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/host/detail/call_gate.hpp>
#include <penstock/host/detail/machine.hpp>

#include <algorithm>
#include <chrono>
#include <thread>

namespace penstock::detail {

/// How far a stream has got in the pretended machine's time, which real time never precedes: work
/// is done when its turn has ended on that machine, or somewhat later. The next piece of work
/// begins where that turn ended. Only the stream's thread uses it.
class Pace {
 public:
  using Clock = std::chrono::steady_clock;

  Pace(Machine& machine, const CallGate& gate)
      : machine_{machine}, gate_{gate}, keeps_time_{machine.has_costs()} {}

  /// Whether it keeps time: else all work runs at once, and at() means nothing.
  bool keeps_time() const noexcept { return keeps_time_; }
  /// What is done here and now is done at this time.
  Clock::time_point at() const noexcept { return at_; }
  /// Nothing that comes now is done before `time`.
  void not_before(Clock::time_point time) noexcept { at_ = std::max(at_, time); }
  /// Goes back to an earlier time, for work beside that which has run since.
  void go_back(Clock::time_point time) noexcept { at_ = time; }

  /// Runs f() when its turn ends. Does not, if the device breaks down meanwhile.
  template <class F> void run(const Cost& cost, F&& f) {
    if (!keeps_time_) {
      f();
      return;
    }
    const Clock::time_point ready = at_ + cost.late;
    const Turn turn = cost.on ? cost.on->book(ready, cost.takes) : Turn{ready, ready};
    if (!sleep_until(turn.end)) {
      return;
    }
    const Clock::time_point begin = Clock::now();
    f();
    // Work that takes longer than its turn has its own time, but the sleep is not part of it.
    at_ = std::max(turn.end, turn.begin + (Clock::now() - begin));
  }
  /// Runs enqueued work.
  template <class F> void run_kernel(F& work) { run(machine_.kernel(), work); }

 private:
  // Returns whether the device still works.
  bool sleep_until(Clock::time_point end) const {
    constexpr std::chrono::milliseconds look_again{10};
    for (Clock::time_point now = Clock::now(); now < end; now = Clock::now()) {
      if (gate_.is_broken()) {
        return false;
      }
      std::this_thread::sleep_until(std::min(end, now + look_again));
    }
    return !gate_.is_broken();
  }

  Machine& machine_;
  const CallGate& gate_;
  const bool keeps_time_;
  Clock::time_point at_{};
};

} // namespace penstock::detail
