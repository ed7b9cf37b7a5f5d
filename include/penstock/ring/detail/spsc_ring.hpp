// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/ring/detail/counter.hpp>
#include <penstock/ring/detail/spsc_side.hpp>
#include <penstock/ring/detail/state.hpp>
#include <penstock/ring/detail/tickets.hpp>
#include <penstock/ring/ring_types.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace penstock::detail {

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
