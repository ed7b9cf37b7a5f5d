// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/data/batch.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/detail/links/ring_memory.hpp>
#include <penstock/detail/measure/meter.hpp>
#include <penstock/detail/turns/ahead.hpp>
#include <penstock/detail/turns/flush.hpp>
#include <penstock/detail/turns/sequencer.hpp>
#include <penstock/order/detail/origins.hpp>
#include <penstock/order/detail/run_order.hpp>
#include <penstock/ring/ring.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace penstock::detail {

/// What travels with a slot of a host ring.
struct HostSlot {
  /// Head a slot before it is filled: one of `count` units that follow each other in the source,
  /// the first of which is unit `number` of the run; one that is made of another slot's units.
  /// Units that it gets no more than these are taken off `units` later.
  /// @{
  void begin(std::uint64_t number, std::uint64_t turn, std::uint64_t of_epoch,
             std::size_t count) noexcept {
    index = number;
    source.start(turn);
    epoch = of_epoch;
    units = count;
  }
  void begin(const HostSlot& given) noexcept {
    index = given.index;
    epoch = given.epoch;
    units = given.units;
    ends_epoch = given.ends_epoch;
  }
  /// @}

  std::uint64_t index{}; // of its first unit: with epochs, as if nothing was skipped, or as counted
  SourceNumbers source{}; // their turns, and that behind: see RunOrder
  bool ends_epoch{};
  std::uint64_t epoch{}; // of its units
  std::size_t units{};   // in it
};
// The ring's word and fill lie before the slot, in 8 bytes: one byte more, and a slot takes two
// cache lines, each of which a stage fetches from the processor of the stage before. For small
// slots nothing else costs as much: see bench/hop_bench.cpp.
static_assert(sizeof(HostSlot) + 8 <= cache_line);
using HostRing = Ring<HostSlot, RingPolicy, RingKind::with_many>;

/// What else travels with a slot, if the Reader has .ahead or .flush: beside the ring, so that
/// slots are small for all others.
struct Dues {
  std::uint64_t credits{};         // that the slot's units keep: see Ahead
  Flush::Clock::time_point read{}; // when the first of them was read: see Flush
};

/// Joins two stages in host memory: a ring and the memory of its slots.
struct HostLink {
  [[gnu::cold]] HostLink(std::size_t slots, RingMemory of, Side claimers, Side takers)
      : ring{slots, claimers, takers}, memory{std::move(of)} {}

  const Layout& layout() const noexcept { return memory.layout(); }

  /// Returns the batch in a slot; T is const to read it.
  template <class T, class Where>
  Batch<T, Where> batch(std::size_t place, const HostSlot& slot, std::uint64_t index) const {
    return Batch<T, Where>{
        memory.template view<std::remove_const_t<T>>(place, slot.units, index, shown(slot, 0))};
  }

  /// Returns the batch of a slot's units from `first` on, of a slot that is shown in parts. A
  /// Ragged column is one to fill only, when the units before it are filled.
  template <class T, class Where>
  Batch<T, Where> part(std::size_t place, const HostSlot& slot, std::uint64_t index,
                       std::size_t first, std::size_t units) const {
    return Batch<T, Where>{memory.template view_of_part<std::remove_const_t<T>>(
        place, first, units, index, shown(slot, first))};
  }
  /// Returns source_index() of a unit of a slot: none where records lie in the source in another
  /// order than here.
  std::uint64_t shown(const HostSlot& slot, std::size_t unit) const noexcept {
    return order->plain() && !outputs ? slot.source[unit] : no_source_index;
  }
  /// Returns which record a slot's unit is: among outputs, the number of that.
  Visit visit(const HostSlot& slot, std::size_t unit) const noexcept;
  /// Throws Error if nothing is left of a slot that is a batch, and other ranks have that batch.
  [[gnu::cold]] void check_left(std::size_t units, std::size_t of) const;
  /// Throws Error if no slot may end short before it is full.
  [[gnu::cold]] void check_cut() const;
  /// Returns the place in the run's order behind all that a slot was made of.
  std::uint64_t place_behind(const HostSlot& slot) const noexcept {
    const std::uint64_t behind = slot.source[slot.units];
    return outputs ? behind : order->place(slot.epoch, layout().in_records(behind));
  }
  /// Returns index() of a unit of a slot.
  std::uint64_t index_of(const HostSlot& slot, std::size_t unit) const {
    return slot.index + (counted_ || counts ? unit : slot.source[unit] - slot.source[0]);
  }

  /// Has slots keep their dues, to be called before the first run. `bound`, unless it is null,
  /// bounds how far the Reader is ahead.
  [[gnu::cold]] void keep_dues(Shared<Ahead<>> bound);
  /// Returns the dues of the slot in a place, which belong to whoever has the slot; null if none
  /// are kept.
  Dues* dues(std::size_t place) noexcept { return dues_.empty() ? nullptr : &dues_[place]; }
  /// Return one of them, or what changes nothing.
  /// @{
  std::uint64_t credits(std::size_t place) const noexcept {
    return dues_.empty() ? 0 : dues_[place].credits;
  }
  Flush::Clock::time_point was_read(std::size_t place) const noexcept {
    return dues_.empty() ? Flush::Clock::time_point{} : dues_[place].read;
  }
  /// @}

  /// Returns whether the slots of all tickets before this one are given back, and so is all that
  /// other stages have made of them in host memory. For what `.flush` hands on.
  bool is_idle(std::uint64_t ticket) noexcept;

