// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/detail/turns/ramp.hpp>
#include <penstock/detail/turns/turn_sequencer.hpp>
#include <penstock/ring/ring.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace penstock::detail {

/// Units that follow each other through the slots of a ring.
struct Room {
  /// Those of them that lie in one slot.
  struct Piece {
    std::uint64_t ticket;
    std::uint64_t first; // of its units
    std::uint64_t units;
  };

  std::uint64_t ticket{}; // where its first unit lies
  std::uint64_t unit{};
  std::uint64_t units{};

  /// Takes off what lies in its first slot, and returns it: no units if nothing is left. A slot
  /// has as many as `size` says.
  Piece next(const Ramp& size) noexcept;
};

/// Gives out the room of a ring's slots where nobody knows beforehand how much each worker needs.
/// Their shares of the work are numbered. Workers reserve room in the order of these numbers, as
/// much as they need, and pass the turn on. Then they wait for their slots, and fill them side by
/// side. A worker waits only for lower numbers, so that even a ring of two slots suffices.
template <class Policy = RingPolicy> class Openings {
 public:
  /// Slots have as many units as `size` says. For so many workers.
  Openings(const Ramp& size, std::size_t workers) : size_{size}, turns_{workers} {}

  /// Begins at number 0, with an empty slot of ticket 0. No other thread may be inside.
  [[gnu::cold]] void reset() noexcept {
    turns_.reset();
    next_ = {};
  }
  /// End it: nobody gets a turn any more. Async-signal-safe.
  /// @{
  [[gnu::cold]] void stop() noexcept { turns_.stop(); }
  void fail() noexcept { stop(); }
  /// @}

  /// Returns whether it is a number's turn: see await_turn().
  bool is_turn(std::uint64_t number) const noexcept { return turns_.is(number); }
  /// Blocks until it is a number's turn, and returns true; false if it was ended.
  bool await_turn(std::uint64_t number) noexcept { return turns_.await(number); }
  /// In turn, opens room for so many units.
  Room open(std::uint64_t units) noexcept {
    Room room = next_;
    room.units = next_.units = units;
    while (next_.units != 0 && next_.ticket < size_.slots()) {
      next_.next(size_);
    }
    if (next_.units != 0) { // all further slots have one size
      const std::uint64_t each = size_.size(next_.ticket);
      const std::uint64_t end = next_.unit + next_.units;
      next_ = {next_.ticket + end / each, end % each, 0};
    }
    return room;
  }
  /// In turn, closes the slot that has begun, or, if none has, an `empty` one: returns the room
  /// that stays void, none if there is no such slot.
  Room close(bool empty) noexcept {
    const std::uint64_t left = size_.size(next_.ticket) - next_.unit;
    return next_.unit == 0 && !empty ? next_ : open(left);
  }
  /// In turn, returns where the next unit goes.
  Room next() const noexcept { return next_; }
  /// In turn, returns the first ticket whose slot has not begun. Call it when all are closed.
  std::uint64_t end() const noexcept { return next_.ticket; }
  /// Ends a turn; that of `number` begins.
  void pass(std::uint64_t number) noexcept { turns_.pass(number); }
  /// Gives up a number for which `ring` has nothing. At the ring's end it waits for the number's
  /// turn and lets that of `next` begin, which it owes to those who have drawn later ones. At a
  /// stop it does not: nobody may have a turn behind one in which nothing was done.
  template <class R>
  void leave(const R& ring, std::uint64_t number, std::uint64_t next) noexcept {
    if (ring.state() == Flow::ended && await_turn(number)) {
      pass(next);
    }
  }

  const Ramp& size() const noexcept { return size_; }

 private:
  const Ramp size_;
  Room next_; // where the next unit goes: only the worker whose turn it is touches this
  TurnSequencer<Policy> turns_;
};

/// How much of each slot of a ring is filled, where several workers fill one slot in any order, and
/// nobody knows beforehand how many: the one whose units are the slot's last hands it on.
template <class Policy = RingPolicy> class Fillings {
  using Atomics = typename Policy::Atomics;
  using Number = typename Atomics::template Atomic<std::uint64_t>;

 public:
  /// For a ring of `slots`, which have as many units as `size` says.
  Fillings(std::size_t slots, const Ramp& size) : size_{size}, left_(slots) { reset(); }

  /// Empties all slots. No other thread may be inside.
  [[gnu::cold]] void reset() noexcept {
    for (std::size_t i = 0; i != left_.size(); ++i) {
      left_[i].units.store(size_.size(i), Atomics::relaxed);
    }
  }
  /// Says that a piece is filled, or stays void, by a worker who waited for its slot to be free.
  /// Returns true to the worker whose piece was the slot's last: it sees what the others did to the
  /// slot, and is to claim and publish it.
  bool filled(const Room::Piece& piece) noexcept {
    if (piece.units == size_.size(piece.ticket)) {
      count_anew(piece.ticket);
      return true;
    }
    // Pairs with itself: releases this piece, and acquires the others.
    if (left_[piece.ticket % left_.size()].units.fetch_sub(piece.units, Atomics::acq_rel) !=
        piece.units) {
      return false;
    }
    count_anew(piece.ticket);
    return true;
  }
  /// Fills room in slot after slot, each as soon as it is free: calls f(slot, piece), which fills
  /// or leaves void a piece, and hand_on(ticket) of a slot whose last units these were. Blocks;
  /// returns false if the ring was closed.
  template <class R, class F, class HandOn> bool fill(R& ring, Room room, F f, HandOn hand_on) {
    while (room.units != 0) {
      const Room::Piece piece = room.next(size_);
      auto* const slot = ring.await_free(piece.ticket);
      if (!slot) {
        return false;
      }
      f(*slot, piece);
      if (filled(piece)) {
        hand_on(piece.ticket);
      }
    }
    return true;
  }

 private:
  struct alignas(cache_line) Left {
    Number units{0};
  };

  // Relaxed: the slot's publishing hands this on to whoever fills it in the next lap.
  void count_anew(std::uint64_t ticket) noexcept {
    left_[ticket % left_.size()].units.store(size_.size(ticket + left_.size()), Atomics::relaxed);
  }

  const Ramp size_;
  Vector<Left> left_; // by place
};

#if PENSTOCK_BODIES
PENSTOCK_INLINE Room::Piece Room::next(const Ramp& size) noexcept {
  const std::uint64_t in_slot = size.size(ticket) - unit;
  const Piece piece{ticket, unit, std::min(in_slot, units)};
  units -= piece.units;
  unit += piece.units;
  if (piece.units == in_slot) {
    ++ticket;
    unit = 0;
  }
  return piece;
}
#endif

} // namespace penstock::detail
