// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/ring/ring_types.hpp>

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

/// A ticket and where it lies; by default, none.
struct DrawnTicket {
  static constexpr std::uint64_t none = ~std::uint64_t{0};

  std::uint64_t ticket = none;
  std::size_t place{};

  explicit operator bool() const noexcept { return ticket != none; }
};

/// Draws the tickets of one side of a ring, in order, and tells where each lies. They order nothing
/// else: all accesses are relaxed.
template <class Policy> class RingTickets {
  using Atomics = typename Policy::Atomics;

 public:
  RingTickets(std::size_t slots, Side side) : slots_{slots}, side_{side} {}

  Side side() const noexcept { return side_; }
  /// Returns the next ticket to draw.
  std::uint64_t next() const noexcept { return next_.load(Atomics::relaxed); }
  /// Returns where `ticket` lies, which this thread has from next() or draw().
  std::size_t place(std::uint64_t ticket) const noexcept {
    return side_ == Side::one ? place_ : ticket % slots_;
  }

  /// Draws the next ticket, whether its slot is ready or not. For a side of many threads.
  std::uint64_t draw() noexcept { return next_.fetch_add(1, Atomics::relaxed); }
  /// Moves past `ticket`, which was the next, and returns where it lies. For a side of one thread.
  std::size_t pass(std::uint64_t ticket) noexcept {
    next_.store(ticket + 1, Atomics::relaxed);
    const std::size_t place = place_;
    place_ = place + 1 == slots_ ? 0 : place + 1;
    return place;
  }
  /// Moves past `ticket`; returns false if another thread drew it. For either side.
  bool pass_if_next(std::uint64_t ticket) noexcept {
    if (side_ == Side::many) {
      return next_.compare_exchange_strong(ticket, ticket + 1, Atomics::relaxed, Atomics::relaxed);
    }
    pass(ticket);
    return true;
  }
  /// Counts a ticket that came from another ring.
  void count() noexcept {
    if (side_ == Side::many) {
      draw();
    } else {
      pass(next());
    }
  }
  /// Resets to ticket 0. No other thread may be inside.
  void reset() noexcept {
    next_.store(0, Atomics::relaxed);
    place_ = 0;
  }

 private:
  const std::size_t slots_;
  const Side side_;
  // Apart from members that are only read: to read them would fetch this line from the thread that
  // drew last.
  alignas(cache_line) typename Atomics::template Atomic<std::uint64_t> next_{0};
  std::size_t place_{}; // of the next ticket, on a side of one thread: it need not divide
};

} // namespace penstock::detail
