// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/engine/node.hpp>
#include <penstock/device/device.hpp>
#include <penstock/ring/detail/state.hpp>

namespace penstock::detail {

/// A stage whose work is queued on the device. The pipeline's device thread drives all such stages
/// in turns, none of which waits for a ring or for the device.
class DeviceStep : public Node {
 public:
  using Node::Node;

  unsigned threads() const noexcept override { return 0; }

  /// The device thread calls begin() before the first turn, take_turn() for each, rest() after the
  /// last, and give_up() when no copy and no kernel is to touch memory any more. A turn is true if
  /// there was anything to do.
  /// @{
  void begin() noexcept {
    doing_ = Activity::starved;
    meter(0).start();
  }
  bool take_turn() {
    // The activity seen last has gone on since.
    meter(0).went_by(doing_, doing_);
    bool any = false;
    attempt(0, [&] {
      any = step();
      doing_ = doing();
    });
    meter(0).now_in(doing_);
    return any;
  }
  void rest() noexcept { meter(0).went_by(doing_, Activity::resting); }
  /// Books the thread's CPU time since begin() for this step's stage.
  void book_cpu() noexcept { meter(0).stop(); }
  void give_up() noexcept {
    attempt(0, [&] { abandon(); });
  }
  /// @}

  /// Returns whether work is on its way whose end only a fence will tell.
  virtual bool has_open_fence() const noexcept = 0;
  /// Returns whether all that will come was handed on, and all that the step took is free.
  virtual bool done() const noexcept = 0;
  /// Returns when there will be something to do although no ring and no fence tells; max() if
  /// never.
  virtual Meter::Clock::time_point due() const noexcept { return Meter::Clock::time_point::max(); }
  /// Returns the state of the ring that the step fills.
  virtual Flow flow() const noexcept = 0;

 protected:
  virtual bool step() = 0;
  /// Returns what the device does for the step, as far as fences tell.
  virtual Activity doing() = 0;
  /// Forgets a run, also one that was broken off. Blocks until no work that the step enqueued
  /// touches memory. If it throws, nothing was given back, and it is to be called again.
  virtual void abandon() = 0;

 private:
  Activity doing_{};
};

} // namespace penstock::detail
