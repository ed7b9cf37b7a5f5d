// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/config.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/error.hpp>
#include <penstock/parking.hpp>
#include <penstock/ring/detail/mpmc_ring.hpp>
#include <penstock/ring/detail/spsc_ring.hpp>
#include <penstock/ring/detail/state.hpp>
#include <penstock/ring/detail/tickets.hpp>
#include <penstock/ring/detail/wait_word.hpp>
#include <penstock/ring/ring_lease.hpp>
#include <penstock/ring/ring_types.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace penstock::detail {

/// Wakes one thread that watches several rings; each of them rings it after a change. The watcher
/// reads count(), looks at its rings, and then waits for another count.
template <class Policy> class Doorbell {
  using Atomics = typename Policy::Atomics;
  using Parking = typename Policy::Parking;

 public:
  /// Counts a change, and wakes the watcher if it sleeps. Any thread; never blocks.
  void ring() noexcept {
    // Pairs with count() and wait(): who sees the ring sees what was done before it.
    const std::uint32_t before = word_.fetch_add(one, Atomics::release);
    if constexpr (Parking::sleeps) {
      if (before & sleeper) {
        word_.fetch_and(~sleeper, Atomics::relaxed);
        Parking::wake(word_);
      }
    }
  }

  /// Returns the count of changes: to be read before looking at the rings.
  std::uint32_t count() const noexcept {
    return word_.load(Atomics::acquire) & ~sleeper; // pairs with ring()
  }

  /// Returns at once if the bell has rung since `count` was read, else when it rings or `limit` has
  /// passed (negative: no limit). One thread.
  void wait(std::uint32_t count, std::chrono::nanoseconds limit) noexcept {
    if constexpr (Parking::sleeps) {
      std::uint32_t seen = count;
      // Relaxed: it only says that a thread sleeps. The next count() shows what moved the count on.
      if (!word_.compare_exchange_strong(seen, count | sleeper, Atomics::relaxed,
                                         Atomics::relaxed)) {
        return;
      }
      Parking::sleep(word_, count | sleeper, limit);
      word_.fetch_and(~sleeper, Atomics::relaxed);
    } else {
      Parking::pause();
    }
  }

 private:
  static constexpr std::uint32_t sleeper = 1;
  static constexpr std::uint32_t one = 2;

  alignas(cache_line) typename Atomics::template Atomic<std::uint32_t> word_{0};
};

/// A ring's slots, in one of two forms: for one thread on each side, or for many on one of them. A
/// form that the ring is known never to have costs nothing.
template <class Slot, class Policy, RingKind Kind> class RingSlots {
 public:
  static constexpr bool maybe_one = Kind != RingKind::with_many; // to one
  static constexpr bool maybe_many = Kind != RingKind::one_to_one;

  RingSlots(std::size_t slots, Side claimers, Side takers)
      : one_to_one_{!maybe_many || (maybe_one && claimers == Side::one && takers == Side::one)},
        spsc_{one_to_one_ ? slots : 0}, mpmc_{one_to_one_ ? 0 : slots, claimers, takers} {}

  /// Calls f with the slots, in the form that they have.
  /// @{
  template <class F> decltype(auto) with(F f) { return with(*this, f); }
  template <class F> decltype(auto) with(F f) const { return with(*this, f); }
  /// @}
  /// Return the slots in one form: that for one to one has no slots if the ring has many, and in
  /// the other form only many may be asked for.
  /// @{
  SpscRing<Slot, Policy>& one() noexcept { return spsc_; }
  MpmcRing<Slot, Policy>& many() noexcept { return mpmc_; }
  /// @}

 private:
  struct Absent {
    explicit Absent(std::size_t /*slots*/, Side = {}, Side = {}) noexcept {}
  };

  template <class Self, class F> static decltype(auto) with(Self& self, F& f) {
    if constexpr (!maybe_many) {
      return f(self.spsc_);
    } else if constexpr (!maybe_one) {
      return f(self.mpmc_);
    } else {
      return self.one_to_one_ ? f(self.spsc_) : f(self.mpmc_);
    }
  }

  const bool one_to_one_;
  [[no_unique_address]] std::conditional_t<maybe_one, SpscRing<Slot, Policy>, Absent> spsc_;
  [[no_unique_address]] std::conditional_t<maybe_many, MpmcRing<Slot, Policy>, Absent> mpmc_;
};

} // namespace penstock::detail

