// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/ring/detail/before_sleep.hpp>
#include <penstock/ring/detail/state.hpp>
#include <penstock/ring/detail/word.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace penstock::detail {

/// A 32-bit word that a ring's threads look at and sleep on: the word of a slot, which says whose
/// the slot is, or of a side that counts the tickets it is given.
template <class Policy> class WaitWord {
  using Atomics = typename Policy::Atomics;
  using Parking = typename Policy::Parking;
  using Words = RingWord<Policy::lap_bits>;

 public:
  /// Pairs with hand_over() and announce().
  std::uint32_t look() const noexcept { return word_.load(Atomics::acquire); }
  /// Returns the word of a slot that is known to be in this thread's hands.
  std::uint32_t value() const noexcept { return word_.load(Atomics::relaxed); }
  /// Sets the word to 0. No other thread may be inside.
  void reset() noexcept { word_.store(0, Atomics::relaxed); }

  /// Hands the word over to the other side as `next`, and wakes the threads that wait for it.
  void hand_over(std::uint32_t next) noexcept {
    if constexpr (Parking::sleeps) {
      // Pairs with look(). An exchange, so that a sleeper's bit is seen, and so that what
      // announce() released is not cut off from those who read this word later.
      if (word_.exchange(next, Atomics::release) & Words::sleeper) {
        Parking::wake(word_);
      }
    } else {
      word_.store(next, Atomics::release); // pairs with look()
    }
  }

  /// Changes the word, so that all threads that wait for it look at the ring's state. Each bit is
  /// set once a run: a word that did not change would let a sleeper oversleep.
  void announce(std::uint32_t bit) noexcept {
    // Pairs with look(): who sees the bit, or what came after it, sees the state.
    if (word_.fetch_or(bit, Atomics::release) & Words::sleeper) {
      Parking::wake(word_);
    }
  }

  /// Wakes the thread that waits, after a counter was stored. The store may be seen only after this
  /// look: a thread that falls asleep in between finds it when its nap is over. To rule that out
  /// would cost more, for each slot, than all the rest.
  void rouse() noexcept {
    if constexpr (Parking::sleeps) {
      if (word_.load(Atomics::relaxed) & Words::sleeper) [[unlikely]] {
        wake();
      }
    }
  }

  /// Blocks until `ready(word)`; returns false if that will never be. `counted`: what the thread
  /// waits for is stored elsewhere, and the word only says that it sleeps.
  template <class Ready>
  [[gnu::noinline]] bool await(const RingState<Policy>& state, std::uint64_t ticket, bool counted,
                               Ready ready) noexcept {
    std::chrono::nanoseconds nap = counted ? first_nap : for_ever;
    std::uint32_t slept_on = 0;
    for (int looks = 0;;) {
      std::uint32_t seen = look();
      if (ready(seen)) {
        return true;
      }
      // If announce() comes after this look, the word will not be `seen` any more.
      if (state.over(ticket)) {
        return false;
      }
      if constexpr (Parking::sleeps) {
        if (looks == Parking::spins) {
          if ((seen & Words::sleeper) ||
              word_.compare_exchange_strong(seen, seen | Words::sleeper, Atomics::relaxed,
                                            Atomics::relaxed)) {
            // Asked again, now that the word says that this thread sleeps: a count made before that
            // changed no word.
            if (counted && ready(seen)) {
              return true;
            }
            if (before_sleep.call != nullptr) {
              before_sleep.call(before_sleep.with);
            }
            // A bit that has been there for a whole nap is seen: only a new one may be missed.
            nap = slept_on == (seen | Words::sleeper) ? nap : std::min(nap, longest_new);
            slept_on = seen | Words::sleeper;
            Parking::sleep(word_, seen | Words::sleeper, nap);
            nap = counted ? std::min(2 * nap, longest_nap) : for_ever;
          }
          continue;
        }
        ++looks;
      }
      Parking::pause();
    }
  }

 private:
  [[gnu::noinline]] void wake() noexcept {
    // Not the sleeper's bit alone: a thread about to sleep might find it set again, by another.
    word_.fetch_xor(Words::sleeper | Words::roused, Atomics::relaxed);
    Parking::wake(word_);
  }

  static constexpr std::chrono::nanoseconds first_nap{100'000}, longest_new{25'600'000},
      longest_nap{819'200'000}, for_ever{-1};

  typename Atomics::template Atomic<std::uint32_t> word_{0};
};

} // namespace penstock::detail
