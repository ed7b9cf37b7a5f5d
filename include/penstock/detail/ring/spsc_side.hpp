// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/ring/counter.hpp>
#include <penstock/detail/ring/state.hpp>
#include <penstock/detail/ring/tickets.hpp>
#include <penstock/detail/ring/wait_word.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace penstock::detail {

/// One of the two threads of a ring between one and one: the tickets it draws, as the other gives
/// them to it. It looks at the other's counter only when it has drawn all that it saw there last
/// time.
template <class Policy> class SpscSide {
  using Atomics = typename Policy::Atomics;
  using State = RingState<Policy>;

 public:
  /// `ahead`: how many tickets it has before the other side gives any.
  SpscSide(std::size_t slots, std::size_t ahead) : slots_{slots}, ahead_{ahead} {}

  /// Of any thread.
  std::uint64_t next() const noexcept { return next_.load(Atomics::relaxed); }

  /// Whether the next ticket is known to be there; `ticket` is next(), here and below.
  bool knows(const State& state, std::uint64_t ticket) const noexcept {
    return ticket < known_ && !state.over(ticket);
  }
  /// Whether it is there now.
  bool has(const State& state, const RingCounter<Policy>& other, std::uint64_t ticket) noexcept {
    return !state.over(ticket) && (ticket < known_ || look(other, ticket, 1));
  }
  /// Blocks until it is; false if it does not come.
  bool await(const State& state, const RingCounter<Policy>& other, std::uint64_t ticket) noexcept {
    int looks = 0;
    return !state.over(ticket) && word_.await(state, ticket, true, [&](std::uint32_t) {
      const bool patient = looks < patient_looks;
      looks += patient;
      return look(other, ticket, patient ? slots_ / 4 : 1);
    });
  }
  /// Draws the next ticket, which is there, and tells its place.
  std::size_t draw(std::uint64_t ticket) noexcept {
    next_.store(ticket + 1, Atomics::relaxed);
    return ticket - lap_begin_;
  }
  /// Counts a ticket that came from elsewhere, and blocks for it; false if it does not come.
  bool await_at(const State& state, const RingCounter<Policy>& other,
                std::uint64_t ticket) noexcept {
    next_.store(next() + 1, Atomics::relaxed);
    return !state.over(ticket) && word_.await(state, ticket, true, [&](std::uint32_t) {
      return ticket < other.given() + ahead_;
    });
  }

  /// After the other side gave it something.
  void rouse() noexcept { word_.rouse(); }
  /// So that it looks at the ring's state; any thread.
  void announce(std::uint32_t bit) noexcept { word_.announce(bit); }
  /// As made. No other thread inside.
  void reset() noexcept {
    next_.store(0, Atomics::relaxed);
    known_ = lap_begin_ = 0;
    word_.reset();
  }

 private:
  // Two threads that hand over slot by slot share each cache line all the time. So one that has to
  // wait anyway waits for many slots during its first looks: less than a microsecond, and never
  // asleep.
  static constexpr int patient_looks = [] {
    if constexpr (Policy::Parking::sleeps) {
      return std::min(16, Policy::Parking::spins);
    } else {
      return 16;
    }
  }();

  // Whether the next tickets are there now, at least `many` or one, and how many after them: to the
  // lap's end at most, so that draw() need not look for that.
  bool look(const RingCounter<Policy>& other, std::uint64_t ticket, std::size_t many) noexcept {
    const std::uint64_t given = other.given() + ahead_;
    if (ticket >= given || given - ticket < many) {
      return false;
    }
    if (ticket - lap_begin_ == slots_) {
      lap_begin_ = ticket;
    }
    known_ = std::min<std::uint64_t>(given, lap_begin_ + slots_);
    return true;
  }

  alignas(cache_lines) typename Atomics::template Atomic<std::uint64_t> next_{0};
  std::uint64_t known_{};     // tickets before it are there
  std::uint64_t lap_begin_{}; // the ticket at place 0
  const std::size_t slots_;
  const std::size_t ahead_;
  alignas(cache_lines) WaitWord<Policy> word_; // the other side looks at it
};

} // namespace penstock::detail
