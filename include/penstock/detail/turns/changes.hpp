// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/ring/ring.hpp>

#include <cstdint>

namespace penstock::detail {

/// Where threads wait for something that other threads change, each for what it needs. Any thread.
template <class Policy = RingPolicy> class Changes {
  using Atomics = typename Policy::Atomics;
  using Parking = typename Policy::Parking;
  using Word = typename Atomics::template Atomic<std::uint32_t>;

 public:
  /// Blocks until ready() is true, and returns true; false if it was closed. ready() is asked again
  /// after each tell(), and sees what was done before it.
  template <class Ready> [[gnu::cold]] bool await(Ready ready) noexcept {
    for (int looks = 0;;) {
      // Pairs with tell(). Read before looking: what changes after the look changes the word.
      std::uint32_t seen = word_.load(Atomics::acquire);
      if (closed_.load(Atomics::acquire) != 0) { // pairs with close()
        return false;
      }
      if (ready()) {
        return true;
      }
      if constexpr (Parking::sleeps) {
        if (looks == Parking::spins) {
          if ((seen & sleeper) || word_.compare_exchange_strong(
                                      seen, seen | sleeper, Atomics::relaxed, Atomics::relaxed)) {
            Parking::sleep(word_, seen | sleeper);
          }
          continue;
        }
        ++looks;
      }
      Parking::pause();
    }
  }
  /// Says that something has changed. Never blocks.
  void tell() noexcept {
    // Pairs with await().
    if (word_.fetch_add(one, Atomics::release) & sleeper) {
      word_.fetch_and(~sleeper, Atomics::relaxed);
      Parking::wake(word_);
    }
  }
  /// Lets nobody wait any more. Async-signal-safe.
  void close() noexcept {
    closed_.store(1, Atomics::release); // pairs with await()
    tell();
  }
  /// Lets threads wait again. No other thread may be inside.
  void reopen() noexcept { closed_.store(0, Atomics::relaxed); }

 private:
  static constexpr std::uint32_t sleeper = 1;
  static constexpr std::uint32_t one = 2;

  Word word_{0};
  Word closed_{0};
};

} // namespace penstock::detail
