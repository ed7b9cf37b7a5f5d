// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/host/detail/call_gate.hpp>
#include <penstock/host/detail/machine.hpp>

#include <algorithm>

namespace penstock::detail {

/// How far a stream has got in the pretended machine's time, which real time never precedes: work
/// is done when its turn has ended on that machine, or somewhat later. The next piece of work
/// begins where that turn ended. Only the stream's thread uses it.
class Pace {
 public:
  using Clock = Progress::Clock;

  /// `machine`: null for none.
  Pace(Machine* machine, const CallGate& gate)
      : machine_{machine && machine->has_costs() ? machine : nullptr}, gate_{gate} {}

  /// Whether it keeps time: else all work runs at once, and at() means nothing.
  bool keeps_time() const noexcept { return machine_ != nullptr; }
  /// What is done here and now is done at this time.
  Clock::time_point at() const noexcept { return progress_.at; }
  /// Nothing that comes now is done before `time`.
  void not_before(Clock::time_point time) noexcept { progress_.at = std::max(progress_.at, time); }
  /// Goes back to an earlier time, for work beside that which has run since.
  void go_back(Clock::time_point time) noexcept { progress_.at = time; }

  /// Runs f() when its turn ends. Does not, if the device breaks down meanwhile.
  template <class F> void run(const Cost& cost, F&& f) {
    if (machine_ && !machine_->begin(progress_, cost, gate_)) {
      return;
    }
    f();
    if (machine_) {
      machine_->end(progress_);
    }
  }
  /// Runs enqueued work.
  template <class F> void run_kernel(F& work) { run(machine_ ? machine_->kernel() : Cost{}, work); }

 private:
  Machine* const machine_;
  const CallGate& gate_;
  Progress progress_;
};

} // namespace penstock::detail