namespace penstock {

/// What a ring is made with: its atomics, how its threads wait, and how many bits of a slot's word
/// count laps (few in tests, so that they wrap).
struct RingPolicy {
  using Atomics = StdAtomics;    ///< Where its atomics come from.
  using Parking = SpinThenFutex; ///< How its threads wait.
  /// Bits of a slot's word that count laps.
  static constexpr unsigned lap_bits = detail::RingWord<>::most_lap_bits;
};

/// N slots, filled and emptied in place and in order, without locks, by any number of threads on
/// either side. Order is fixed early: a thread that claims takes a ticket, ticket t is slot t mod N
/// in lap t / N, and takers get slots in the order of their tickets however long each took to fill.
///
/// A ring moves places, not bytes: `Slot` is what travels with a place (a count, a fence), written
/// through a lease. Any thread of a side may call that side's members, except the constructor,
/// on_*() and reset(). On a side of one thread, that thread also gives the leases back, or a thread
/// that it has handed over to. A thread that dies holding a claim holds back all later slots.
template <class Slot, class Policy = RingPolicy, RingKind Kind = RingKind::any> class Ring {
 public:
  using slot_type = Slot;                    ///< What travels with a place.
  using Claim = penstock::Claim<Ring>;       ///< A slot to fill.
  using Take = penstock::Take<Ring>;         ///< Filled slots.
  using Doorbell = detail::Doorbell<Policy>; ///< Wakes a thread that watches several rings.

  /// Makes a ring of `slots` slots. Throws OptionError for fewer than 2. Nothing is allocated
  /// later.
  explicit Ring(std::size_t slots, Side claimers = Side::many, Side takers = Side::many)
      : slots_{checked(slots)}, ring_{slots, claimers, takers} {}
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  /// Claims the next slot to fill. Blocks until it is free; the claim is empty (false) when the
  /// ring has ended, stopped or failed, which state() tells apart.
  Claim claim() {
    if constexpr (Slots::maybe_one) {
      if (const std::uint64_t ticket = ring_.one().was_claimed();
          ring_.one().knows_free(state_, ticket)) [[likely]] {
        return {this, ticket, ring_.one().draw_free(ticket)};
      }
    }
    return {this, await_claim()};
  }

  /// Claims the next slot to fill; the claim is empty where claim() would block. Loses no ticket.
  Claim try_claim() {
    return {this, ring_.with([this](auto& slots) { return slots.try_claim(state_); })};
  }

  /// Claims the slot of a ticket that came from another ring: slot t in, slot t out. Claim every
  /// ticket once. Blocks as claim() does; where takers are one thread, until the slots before it
  /// are free as well. Do not mix it with claim().
  Claim claim_at(std::uint64_t ticket) {
    return {this, ring_.with([&](auto& slots) { return slots.claim_at(state_, ticket); })};
  }

  /// For a slot that several threads fill or use together, in a ring with a side of many: block
  /// until the slot of a ticket is free, or filled, and return it; null if it never will be. They
  /// draw no ticket: then one of the threads calls claim_at(), or take_at() where nobody calls
  /// take().
  /// @{
  Slot* await_free(std::uint64_t ticket) { return ring_.many().await_free(state_, ticket); }
  Slot* await_filled(std::uint64_t ticket) { return ring_.many().await_filled(state_, ticket); }
  Take take_at(std::uint64_t ticket) { return {this, ring_.many().take_at(state_, ticket)}; }
  /// @}
  /// Return whether those two would return the slot of a ticket at once. Never block.
  /// @{
  bool is_free(std::uint64_t ticket) { return ring_.many().is_free(state_, ticket); }
  bool is_filled(std::uint64_t ticket) { return ring_.many().is_filled(state_, ticket); }
  /// @}

  /// Returns the slot of a ticket that is not claimed yet, if it is free already, else null. To a
  /// thread that claims it shows what its last use has left there. Never blocks.
  Slot* look_free(std::uint64_t ticket) {
    return ring_.with([&](auto& slots) { return slots.look_free(ticket); });
  }

  /// Takes the oldest slot not taken. Blocks until it is published; the take is empty (false) when
  /// the ring has ended and all was taken, or has stopped or failed.
  Take take(Empties empties = Empties::pass_over) {
    if constexpr (Slots::maybe_one) {
      if (const std::uint64_t ticket = ring_.one().was_taken();
          ring_.one().knows_filled(state_, ticket)) [[likely]] {
        const std::size_t place = ring_.one().draw_filled(ticket);
        if (empties == Empties::give || ring_.one().fill(place) != Fill::none) [[likely]] {
          return {this, ticket, place, 1};
        }
        release(ticket, place, 1);
      }
    }
    return {this, await_take(empties)};
  }

  /// Takes up to `most` adjacent slots, if they are ready now: they follow each other in the ring
  /// without wrapping, each full but the last, which may be partial. Never blocks, never loses a
  /// ticket.
  Take try_take(std::size_t most = 1, Empties empties = Empties::pass_over) {
    for (;;) {
      Take taken{this, ring_.with([this](auto& slots) { return slots.try_take(state_); })};
      if (!taken || wanted(taken.place(), empties)) {
        taken.extend(most);
        return taken;
      }
    }
  }

  /// Ends the ring: no ticket from `ticket` on will be published. Takers get what comes before it,
  /// then nothing. The first end of a run counts, whichever thread sets it; all tickets before it
  /// must be published.
  void end_at(std::uint64_t ticket) noexcept {
    if (state_.set_end(ticket)) {
      announce(detail::RingWord<Policy::lap_bits>::ended);
    }
  }
  /// Ends the ring at what has been claimed so far: for one claimer, when it is done.
  void end() noexcept { end_at(was_claimed()); }
  /// Closes the ring to both sides: threads that wait return, later calls get nothing. Leases stay
  /// valid.
  void stop() noexcept { halt(Flow::stopped); }
  /// Stops the ring as stop() does, for an error, which the ring itself does not know.
  void fail() noexcept { halt(Flow::failed); }

  Flow state() const noexcept { return state_.state(); } ///< Returns the state. Never blocks.
  /// Returns whether the ring has ended and all of it was taken.
  bool exhausted() const noexcept { return state() == Flow::ended && state_.over(was_taken()); }
  /// Returns the first ticket that will not be published, once state() is `ended`.
  std::uint64_t end_ticket() const noexcept { return state_.end_ticket(); }
  std::size_t slots() const noexcept { return slots_; } ///< Returns N, as given.
  /// Return the tickets drawn so far on each side: past tense, since both move while you look.
  /// @{
  std::uint64_t was_claimed() const noexcept {
    return ring_.with([](auto& slots) { return slots.was_claimed(); });
  }
  std::uint64_t was_taken() const noexcept {
    return ring_.with([](auto& slots) { return slots.was_taken(); });
  }
  /// @}
  /// Returns how many slots are claimed and not taken: those being filled and those ready.
  std::size_t was_in_use() const noexcept {
    // Takers that wait hold tickets ahead of the claimed ones.
    const std::uint64_t taken = was_taken();
    const std::uint64_t claimed = was_claimed();
    return claimed <= taken ? 0 : std::min<std::uint64_t>(claimed - taken, slots());
  }

  /// Set the bell to ring after each publish or release, and each change of state. Call them before
  /// the first claim.
  /// @{
  void on_publish(Doorbell* bell) noexcept { publish_bell_ = bell; }
  void on_release(Doorbell* bell) noexcept { release_bell_ = bell; }
  /// @}

  /// Goes back to the first ticket, all slots free. No lease may be out, no other thread inside.
  void reset() noexcept {
    ring_.with([](auto& slots) { slots.reset(); });
    state_.reopen();
  }

 private:
  using Drawn = detail::DrawnTicket;
  using Slots = detail::RingSlots<Slot, Policy, Kind>;
  friend Claim;
  friend Take;

  // The slow paths of claim() and take(). Neither gives a lease, which would then have to lie in
  // memory.
  [[gnu::noinline]] Drawn await_claim() noexcept {
    return ring_.with([this](auto& slots) { return slots.claim(state_); });
  }
  [[gnu::noinline]] Drawn await_take(Empties empties) noexcept {
    for (;;) {
      const Drawn drawn = ring_.with([this](auto& slots) { return slots.take(state_); });
      if (!drawn || wanted(drawn.place, empties)) {
        return drawn;
      }
      release(drawn.ticket, drawn.place, 1);
    }
  }

  // For leases to call.
  Slot& slot(std::size_t place) noexcept {
    return *ring_.with([place](auto& slots) { return &slots.slot(place); });
  }
  Fill fill(std::size_t place) const noexcept {
    return ring_.with([place](auto& slots) { return slots.fill(place); });
  }
  void publish(std::uint64_t ticket, std::size_t place, Fill fill) noexcept {
    ring_.with([&](auto& slots) { slots.publish(ticket, place, fill); });
    ring_bell(publish_bell_);
  }
  void release(std::uint64_t ticket, std::size_t place, std::size_t count) noexcept {
    ring_.with([&](auto& slots) { slots.release(ticket, place, count); });
    ring_bell(release_bell_);
  }
  bool take_after(std::uint64_t ticket, std::size_t place) noexcept {
    if (place + 1 == slots_ || fill(place) != Fill::full) {
      return false;
    }
    return ring_.with(
        [&](auto& slots) { return slots.try_take_at(state_, ticket + 1, place + 1); });
  }

  static void ring_bell(Doorbell* bell) noexcept {
    if (bell) [[unlikely]] {
      bell->ring();
    }
  }
  static std::size_t checked(std::size_t slots) {
    if (slots < 2) {
      detail::throw_error<OptionError>(
          {"penstock: a ring of ", slots,
           " slots cannot overlap anything: give it a depth of at least 2."});
    }
    return slots;
  }
  bool wanted(std::size_t place, Empties empties) const noexcept {
    return empties == Empties::give || fill(place) != Fill::none;
  }
  void halt(Flow flow) noexcept {
    if (state_.set_halted(flow)) {
      announce(detail::RingWord<Policy::lap_bits>::halted);
    }
  }
  void announce(std::uint32_t bit) noexcept {
    ring_.with([bit](auto& slots) { slots.announce(bit); });
    ring_bell(publish_bell_);
    ring_bell(release_bell_);
  }

  // Both sides read these, and hardly any thread writes them.
  detail::RingState<Policy> state_;
  const std::size_t slots_;
  Doorbell* publish_bell_{};
  Doorbell* release_bell_{};
  Slots ring_;
};

} // namespace penstock
