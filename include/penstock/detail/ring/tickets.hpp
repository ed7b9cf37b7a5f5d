// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/ring_types.hpp>

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

/// The tickets that one side of a ring draws, in order, and where each lies. They order nothing
/// else: all is relaxed.
template <class Policy> class RingTickets {
  using Atomics = typename Policy::Atomics;

 public:
  RingTickets(std::size_t slots, Side side) : slots_{slots}, side_{side} {}

  Side side() const noexcept { return side_; }
  /// The next to be drawn.
  std::uint64_t next() const noexcept { return next_.load(Atomics::relaxed); }
  /// Where `ticket` lies, which next() or draw() gave to this thread.
  std::size_t place(std::uint64_t ticket) const noexcept {
    return side_ == Side::one ? place_ : ticket % slots_;
  }

  /// For many threads: the next, whether its slot is ready or not.
  std::uint64_t draw() noexcept { return next_.fetch_add(1, Atomics::relaxed); }
  /// For one thread: past `ticket`, which was the next. Returns where it lies.
  std::size_t pass(std::uint64_t ticket) noexcept {
    next_.store(ticket + 1, Atomics::relaxed);
    const std::size_t place = place_;
    place_ = place + 1 == slots_ ? 0 : place + 1;
    return place;
  }
  /// For either: false if another thread drew `ticket`.
  bool pass_if_next(std::uint64_t ticket) noexcept {
    if (side_ == Side::many) {
      return next_.compare_exchange_strong(ticket, ticket + 1, Atomics::relaxed, Atomics::relaxed);
    }
    pass(ticket);
    return true;
  }
  /// One that came from elsewhere.
  void count() noexcept {
    if (side_ == Side::many) {
      draw();
    } else {
      pass(next());
    }
  }
  /// As made. No other thread inside.
  void reset() noexcept {
    next_.store(0, Atomics::relaxed);
    place_ = 0;
  }

 private:
  const std::size_t slots_;
  const Side side_;
  // Apart from what is only read: each look at that would fetch the line from who drew last.
  alignas(cache_line) typename Atomics::template Atomic<std::uint64_t> next_{0};
  std::size_t place_{}; // of the next, where one thread draws: it need not divide
};

} // namespace penstock::detail
