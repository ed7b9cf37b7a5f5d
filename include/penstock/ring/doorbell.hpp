// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#include <chrono>
#include <cstdint>

namespace penstock::detail {

/// Wakes one thread that watches several rings; each of them rings it after a change. The watcher
/// reads count(), looks at its rings, and then waits for another count.
template <class Policy> class Doorbell {
  using Atomics = typename Policy::Atomics;
  using Parking = typename Policy::Parking;

 public:
  /// Counts a change, and wakes the watcher if it sleeps. Any thread; never blocks.
  void ring() noexcept {
    // Pairs with count() and wait(): who sees the ring sees what was done before it.
    const std::uint32_t before = word_.fetch_add(one, Atomics::release);
    if constexpr (Parking::sleeps) {
      if (before & sleeper) {
        word_.fetch_and(~sleeper, Atomics::relaxed);
        Parking::wake(word_);
      }
    }
  }

  /// Returns the count of changes: to be read before looking at the rings.
  std::uint32_t count() const noexcept {
    return word_.load(Atomics::acquire) & ~sleeper; // pairs with ring()
  }

  /// Returns at once if the bell has rung since `count` was read, else when it rings or `limit` has
  /// passed (negative: no limit). One thread.
  void wait(std::uint32_t count, std::chrono::nanoseconds limit) noexcept {
    if constexpr (Parking::sleeps) {
      std::uint32_t seen = count;
      // Relaxed: it only says that a thread sleeps. The next count() shows what moved the count on.
      if (!word_.compare_exchange_strong(seen, count | sleeper, Atomics::relaxed,
                                         Atomics::relaxed)) {
        return;
      }
      Parking::sleep(word_, count | sleeper, limit);
      word_.fetch_and(~sleeper, Atomics::relaxed);
    } else {
      Parking::pause();
    }
  }

 private:
  static constexpr std::uint32_t sleeper = 1;
  static constexpr std::uint32_t one = 2;

  alignas(cache_line) typename Atomics::template Atomic<std::uint32_t> word_{0};
};

} // namespace penstock::detail
