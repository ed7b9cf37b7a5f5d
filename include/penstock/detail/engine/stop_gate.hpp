// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/ring.hpp>

#include <cstdint>

namespace penstock::detail {

/// Lets in who stops a run while it goes on, and lets the run end only when all of them have left:
/// what they close is then closed, and nothing of the next run. Whoever is inside is about to
/// leave, also where a signal handler stops.
///
/// enter(), leave() and was_entered() are async-signal-safe: they take no lock, so they may
/// interrupt any of the others.
template <class Policy = RingPolicy> class StopGate {
  using Atomics = typename Policy::Atomics;
  using Parking = typename Policy::Parking;

 public:
  /// When what is to be closed is ready for the run.
  void open() noexcept { word_.store(is_open, Atomics::release); } // pairs with enter()

  /// False, and nothing else, unless a run goes on; else leave() must follow.
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

  /// Blocks until nobody is inside; nobody is let in any more.
  void close() noexcept {
    // Both pair with leave().
    std::uint32_t seen = word_.fetch_and(~is_open, Atomics::acquire) & ~is_open;
    while (seen >= one) {
      Parking::sleep(word_, seen);
      seen = word_.load(Atomics::acquire);
    }
  }
  /// Closes it if nobody was let in since open(): whoever comes from now on is too late. False, and
  /// nothing else, if somebody was. Never blocks.
  bool close_if_unused() noexcept {
    std::uint32_t seen = is_open;
    return word_.compare_exchange_strong(seen, 0, Atomics::relaxed, Atomics::relaxed);
  }
  /// Whether anybody was let in since open(). Any thread.
  bool was_entered() const noexcept { return (word_.load(Atomics::relaxed) & entered) != 0; }

 private:
  // | how many are inside | somebody was | open |
  static constexpr std::uint32_t is_open = 1, entered = 2, one = 4;

  typename Atomics::template Atomic<std::uint32_t> word_{0};
};

} // namespace penstock::detail
