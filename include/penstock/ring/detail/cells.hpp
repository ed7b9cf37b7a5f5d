// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/ring/detail/counter.hpp>
#include <penstock/ring/detail/state.hpp>
#include <penstock/ring/detail/tickets.hpp>
#include <penstock/ring/detail/wait_word.hpp>
#include <penstock/ring/detail/word.hpp>
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

} // namespace penstock::detail
