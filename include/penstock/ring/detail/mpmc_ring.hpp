// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/ring/detail/cells.hpp>
#include <penstock/ring/detail/state.hpp>
#include <penstock/ring/detail/tickets.hpp>
#include <penstock/ring/ring_types.hpp>

#include <cstddef>
#include <cstdint>

namespace penstock::detail {

/// The slots of a ring that has a side of many threads: it decides which thread gets which ticket.
/// RingCells hands the slots over. Allocates nothing for 0 slots.
template <class Slot, class Policy> class MpmcRing {
  using State = RingState<Policy>;

 public:
  MpmcRing(std::size_t slots, Side claimers, Side takers)
      : cells_{slots, claimers, takers}, tail_{slots, claimers}, head_{slots, takers} {}

  Slot& slot(std::size_t place) noexcept { return cells_.slot(place); }
  Fill fill(std::size_t place) const noexcept { return cells_.fill(place); }
  std::uint64_t was_claimed() const noexcept { return tail_.next(); }
  std::uint64_t was_taken() const noexcept { return head_.next(); }

  /// Claim the next slot to fill: try_claim() if it is free now, claim() when it is.
  /// @{
  DrawnTicket try_claim(const State& state) noexcept {
    return try_draw(state, tail_, &RingCells<Slot, Policy>::is_free);
  }
  DrawnTicket claim(const State& state) noexcept {
    return draw(state, tail_, &RingCells<Slot, Policy>::await_free);
  }
  /// @}
  DrawnTicket claim_at(const State& state, std::uint64_t ticket) noexcept {
    tail_.count();
    const std::size_t place = ticket % cells_.slots();
    return !state.over(ticket) && cells_.await_free(state, ticket, place)
               ? DrawnTicket{ticket, place}
               : DrawnTicket{};
  }
  /// Take the next filled slot: try_take() if it is filled now, take() when it is.
  /// @{
  DrawnTicket try_take(const State& state) noexcept {
    return try_draw(state, head_, &RingCells<Slot, Policy>::is_filled);
  }
  DrawnTicket take(const State& state) noexcept {
    return draw(state, head_, &RingCells<Slot, Policy>::await_filled);
  }
  /// @}
  /// Take and claim nothing: see Ring.
  /// @{
  Slot* await_free(const State& state, std::uint64_t ticket) noexcept {
    const std::size_t place = ticket % cells_.slots();
    return !state.over(ticket) && cells_.await_free(state, ticket, place) ? &slot(place) : nullptr;
  }
  Slot* await_filled(const State& state, std::uint64_t ticket) noexcept {
    const std::size_t place = ticket % cells_.slots();
    // Asked afterwards: see draw().
    return cells_.await_filled(state, ticket, place) && !state.over(ticket) ? &slot(place)
                                                                            : nullptr;
  }
  bool is_free(const State& state, std::uint64_t ticket) noexcept {
    return !state.over(ticket) && cells_.is_free(ticket, ticket % cells_.slots());
  }
  bool is_filled(const State& state, std::uint64_t ticket) noexcept {
    return !state.over(ticket) && cells_.is_filled(ticket, ticket % cells_.slots());
  }
  /// @}
  /// Takes the slot of a ticket that await_filled() gave.
  DrawnTicket take_at(const State& state, std::uint64_t ticket) noexcept {
    head_.count();
    return state.over(ticket) ? DrawnTicket{} : DrawnTicket{ticket, ticket % cells_.slots()};
  }
  /// Takes `next`, at `place`, if it is the next ticket, is filled now and is not empty.
  bool try_take_at(const State& state, std::uint64_t next, std::size_t place) noexcept {
    return was_taken() == next && !state.over(next) && cells_.is_filled(next, place) &&
           cells_.fill(place) != Fill::none && head_.pass_if_next(next);
  }

  [[gnu::noinline]] void publish(std::uint64_t ticket, std::size_t place, Fill fill) noexcept {
    cells_.publish(ticket, place, fill);
  }
  [[gnu::noinline]] void release(std::uint64_t ticket, std::size_t place,
                                 std::size_t count) noexcept {
    cells_.release(ticket, place, count);
  }
  void announce(std::uint32_t bit) noexcept { cells_.announce(bit); }
  /// Frees all slots. No other thread may be inside.
  void reset() noexcept {
    cells_.reset();
    tail_.reset();
    head_.reset();
  }

 private:
  using Tickets = RingTickets<Policy>;

  DrawnTicket try_draw(const State& state, Tickets& tickets,
                       bool (RingCells<Slot, Policy>::*ready)(std::uint64_t,
                                                              std::size_t)) noexcept {
    for (;;) {
      const std::uint64_t ticket = tickets.next();
      const std::size_t place = tickets.place(ticket);
      if (!(cells_.*ready)(ticket, place)) {
        if (tickets.next() == ticket) {
          return {};
        }
      } else if (state.over(ticket)) { // asked afterwards: see draw()
        return {};
      } else if (tickets.pass_if_next(ticket)) {
        return {ticket, place};
      }
    }
  }
  // A thread of many first draws its ticket, and then waits for the slot.
  DrawnTicket draw(const State& state, Tickets& tickets,
                   bool (RingCells<Slot, Policy>::*await)(const State&, std::uint64_t,
                                                          std::size_t)) noexcept {
    if (state.over(0)) {
      return {}; // a ticket drawn now would reach nobody
    }
    const bool many = tickets.side() == Side::many;
    const std::uint64_t ticket = many ? tickets.draw() : tickets.next();
    const std::size_t place = tickets.place(ticket);
    // Asked afterwards: a thread that ends the ring before it drops a claim, of which the word then
    // says that it is filled, is never seen to have dropped it only.
    if (!(cells_.*await)(state, ticket, place) || state.over(ticket)) {
      return {};
    }
    if (!many) {
      tickets.pass(ticket);
    }
    return {ticket, place};
  }

  RingCells<Slot, Policy> cells_;
  Tickets tail_;
  Tickets head_;
};

} // namespace penstock::detail
