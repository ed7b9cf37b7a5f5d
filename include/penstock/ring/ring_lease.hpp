// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/ring/detail/tickets.hpp>
#include <penstock/ring/ring_types.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace penstock {

/// A slot to fill. Move-only; empty (false) if there was none to have. A claim that dies
/// unpublished publishes its slot with nothing in it, so that later slots are not held back.
template <class Ring> class Claim {
 public:
  /// What travels with a place.
  using Slot = typename Ring::slot_type;

  Claim() = default;
  /// Moves the claim; `other` is then empty.
  Claim(Claim&& other) noexcept
      : ring_{std::exchange(other.ring_, nullptr)}, ticket_{other.ticket_}, place_{other.place_} {}
  /// Moves the claim; drops what this one held.
  Claim& operator=(Claim&& other) noexcept {
    Claim old{std::move(*this)};
    ring_ = std::exchange(other.ring_, nullptr);
    ticket_ = other.ticket_;
    place_ = other.place_;
    return *this;
  }
  ~Claim() { publish(Fill::none); }

  /// Returns whether there is a slot to fill.
  explicit operator bool() const noexcept { return ring_ != nullptr; }
  /// Returns the slot's number in the order of all, from 0.
  std::uint64_t ticket() const noexcept { return ticket_; }
  /// Returns which of the ring's slots it is: ticket() modulo their number.
  std::size_t place() const noexcept { return place_; }
  /// Returns what travels with the place: write it before publish().
  Slot& slot() const noexcept { return ring_->slot(place_); }

  /// Hands the slot to the other side; the claim is then empty. Never blocks.
  void publish(Fill fill = Fill::full) noexcept {
    if (Ring* ring = std::exchange(ring_, nullptr)) {
      ring->publish(ticket_, place_, fill);
    }
  }

 private:
  friend Ring;
  Claim(Ring* ring, std::uint64_t ticket, std::size_t place) noexcept
      : ring_{ring}, ticket_{ticket}, place_{place} {}
  Claim(Ring* ring, detail::DrawnTicket drawn) noexcept
      : Claim{drawn ? ring : nullptr, drawn.ticket, drawn.place} {}

  Ring* ring_{};
  std::uint64_t ticket_{};
  std::size_t place_{};
};

/// One filled slot, or several adjacent ones. Move-only; empty (false) if there was none to have.
/// Gives its slots back, in order, when you release it or it dies.
template <class Ring> class Take {
 public:
  /// What travels with a place.
  using Slot = typename Ring::slot_type;

  Take() = default;
  /// Moves the take; `other` is then empty.
  Take(Take&& other) noexcept
      : ring_{other.ring_}, ticket_{other.ticket_}, place_{other.place_},
        size_{std::exchange(other.size_, 0)} {}
  /// Moves the take; releases what this one held.
  Take& operator=(Take&& other) noexcept {
    Take old{std::move(*this)};
    ring_ = other.ring_;
    ticket_ = other.ticket_;
    place_ = other.place_;
    size_ = std::exchange(other.size_, 0);
    return *this;
  }
  ~Take() { release(); }

  /// Returns whether it holds any slot.
  explicit operator bool() const noexcept { return size_ != 0; }
  /// Returns how many adjacent slots it holds.
  std::size_t size() const noexcept { return size_; }
  /// Returns the first slot's ticket; the others follow it.
  std::uint64_t ticket() const noexcept { return ticket_; }
  /// Returns which of the ring's slots the first is.
  std::size_t place() const noexcept { return place_; }
  /// Returns what travels with the place of its slot number `i`.
  Slot& slot(std::size_t i = 0) const noexcept { return ring_->slot(place_ + i); }
  /// Returns how its slot number `i` was filled.
  Fill fill(std::size_t i = 0) const noexcept { return ring_->fill(place_ + i); }

  /// Adds adjacent slots that are ready now, until it holds `most`; returns true if any came. Only
  /// the last slot may be partial. Never blocks.
  bool extend(std::size_t most) noexcept {
    const std::size_t before = size_;
    while (size_ != 0 && size_ < most &&
           ring_->take_after(ticket_ + size_ - 1, place_ + size_ - 1)) {
      ++size_;
    }
    return size_ != before;
  }

  /// Splits off the first `count` slots (at most size()) as a lease of their own.
  Take split(std::size_t count) noexcept {
    Take first{ring_, ticket_, place_, count};
    ticket_ += count;
    place_ += count;
    size_ -= count;
    return first;
  }

  /// Gives the slots back to the filling side; the lease is then empty. Never blocks.
  void release() noexcept {
    if (const std::size_t count = std::exchange(size_, 0)) {
      ring_->release(ticket_, place_, count);
    }
  }

 private:
  friend Ring;
  Take(Ring* ring, std::uint64_t ticket, std::size_t place, std::size_t size) noexcept
      : ring_{ring}, ticket_{ticket}, place_{place}, size_{size} {}
  Take(Ring* ring, detail::DrawnTicket drawn) noexcept
      : Take{ring, drawn.ticket, drawn.place, drawn ? 1U : 0U} {}

  Ring* ring_{};
  std::uint64_t ticket_{};
  std::size_t place_{};
  std::size_t size_{};
};

} // namespace penstock
