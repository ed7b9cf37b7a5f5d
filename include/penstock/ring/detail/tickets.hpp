// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/ring/ring_types.hpp>

#include <cstddef>
#include <cstdint>

namespace penstock::detail {

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
