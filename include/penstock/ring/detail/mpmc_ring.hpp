// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/ring/detail/state.hpp>
#include <penstock/ring/detail/tickets.hpp>
#include <penstock/ring/detail/wait_word.hpp>
#include <penstock/ring/ring_types.hpp>

#include <cstddef>
#include <cstdint>

namespace penstock::detail {

/// The slots of a ring that has a side of many threads, each slot with a word beside it. Slots
/// change hands here, and threads wait here for that.
///
/// A side of many threads hands a slot over by writing the slot's word. A side of one thread counts
/// what it hands over instead. A thread that waits for such a slot still sleeps on the slot's word,
/// so that only the thread whose slot is ready wakes. Allocates nothing for 0 slots.
template <class Slot, class Policy> class RingCells {
  using Atomics = typename Policy::Atomics;
  using Words = RingWord<Policy::lap_bits>;

 public:
  RingCells(std::size_t slots, Side claimers, Side takers)
      : slots_{slots}, publish_counted_{claimers == Side::one},
        release_counted_{takers == Side::one}, cells_(slots),
        published_{publish_counted_ ? slots : 0}, released_{release_counted_ ? slots : 0} {}

  std::size_t slots() const noexcept { return slots_; }
  Slot& slot(std::size_t place) noexcept { return cells_[place].slot; }
  Fill fill(std::size_t place) const noexcept {
    const Cell& cell = cells_[place];
    return publish_counted_ ? cell.fill : Fill(cell.word.value() & Words::state_mask);
  }

  /// Return whether the slot of this ticket may be filled, and whether it may be taken. A thread
  /// that gets true sees what the other side left in the slot.
  bool is_free(std::uint64_t ticket, std::size_t place) noexcept {
    return release_counted_ ? is_released(ticket)
                            : Words::is_free(cells_[place].word.look(), lap(ticket));
  }
  bool is_filled(std::uint64_t ticket, std::size_t place) noexcept {
    return publish_counted_ ? known_published_.has(ticket, published_)
                            : Words::is_filled(cells_[place].word.look(), lap(ticket));
  }
  /// Block until the slot of this ticket is free, or filled; return false if it never will be.
  bool await_free(const RingState<Policy>& state, std::uint64_t ticket,
                  std::size_t place) noexcept {
    // The counter comes first: the word's line is the taker's, and would come twice, to be read and
    // to be written.
    return (release_counted_ && is_released(ticket)) ||
           cells_[place].word.await(state, ticket, release_counted_, [&](std::uint32_t word) {
             return release_counted_ ? is_released(ticket) : Words::is_free(word, lap(ticket));
           });
  }
  bool await_filled(const RingState<Policy>& state, std::uint64_t ticket,
                    std::size_t place) noexcept {
    return cells_[place].word.await(state, ticket, publish_counted_, [&](std::uint32_t word) {
      return publish_counted_ ? known_published_.has(ticket, published_)
                              : Words::is_filled(word, lap(ticket));
    });
  }

  void publish(std::uint64_t ticket, std::size_t place, Fill fill) noexcept {
    Cell& cell = cells_[place];
    if (publish_counted_) {
      cell.fill = fill;
      give(published_, ticket, place, 1);
    } else {
      cell.word.hand_over(Words::make(lap(ticket), static_cast<std::uint32_t>(fill)));
    }
  }
  void release(std::uint64_t ticket, std::size_t place, std::size_t count) noexcept {
    if (release_counted_) {
      give(released_, ticket, place, count);
      return;
    }
    for (const std::size_t end = place + count; place != end; ++place) {
      cells_[place].word.hand_over(Words::make(lap(ticket) + 1, Words::free));
    }
  }
  /// Changes every word, so that all threads look at the ring's state.
  void announce(std::uint32_t bit) noexcept {
    for (std::size_t i = 0; i < slots_; ++i) {
      cells_[i].word.announce(bit);
    }
  }
  /// Frees all slots, in lap 0. No other thread may be inside.
  void reset() noexcept {
    for (std::size_t i = 0; i < slots_; ++i) {
      cells_[i].word.reset();
    }
    published_.reset();
    released_.reset();
    known_published_.reset();
    known_released_.reset();
  }

 private:
  /// How far the other side's counter is known to have come: a copy for all threads of one side, on
  /// a cache line of theirs.
  class Known {
   public:
    bool has(std::uint64_t ticket, const RingCounter<Policy>& counter) noexcept {
      // Pairs with the store below, of a thread that looked at the counter itself.
      if (ticket < until_.load(Atomics::acquire)) {
        return true;
      }
      const std::uint64_t given = counter.given();
      if (ticket >= given) {
        return false;
      }
      // Pairs with the load above. Of two threads that store the older may be last: that is true
      // too.
      until_.store(given, Atomics::release);
      return true;
    }
    void reset() noexcept { until_.store(0, Atomics::relaxed); }

   private:
    alignas(cache_line) typename Atomics::template Atomic<std::uint64_t> until_{0};
  };
  // A line of its own, since the two sides write it in turn.
  struct alignas(cache_line) Cell {
    WaitWord<Policy> word;
    Fill fill{}; // used if publishing is counted: else the word says it
    Slot slot{};
  };
  static_assert(Words::make(0, Words::free) == 0, "a word begins, and is reset, as free in lap 0");

  std::uint64_t lap(std::uint64_t ticket) const noexcept { return ticket / slots_; }
  bool is_released(std::uint64_t ticket) noexcept {
    return ticket < slots_ || known_released_.has(ticket - slots_, released_);
  }
  void give(RingCounter<Policy>& counter, std::uint64_t ticket, std::size_t place,
            std::size_t count) noexcept {
    for (count = counter.give(ticket, place, count); count != 0; --count) {
      cells_[place].word.rouse();
      place = place + 1 == slots_ ? 0 : place + 1;
    }
  }

  const std::size_t slots_;
  const bool publish_counted_;
  const bool release_counted_;
  Vector<Cell> cells_;
  RingCounter<Policy> published_;
  RingCounter<Policy> released_;
  Known known_published_;
  Known known_released_;
};

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
  /// Returns the slot of a ticket that is not claimed yet, if it is free; else null.
  Slot* look_free(std::uint64_t ticket) noexcept {
    const std::size_t place = ticket % cells_.slots();
    return cells_.is_free(ticket, place) ? &slot(place) : nullptr;
  }
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
