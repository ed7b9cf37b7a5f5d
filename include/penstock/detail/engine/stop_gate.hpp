// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/ring/ring.hpp>

#include <cstdint>

namespace penstock::detail {

/// Lets threads in that stop a run while it goes on, and lets the run end only when all of them
/// have left: what they close is then closed, and nothing of the next run. A thread that is inside
/// is about to leave, also if it stops in a signal handler.
///
/// enter(), leave() and was_entered() are async-signal-safe: they take no lock, so they may
/// interrupt any of the others.
template <class Policy = RingPolicy> class StopGate {
  using Atomics = typename Policy::Atomics;
  using Parking = typename Policy::Parking;

 public:
  /// Opens the gate, when all that a stop closes is ready for the run.
  void open() noexcept { word_.store(is_open, Atomics::release); } // pairs with enter()

  /// Enters, and returns true, if a run goes on: leave() must follow. Else only returns false.
  bool enter() noexcept {
    std::uint32_t seen = word_.load(Atomics::relaxed);
    while (seen & is_open) {
      // Pairs with open(): who is let in sees what there is to close.
      if (word_.compare_exchange_strong(seen, (seen | entered) + one, Atomics::acquire,
                                        Atomics::relaxed)) {
        return true;
      }
    }
    return false;
  }
  void leave() noexcept {
    // Pairs with close(): what was closed stays behind the run's end.
    const std::uint32_t before = word_.fetch_sub(one, Atomics::release);
    if (!(before & is_open)) {
      Parking::wake(word_);
    }
  }

  /// Closes the gate, and blocks until nobody is inside.
  void close() noexcept {
    // Both pair with leave().
    std::uint32_t seen = word_.fetch_and(~is_open, Atomics::acquire) & ~is_open;
    while (seen >= one) {
      Parking::sleep(word_, seen);
      seen = word_.load(Atomics::acquire);
    }
  }
  /// Closes the gate if nobody entered since open(): a stop from now on is too late. Else only
  /// returns false. Never blocks.
  bool close_if_unused() noexcept {
    std::uint32_t seen = is_open;
    return word_.compare_exchange_strong(seen, 0, Atomics::relaxed, Atomics::relaxed);
  }
  /// Returns whether anybody entered since open(). Any thread.
  bool was_entered() const noexcept { return (word_.load(Atomics::relaxed) & entered) != 0; }

 private:
  // | how many are inside | somebody entered | open |
  static constexpr std::uint32_t is_open = 1, entered = 2, one = 4;

  typename Atomics::template Atomic<std::uint32_t> word_{0};
};

} // namespace penstock::detail
