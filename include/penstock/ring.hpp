// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/detail/bell.hpp>
#include <penstock/detail/config.hpp>
#include <penstock/detail/ring_cells.hpp>
#include <penstock/detail/ring_word.hpp>
#include <penstock/error.hpp>
#include <penstock/parking.hpp>
#include <penstock/ring_lease.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

namespace penstock {

/// What a ring is made with: where its atomics come from, how its threads wait, and how many bits
/// of a slot's word count laps (few in tests, so that they wrap).
struct RingPolicy {
  using Atomics = StdAtomics;    ///< Where its atomics come from.
  using Parking = SpinThenFutex; ///< How its threads wait.
  /// Bits of a slot's word that count laps.
  static constexpr unsigned lap_bits = detail::RingWord<>::most_lap_bits;
};

/// How many threads a side has; `one` saves an atomic read-modify-write a slot.
enum class Side : bool { one, many };

/// Whether a taker passes over empty slots, or is given them too, to keep step with another ring.
enum class Empties : bool { pass_over, give };

/// N slots, filled and emptied in place and in order, without locks, by any number of threads on
/// either side. Order is fixed early: who claims takes a ticket, ticket t is slot t mod N in lap
/// t / N, and takers are given slots in the order of their tickets however long each took to fill.
///
/// A ring moves places, not bytes: `Slot` is what travels with a place (a count, a fence), written
/// through a lease. All members but the constructor, on_*() and reset() may be called from any
/// thread of the side they belong to. A thread that dies holding a claim holds back all later
/// slots.
template <class Slot, class Policy = RingPolicy> class Ring {
  using Atomics = typename Policy::Atomics;
  template <class T> using Atomic = typename Atomics::template Atomic<T>;

 public:
  using slot_type = Slot;              ///< What travels with a place.
  using Claim = penstock::Claim<Ring>; ///< A slot to fill.
  using Take = penstock::Take<Ring>;   ///< Filled slots.
  using Bell = detail::Bell<Policy>;   ///< Wakes who watches several rings.

  /// `slots` >= 2, else OptionError. Nothing is allocated later.
  explicit Ring(std::size_t slots, Side claimers = Side::many, Side takers = Side::many)
      : cells_{checked(slots)}, claimers_{claimers}, takers_{takers} {}
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  /// The next slot to fill. Blocks until it is free; the claim is empty (false) when the ring has
  /// ended, stopped or failed, which state() tells apart.
  Claim claim() {
    if (claimers_ == Side::many) {
      return cells_.halted() ? Claim{} : claimed(tail_.fetch_add(1, Atomics::relaxed));
    }
    Claim claim = claimed(tail_.load(Atomics::relaxed));
    if (claim) {
      tail_.store(claim.ticket() + 1, Atomics::relaxed);
    }
    return claim;
  }

  /// The same, but empty at once where claim() would block. No ticket is lost.
  Claim try_claim() {
    for (;;) {
      const std::uint64_t ticket = tail_.load(Atomics::relaxed);
      if (cells_.over(ticket)) {
        return {};
      }
      if (!cells_.is_free(ticket)) {
        if (tail_.load(Atomics::relaxed) == ticket) {
          return {};
        }
      } else if (advance(tail_, claimers_, ticket)) {
        return {this, ticket};
      }
    }
  }

  /// The slot of a ticket that came from another ring: slot t in, slot t out. Every ticket is
  /// claimed once. Blocks as claim() does. Not to be mixed with claim().
  Claim claim_at(std::uint64_t ticket) {
    tail_.fetch_add(1, Atomics::relaxed);
    return claimed(ticket);
  }

  /// The oldest slot not taken. Blocks until it is published; empty (false) when the ring has ended
  /// and all was taken, or has stopped or failed.
  Take take(Empties empties = Empties::pass_over) {
    while (!cells_.halted()) {
      const std::uint64_t ticket = takers_ == Side::many ? head_.fetch_add(1, Atomics::relaxed)
                                                         : head_.load(Atomics::relaxed);
      if (cells_.over(ticket) || !cells_.await_filled(ticket)) {
        break;
      }
      if (takers_ == Side::one) {
        head_.store(ticket + 1, Atomics::relaxed);
      }
      if (Take taken{this, ticket, 1}; wanted(taken, empties)) {
        return taken;
      }
    }
    return {};
  }

  /// Up to `most` adjacent slots, if they are ready now: they follow each other in the ring without
  /// wrapping, each full but the last, which may be partial. Never blocks, never loses a ticket.
  Take try_take(std::size_t most = 1, Empties empties = Empties::pass_over) {
    for (;;) {
      const std::uint64_t ticket = head_.load(Atomics::relaxed);
      if (cells_.over(ticket)) {
        return {};
      }
      if (!cells_.is_filled(ticket)) {
        if (head_.load(Atomics::relaxed) == ticket) {
          return {};
        }
      } else if (advance(head_, takers_, ticket)) {
        if (Take taken{this, ticket, 1}; wanted(taken, empties)) {
          taken.extend(most);
          return taken;
        }
      }
    }
  }

  /// No ticket from `ticket` on will be published: takers are given what comes before it, then
  /// none. The first end of a run counts, whoever finds it; all tickets before it must be
  /// published.
  void end_at(std::uint64_t ticket) noexcept {
    if (cells_.end_at(ticket)) {
      ring_bells();
    }
  }
  /// Ends at what has been claimed so far: for one claimer, when it is done.
  void end() noexcept { end_at(was_claimed()); }
  /// Closes the ring to both sides: who waits returns, who comes is refused. Leases stay good.
  void stop() noexcept { halt(Flow::stopped); }
  /// The same, as an error. What the error is, the ring does not know.
  void fail() noexcept { halt(Flow::failed); }

  Flow state() const noexcept { return cells_.state(); } ///< Never blocks.
  /// Whether the ring has ended and all of it was taken.
  bool exhausted() const noexcept {
    return state() == Flow::ended && cells_.over(head_.load(Atomics::relaxed));
  }
  /// The first ticket that will not be published, once state() is `ended`.
  std::uint64_t end_ticket() const noexcept { return cells_.end_ticket(); }
  std::size_t slots() const noexcept { return cells_.slots(); } ///< N, as given.
  /// Tickets taken on the two sides so far: past tense, since both move while one looks.
  /// @{
  std::uint64_t was_claimed() const noexcept { return tail_.load(Atomics::relaxed); }
  std::uint64_t was_taken() const noexcept { return head_.load(Atomics::relaxed); }
  /// @}
  /// Slots claimed and not taken: those being filled and those ready.
  std::size_t was_in_use() const noexcept {
    // Takers that wait hold tickets ahead of those claimed.
    const std::uint64_t taken = was_taken();
    const std::uint64_t claimed = was_claimed();
    return claimed <= taken ? 0 : std::min<std::uint64_t>(claimed - taken, slots());
  }

  /// Rung after each publish or release, and each change of state. To be set before the first
  /// claim.
  /// @{
  void on_publish(Bell* bell) noexcept { publish_bell_ = bell; }
  void on_release(Bell* bell) noexcept { release_bell_ = bell; }
  /// @}

  /// Back to the first ticket, all slots free. No lease may be out, no other thread inside.
  void reset() noexcept {
    cells_.reset();
    tail_.store(0, Atomics::relaxed);
    head_.store(0, Atomics::relaxed);
  }

 private:
  friend Claim;
  friend Take;

  // What leases call.
  std::size_t place(std::uint64_t ticket) const noexcept { return cells_.place(ticket); }
  Slot& slot(std::uint64_t ticket) const noexcept { return cells_.slot(ticket); }
  Fill fill(std::uint64_t ticket) const noexcept { return Fill(cells_.look(ticket) & state_mask); }
  void publish(std::uint64_t ticket, Fill fill) noexcept {
    cells_.publish(ticket, static_cast<std::uint32_t>(fill), publish_bell_);
  }
  void release(std::uint64_t ticket) noexcept { cells_.release(ticket, release_bell_); }
  bool take_after(std::uint64_t ticket) noexcept {
    const std::uint64_t next = ticket + 1;
    return fill(ticket) == Fill::full && cells_.place(next) != 0 && was_taken() == next &&
           !cells_.over(next) && cells_.is_filled(next) && fill(next) != Fill::none &&
           advance(head_, takers_, next);
  }

  Claim claimed(std::uint64_t ticket) {
    return !cells_.over(ticket) && cells_.await_free(ticket) ? Claim{this, ticket} : Claim{};
  }
  static std::size_t checked(std::size_t slots) {
    if (slots < 2) {
      throw OptionError{"penstock: a ring of " + std::to_string(slots) +
                        " slots cannot overlap anything: give it a depth of at least 2."};
    }
    return slots;
  }
  static bool wanted(const Take& taken, Empties empties) noexcept {
    return empties == Empties::give || taken.fill() != Fill::none;
  }
  static bool advance(Atomic<std::uint64_t>& tickets, Side side, std::uint64_t ticket) noexcept {
    if (side == Side::one) {
      tickets.store(ticket + 1, Atomics::relaxed);
      return true;
    }
    return tickets.compare_exchange_strong(ticket, ticket + 1, Atomics::relaxed, Atomics::relaxed);
  }
  void halt(Flow flow) noexcept {
    if (cells_.halt(flow)) {
      ring_bells();
    }
  }
  void ring_bells() noexcept {
    for (Bell* bell : {publish_bell_, release_bell_}) {
      if (bell) {
        bell->ring();
      }
    }
  }

  static constexpr std::uint32_t state_mask = detail::RingWord<Policy::lap_bits>::state_mask;

  detail::RingCells<Slot, Policy> cells_;
  const Side claimers_;
  const Side takers_;
  Bell* publish_bell_{};
  Bell* release_bell_{};
  alignas(detail::cache_line) Atomic<std::uint64_t> tail_{0};
  alignas(detail::cache_line) Atomic<std::uint64_t> head_{0};
};

} // namespace penstock
