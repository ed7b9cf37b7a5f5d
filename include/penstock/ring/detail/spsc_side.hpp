// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/ring/detail/counter.hpp>
#include <penstock/ring/detail/state.hpp>
#include <penstock/ring/detail/tickets.hpp>
#include <penstock/ring/detail/wait_word.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace penstock::detail {

/// One side of a ring between two threads: draws the tickets that the other side gives it. It looks
/// at the other side's counter only when it has drawn all that it saw there last time.
template <class Policy> class SpscSide {
  using Atomics = typename Policy::Atomics;
  using State = RingState<Policy>;

 public:
  /// `ahead`: how many tickets this side has before the other gives any.
  SpscSide(std::size_t slots, std::size_t ahead) : slots_{slots}, ahead_{ahead} {}

  /// Returns the next ticket to draw. Any thread.
  std::uint64_t next() const noexcept { return next_.load(Atomics::relaxed); }

  /// Returns whether `ticket`, which is next(), is known to be there.
  bool knows(const State& state, std::uint64_t ticket) const noexcept {
    return ticket < known_ && !state.over(ticket);
  }
  /// Returns whether `ticket`, which is next(), is there now.
  bool has(const State& state, const RingCounter<Policy>& other, std::uint64_t ticket) noexcept {
    return (ticket < known_ || look(other, ticket, 1)) && !state.over(ticket);
  }
  /// Blocks until `ticket`, which is next(), is there; returns false if it does not come.
  bool await(const State& state, const RingCounter<Policy>& other, std::uint64_t ticket) noexcept {
    const bool hopes = at_once_ == 0;
    int patience = hopes ? patient_looks : 0;
    at_once_ -= hopes ? 0 : 1;
    const bool came = word_.await(state, ticket, true, [&](std::uint32_t) {
      const bool patient = patience != 0;
      patience -= patient;
      return look(other, ticket, patient ? slots_ / 4 : 1);
    }) && !state.over(ticket); // asked afterwards: see MpmcRing
    if (hopes) {
      in_vain_ = known_ == ticket + 1 ? std::min(2 * in_vain_ + 1, 63U) : 0;
      at_once_ = in_vain_;
    }
    return came;
  }
  /// Draws `ticket`, which is next() and is there, and returns its place.
  std::size_t draw(std::uint64_t ticket) noexcept {
    next_.store(ticket + 1, Atomics::relaxed);
    return ticket - lap_begin_;
  }
  /// Counts a ticket that came from another ring, and blocks for it; returns false if it does not
  /// come.
  bool await_at(const State& state, const RingCounter<Policy>& other,
                std::uint64_t ticket) noexcept {
    next_.store(next() + 1, Atomics::relaxed);
    return !state.over(ticket) && word_.await(state, ticket, true, [&](std::uint32_t) {
      return ticket < other.given() + ahead_;
    });
  }

  /// Wakes this side, after the other side gave it tickets.
  void rouse() noexcept { word_.rouse(); }
  /// Has this side look at the ring's state. Any thread.
  void announce(std::uint32_t bit) noexcept { word_.announce(bit); }
  /// Resets the side to ticket 0. No other thread may be inside.
  void reset() noexcept {
    next_.store(0, Atomics::relaxed);
    known_ = lap_begin_ = 0;
    in_vain_ = at_once_ = 0;
    word_.reset();
  }

 private:
  // Two threads that hand over slot by slot share each cache line all the time. A thread that has
  // to wait anyway therefore waits for many slots during its first looks: less than a microsecond,
  // and never asleep. If only one came, as in questions and answers, it takes the next ones at
  // once.
  static constexpr int patient_looks = [] {
    if constexpr (Policy::Parking::sleeps) {
      return std::min(16, Policy::Parking::spins);
    } else {
      return 16;
    }
  }();

  // Returns whether at least `many` tickets, and at least one, are there now, and notes how far
  // they go: to the lap's end at most, so that draw() need not look for that.
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
  unsigned in_vain_{};        // how many waits go without patience after the last that had it
  unsigned at_once_{};        // how many of them are still to come
  const std::size_t slots_;
  const std::size_t ahead_;
  alignas(cache_lines) WaitWord<Policy> word_; // the other side looks at it
};

} // namespace penstock::detail
