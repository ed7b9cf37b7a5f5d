// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/base/vector.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace penstock::detail {

/// Counts the tickets that one thread hands to the other side of a ring, in any order: the other
/// side has all tickets before the first missing one. The counter is only stored, never exchanged.
template <class Policy> class RingCounter {
  using Atomics = typename Policy::Atomics;

 public:
  /// `slots`: those of the ring; 0 if the counter is not used.
  explicit RingCounter(std::size_t slots) : slots_{slots}, early_(slots) {}

  /// Returns the first ticket that the other side does not have. Any thread. It then sees what was
  /// written before the tickets ahead of that one were given.
  std::uint64_t given() const noexcept {
    return given_.load(Atomics::acquire); // pairs with hand_on()
  }

  /// Gives `count` adjacent tickets, the first of which lies at `place`. One thread. Returns how
  /// many more tickets the other side has now: none while an earlier one is missing; when that one
  /// comes, also those given before their turn.
  std::size_t give(std::uint64_t ticket, std::size_t place, std::size_t count) noexcept {
    if (ticket == turn_) [[likely]] {
      turn_ = ticket + count;
      hand_on(turn_);
      return count;
    }
    return give_out_of_turn(ticket, place, count);
  }

  /// Resets the counter to 0. No other thread may be inside.
  void reset() noexcept {
    std::fill_n(early_.data(), slots_, false);
    waiting_ = 0;
    turn_ = 0;
    given_.store(0, Atomics::relaxed);
  }

 private:
  static constexpr std::uint64_t never = ~std::uint64_t{0};

  void hand_on(std::uint64_t next) noexcept {
    given_.store(next, Atomics::release); // pairs with given()
  }
  [[gnu::noinline]] std::size_t give_out_of_turn(std::uint64_t ticket, std::size_t place,
                                                 std::size_t count) noexcept {
    if (ticket != given_.load(Atomics::relaxed)) {
      std::fill_n(&early_[place], count, true);
      waiting_ += count;
      turn_ = never; // so that the ticket whose turn it is comes here too
      return 0;
    }
    for (std::size_t next = place + count; waiting_ != 0; ++next, ++count, --waiting_) {
      next = next == slots_ ? 0 : next;
      if (!early_[next]) {
        break;
      }
      early_[next] = false;
    }
    turn_ = waiting_ == 0 ? ticket + count : never;
    hand_on(ticket + count);
    return count;
  }

  // Only the thread that gives uses these.
  alignas(cache_lines) std::uint64_t turn_{}; // given_, if no ticket waits
  std::size_t waiting_{};                     // tickets given before their turn
  const std::size_t slots_;
  Vector<bool> early_; // by place
  alignas(cache_lines) typename Atomics::template Atomic<std::uint64_t> given_{0};
};

} // namespace penstock::detail
