// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/ring/detail/state.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

namespace penstock::detail {

/// What a slot's 32 bits say: | lap | roused | halted | ended | sleeper | state, 2 bits |.
///
/// Lap and state tell whose slot it is, and every change of hands changes them. `sleeper` says that
/// a thread may sleep on the word. `ended` and `halted` are set when the ring's state changes, only
/// to make the word another one, so that sleepers look again: the next change of hands drops them.
/// `roused` is flipped for the same reason, when a thread is woken for something counted elsewhere.
template <unsigned LapBits = 26> struct RingWord {
  static constexpr unsigned most_lap_bits = 26;
  static_assert(
      LapBits >= 2 && LapBits <= most_lap_bits,
      "penstock: a lap has 2 to 26 bits: a word must not look like the one two laps ago.");

  enum State : std::uint32_t { free, full, partial, none };
  static constexpr std::uint32_t state_mask = 3, sleeper = 4, ended = 8, halted = 16, roused = 32;
  static constexpr unsigned lap_shift = 6;
  static constexpr std::uint32_t lap_mask = ((1U << LapBits) - 1) << lap_shift;

  static constexpr std::uint32_t make(std::uint64_t lap, std::uint32_t state) noexcept {
    return (static_cast<std::uint32_t>(lap << lap_shift) & lap_mask) | state;
  }
  static constexpr bool is_free(std::uint32_t word, std::uint64_t lap) noexcept {
    return (word & (lap_mask | state_mask)) == make(lap, free);
  }
  static constexpr bool is_filled(std::uint32_t word, std::uint64_t lap) noexcept {
    return (word & lap_mask) == make(lap, 0) && (word & state_mask) != free;
  }
};

/// What a thread calls before it falls asleep for a slot: nothing, but for one that tells others
/// when it waits. A wait that ends while the thread still spins is too short to be told of.
struct BeforeSleep {
  void (*call)(void* with) noexcept {};
  void* with{};
};
inline constinit thread_local BeforeSleep before_sleep{};

/// While it lives, this thread calls that and nothing else.
class [[nodiscard]] CallsBeforeSleep {
 public:
  explicit CallsBeforeSleep(const BeforeSleep& call) noexcept
      : outside_{std::exchange(before_sleep, call)} {}
  CallsBeforeSleep(const CallsBeforeSleep&) = delete;
  CallsBeforeSleep& operator=(const CallsBeforeSleep&) = delete;
  ~CallsBeforeSleep() { before_sleep = outside_; }

 private:
  const BeforeSleep outside_;
};

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
