// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/config.hpp>
#include <penstock/ring.hpp>

#include <cstdint>

namespace penstock::detail {

/// Counts what is delivered in the order of tickets, however the workers who hold them come: each
/// learns how much came before his. Needed only where records may be left out. Count is what it
/// counts with.
template <class Policy = RingPolicy, class Count = std::uint64_t> class Turns {
  using Atomics = typename Policy::Atomics;
  using Parking = typename Policy::Parking;
  static constexpr std::uint32_t sleeper = 1, over = 2, one = 4;

 public:
  /// Before a run.
  void reset() noexcept {
    word_.store(0, Atomics::relaxed);
    count_ = 0;
  }
  /// Waits for its turn, adds `more` and gives the sum before. False if turns have ended.
  bool take(std::uint64_t ticket, std::uint64_t more, std::uint64_t& before) noexcept {
    const auto mine = static_cast<std::uint32_t>(ticket) * one;
    for (int looks = 0;;) {
      std::uint32_t seen = word_.load(Atomics::acquire); // pairs with the one before, below
      if (seen & over) {
        return false;
      }
      if ((seen & ~sleeper) == mine) {
        break;
      }
      if (looks < Parking::spins) {
        ++looks;
        Parking::pause();
      } else if ((seen & sleeper) ||
                 word_.compare_exchange_strong(seen, seen | sleeper, Atomics::relaxed,
                                               Atomics::relaxed)) {
        Parking::sleep(word_, seen | sleeper);
      }
    }
    before = count_;
    count_ += more;
    // Pairs with the look above. Not a store, which could undo end().
    const std::uint32_t was = word_.fetch_add(one, Atomics::release);
    if (was & sleeper) {
      word_.fetch_and(~sleeper, Atomics::relaxed);
      Parking::wake(word_);
    }
    return true;
  }
  /// Nobody's turn comes any more: the ring has stopped or failed.
  void end() noexcept {
    word_.fetch_or(over, Atomics::relaxed);
    Parking::wake(word_);
  }

 private:
  alignas(cache_line) typename Atomics::template Atomic<std::uint32_t> word_{0};
  Count count_{}; // whose turn it is, his
};

} // namespace penstock::detail
