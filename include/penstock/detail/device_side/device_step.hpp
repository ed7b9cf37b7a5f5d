// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/engine/node.hpp>
#include <penstock/detail/ring/state.hpp>
#include <penstock/device.hpp>

namespace penstock::detail {

/// A stage whose work is queued on the device: done in turns by the pipeline's device thread, none
/// of which waits for a ring or for the device.
class DeviceStep : public Node {
 public:
  using Node::Node;

  unsigned threads() const noexcept override { return 0; }

  /// By the device thread: before the first turn, each turn, after the last, and when no copy and
  /// no kernel is to touch memory any more. A turn is true if there was anything to do.
  /// @{
  void begin() noexcept {
    doing_ = Activity::starved;
    meter(0).start();
  }
  bool take_turn() noexcept {
    // What was seen last is what was going on since.
    meter(0).spent(doing_, doing_);
    bool any = false;
    attempt(0, [&] {
      any = step();
      doing_ = doing();
    });
    meter(0).now_in(doing_);
    return any;
  }
  void rest() noexcept { meter(0).spent(doing_, Activity::resting); }
  /// Has this step's stage be the one that the thread's CPU time since begin() is booked for.
  void book_cpu() noexcept { meter(0).stop(); }
  void give_up() noexcept {
    attempt(0, [&] { abandon(); });
  }
  /// @}

  /// Whether something is on its way of which only a fence will tell.
  virtual bool has_open_fence() const noexcept = 0;
  /// Whether all that will come was handed on, and what it took is free.
  virtual bool done() const noexcept = 0;
  /// The state of the ring that it fills.
  virtual Flow flow() const noexcept = 0;

 protected:
  virtual bool step() = 0;
  /// What the device does for it, as far as fences tell.
  virtual Activity doing() = 0;
  /// Forgets a run, also one that was broken off. Blocks until nothing that it enqueued touches
  /// memory. If it throws, nothing was given back, and it is to be called again.
  virtual void abandon() = 0;

 private:
  Activity doing_{};
};

} // namespace penstock::detail
