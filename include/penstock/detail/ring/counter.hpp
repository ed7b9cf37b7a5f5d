// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace penstock::detail {

/// Tickets that one thread hands to the other side of a ring, in whatever order it likes: the other
/// side has all up to the first that is missing. One counter, which is stored and never exchanged.
template <class Policy> class RingCounter {
  using Atomics = typename Policy::Atomics;

 public:
  /// For a ring of `slots`; 0 if it is not used.
  explicit RingCounter(std::size_t slots)
      : slots_{slots}, early_{slots != 0 ? std::make_unique<bool[]>(slots) : nullptr} {}

  /// The first ticket that the other side does not have. Any thread. What was written before those
  /// ahead of it were given is then there to be read.
  std::uint64_t given() const noexcept {
    return given_.load(Atomics::acquire); // pairs with hand_on()
  }

  /// Gives `count` adjacent tickets, the first of which lies at `place`. One thread. Returns how
  /// many the other side has more than before: none while an earlier one is missing, and those that
  /// were given before their turn when it comes.
  std::size_t give(std::uint64_t ticket, std::size_t place, std::size_t count) noexcept {
    if (ticket == turn_) [[likely]] {
      turn_ = ticket + count;
      hand_on(turn_);
      return count;
    }
    return give_out_of_turn(ticket, place, count);
  }

  /// As made. No other thread inside.
  void reset() noexcept {
    std::fill_n(early_.get(), slots_, false);
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
      turn_ = never; // so that whose turn it is comes here too
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

  // The giver's own.
  alignas(cache_lines) std::uint64_t turn_{}; // given_, if nothing waits
  std::size_t waiting_{};                     // given before their turn
  const std::size_t slots_;
  const std::unique_ptr<bool[]> early_; // by place
  alignas(cache_lines) typename Atomics::template Atomic<std::uint64_t> given_{0};
};

} // namespace penstock::detail
