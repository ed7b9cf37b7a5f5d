// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
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
  Piece next(const Ramp& size) noexcept {
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
};

/// Gives out the room of a ring's slots where nobody knows beforehand how much each worker needs.
/// What they work on is numbered. In turn, in the order of these numbers, each opens the room that
/// he needs, however much, and passes the turn on; only then he waits for the slots and fills them,
/// beside the others. All whom he may wait for are before him: a ring of two slots suffices.
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
  Room next_; // whose turn it is, his: where the next unit goes
  TurnSequencer<Policy> turns_;
};

} // namespace penstock::detail
