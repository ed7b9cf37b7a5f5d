// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/detail/turns/openings.hpp>
#include <penstock/ring/ring.hpp>

#include <cstddef>
#include <cstdint>

namespace penstock::detail {

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

} // namespace penstock::detail
