// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/ring/detail/state.hpp>
#include <penstock/ring/detail/tickets.hpp>
#include <penstock/ring/detail/wait_word.hpp>
#include <penstock/ring/ring_types.hpp>

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

/// The slots of a ring between one thread and one other. Each side counts what it hands over: slots
/// therefore lie densely, without words, and need no atomic read-modify-write. Allocates nothing
/// for 0 slots.
template <class Slot, class Policy> class SpscRing {
  using State = RingState<Policy>;

 public:
  [[gnu::cold]] explicit SpscRing(std::size_t slots)
      : slots_{slots}, data_(slots), fills_(slots), claimer_{slots, slots}, taker_{slots, 0},
        published_{slots}, released_{slots} {
    std::fill_n(fills_.data(), slots_, Fill::full);
  }

  Slot& slot(std::size_t place) noexcept { return data_[place]; }
  Fill fill(std::size_t place) const noexcept { return fills_[place]; }
  std::uint64_t was_claimed() const noexcept { return claimer_.next(); }
  std::uint64_t was_taken() const noexcept { return taker_.next(); }

  /// Return whether `ticket`, which is was_claimed() or was_taken(), is known to be its side's
  /// already.
  /// @{
  bool knows_free(const State& state, std::uint64_t ticket) const noexcept {
    return claimer_.knows(state, ticket);
  }
  bool knows_filled(const State& state, std::uint64_t ticket) const noexcept {
    return taker_.knows(state, ticket);
  }
  /// @}
  /// Draw a ticket that is ready, and return its place.
  /// @{
  std::size_t draw_free(std::uint64_t ticket) noexcept { return claimer_.draw(ticket); }
  std::size_t draw_filled(std::uint64_t ticket) noexcept { return taker_.draw(ticket); }
  /// @}

  /// Claim the next slot to fill: try_claim() if it is free now, claim() when it is.
  /// @{
  DrawnTicket try_claim(const State& state) noexcept {
    const std::uint64_t ticket = was_claimed();
    return claimer_.has(state, released_, ticket) ? DrawnTicket{ticket, claimer_.draw(ticket)}
                                                  : DrawnTicket{};
  }
  DrawnTicket claim(const State& state) noexcept {
    const std::uint64_t ticket = was_claimed();
    return claimer_.await(state, released_, ticket) ? DrawnTicket{ticket, claimer_.draw(ticket)}
                                                    : DrawnTicket{};
  }
  /// @}
  DrawnTicket claim_at(const State& state, std::uint64_t ticket) noexcept {
    return claimer_.await_at(state, released_, ticket) ? DrawnTicket{ticket, ticket % slots_}
                                                       : DrawnTicket{};
  }
  /// Returns the slot of a ticket that is not claimed yet, if it is free; else null.
  Slot* look_free(std::uint64_t ticket) noexcept {
    return ticket < released_.given() + slots_ ? &data_[ticket % slots_] : nullptr;
  }
  /// Take the next filled slot: try_take() if it is filled now, take() when it is.
  /// @{
  DrawnTicket try_take(const State& state) noexcept {
    const std::uint64_t ticket = was_taken();
    return taker_.has(state, published_, ticket) ? DrawnTicket{ticket, taker_.draw(ticket)}
                                                 : DrawnTicket{};
  }
  DrawnTicket take(const State& state) noexcept {
    const std::uint64_t ticket = was_taken();
    return taker_.await(state, published_, ticket) ? DrawnTicket{ticket, taker_.draw(ticket)}
                                                   : DrawnTicket{};
  }
  /// @}
  /// Takes `next`, at `place`, if it is the next ticket, is filled now and is not empty.
  bool try_take_at(const State& state, std::uint64_t next, std::size_t place) noexcept {
    if (was_taken() != next || !taker_.has(state, published_, next) ||
        fills_[place] == Fill::none) {
      return false;
    }
    taker_.draw(next);
    return true;
  }

  void publish(std::uint64_t ticket, std::size_t place, Fill fill) noexcept {
    if (fill != Fill::full || not_full_ != 0) [[unlikely]] {
      note(place, fill);
    }
    published_.give(ticket, place, 1);
    taker_.rouse();
  }
  void release(std::uint64_t ticket, std::size_t place, std::size_t count) noexcept {
    released_.give(ticket, place, count);
    claimer_.rouse();
  }
  void announce(std::uint32_t bit) noexcept {
    claimer_.announce(bit);
    taker_.announce(bit);
  }
  /// Frees all slots. No other thread may be inside.
  void reset() noexcept {
    claimer_.reset();
    taker_.reset();
    published_.reset();
    released_.reset();
  }

 private:
  // Stores only changes, so that both sides keep the fills' cache lines.
  [[gnu::noinline]] void note(std::size_t place, Fill fill) noexcept {
    Fill& was = fills_[place];
    if (was != fill) {
      not_full_ += (was == Fill::full ? 1 : 0);
      not_full_ -= (fill == Fill::full ? 1 : 0);
      was = fill;
    }
  }

  const std::size_t slots_;
  Vector<Slot> data_;
  Vector<Fill> fills_;
  SpscSide<Policy> claimer_;
  std::size_t not_full_{}; // of fills_; only the claimer uses it
  SpscSide<Policy> taker_;
  RingCounter<Policy> published_;
  RingCounter<Policy> released_;
};

} // namespace penstock::detail