  /// Has index() count the records delivered, if some may be skipped. To be called before the first
  /// run. The ring's takers then get a slot only after all slots before it are published.
  void count() { counted_ = Owned<Counted>{new Counted{ring.slots()}}; }
  /// Forgets the last run, before the next. No slot may be in use.
  [[gnu::cold]] void reset();
  /// Hands on the dues of a ticket's slot `given`, in the link before, of which a stage has made
  /// the slot `made`; gives back the credits of units that it left out. Call it before the slot is
  /// published.
  void hand_on(const HostLink& before, std::uint64_t ticket, const HostSlot& given,
               const HostSlot& made) noexcept {
    if (dues_.empty()) {
      return;
    }
    Dues& dues = dues_[ticket % ring.slots()];
    dues = before.dues_[ticket % before.ring.slots()];
    if (ahead && made.units != given.units) {
      const std::uint64_t left_out =
          credits_of(dues.credits, given.units, given.units - made.units);
      dues.credits -= left_out;
      ahead->give_back(left_out);
    }
  }
  /// Gives back the credits of a slot that the last stage is done with.
  void use_up(std::uint64_t credits) const noexcept {
    if (ahead) {
      ahead->give_back(credits);
    }
  }
  /// Returns how many bytes the units of a slot have.
  std::size_t bytes(std::size_t place, const HostSlot& slot) const noexcept {
    return slot.units != 0 ? memory.used(place, slot.units) : 0;
  }
  /// Books what a worker has filled a slot with, or that it left it empty. Inline, since a call
  /// costs a hop between two threads 4 % of its time.
  [[gnu::always_inline]] void book(std::size_t place, const HostSlot& slot,
                                   Meter& meter) const noexcept {
    meter.did(layout().whole_records(slot.source[0], slot.units), bytes(place, slot));
    meter.found_in_use(ring.was_in_use());
  }
  /// Publishes a slot whose head is complete. Never blocks.
  void publish(HostRing::Claim&& claim) noexcept {
    counted_ ? publish_in_turn(std::move(claim)) : publish_now(claim);
  }

  HostRing ring;
  RingMemory memory;
  Shared<Ahead<>> ahead; // null if nothing bounds how far the Reader is ahead
  Shared<RunOrder> order;
  bool has_turns{true};            // each unit is made of one of the source's
  bool outputs{};                  // of a Decoder of another number: they count themselves
  bool never_empty{};              // slots are batches, and ranks have equally many
  bool never_cut{};                // slots are batches, and are to be whole
  bool counts{};                   // index() counts units, since they come from a device
  Shared<HostLink> lent;           // whose memory it is, and others use it too; null: its own
  HostLink* onward{};              // what the stage behind it fills, in host memory too; or null
  Shared<HostRing::Doorbell> bell; // rung by the ring, if a node that leases may outlive fills it

 private:
  struct Counted {
    explicit Counted(std::size_t slots) : turns{slots}, held(slots) {}

    Sequencer<> turns;
    std::uint64_t units{};        // delivered so far: only the thread whose turn it is touches this
    Vector<HostRing::Claim> held; // by place: what is filled, until its turn
  };

  void publish_in_turn(HostRing::Claim&& claim) noexcept;
  // A slot is full only if its batch may go on behind it.
  void publish_now(HostRing::Claim& claim) const noexcept {
    const HostSlot& slot = claim.slot();
    const bool full = slot.units == layout().units && !slot.ends_epoch;
    claim.publish(slot.units == 0 ? Fill::none : full ? Fill::full : Fill::partial);
  }

  Owned<Counted> counted_;
  Vector<Dues> dues_; // by place
};

#if PENSTOCK_BODIES
PENSTOCK_INLINE Visit HostLink::visit(const HostSlot& slot, std::size_t unit) const noexcept {
  if (outputs) {
    return {slot.source[unit], slot.epoch, slot.source[unit]};
  }
  return order->visit(slot.epoch, layout().in_records(slot.source[unit]));
}

PENSTOCK_INLINE void HostLink::check_left(std::size_t units, std::size_t of) const {
  if (never_empty && units == 0 && of != 0) {
    throw_error<Error>({"penstock: all ", of,
                        " records of a batch were left out, and each of several ranks must have "
                        "equally many batches: mend what left them out, or take larger "
                        "batches."});
  }
}

PENSTOCK_INLINE void HostLink::check_cut() const {
  if (never_cut) {
    throw_error<Error>({"penstock: the values of a Ragged column fill a slot of ", layout().units,
                        " records before the last of them, and with several ranks, or "
                        ".drop_last, no batch may end there: give the Decoder more .value_bytes, "
                        "or the Reader a smaller .batch."});
  }
}

PENSTOCK_INLINE void HostLink::keep_dues(Shared<Ahead<>> bound) {
  ahead = std::move(bound);
  dues_ = Vector<Dues>(ring.slots());
}

PENSTOCK_INLINE bool HostLink::is_idle(std::uint64_t ticket) noexcept {
  // A stage publishes what it has made of a slot before it gives that back.
  return (ticket == 0 || ring.look_free(ticket - 1 + ring.slots())) &&
         (!onward || onward->is_idle(onward->ring.was_claimed()));
}

PENSTOCK_INLINE void HostLink::reset() {
  if (counted_) {
    for (HostRing::Claim& held : counted_->held) {
      held = {};
    }
    counted_->turns.reset();
    counted_->units = 0;
  }
  ring.reset();
}

PENSTOCK_NOINLINE void HostLink::publish_in_turn(HostRing::Claim&& claim) noexcept {
  Counted& counted = *counted_;
  const std::uint64_t ticket = claim.ticket();
  counted.held[claim.place()] = std::move(claim);
  counted.turns.bring(ticket, [this, &counted](std::size_t place) {
    HostRing::Claim& held = counted.held[place];
    HostSlot& slot = held.slot();
    slot.index = counted.units;
    counted.units += slot.units;
    publish_now(held);
  });
}
#endif

} // namespace penstock::detail
