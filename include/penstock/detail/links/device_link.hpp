// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/batch.hpp>
#include <penstock/detail/base/owned.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/detail/links/consumer_watch.hpp>
#include <penstock/detail/links/ring_memory.hpp>
#include <penstock/detail/links/uses_ahead.hpp>
#include <penstock/detail/turns/ahead.hpp>
#include <penstock/detail/turns/flush.hpp>
#include <penstock/device/fence.hpp>
#include <penstock/order/detail/run_order.hpp>
#include <penstock/order/detail/source_numbers.hpp>
#include <penstock/ring/ring.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace penstock::detail {

/// What travels with a place of a device ring: fences that tell when its bytes are there, and when
/// they were used.
template <AnyDevice D> struct DeviceSlot {
  std::uint64_t index{};  // of its first unit, as delivered
  std::uint64_t source{}; // that unit's turn: see RunOrder
  SourceNumbers turns{};  // of all of them, if some may have been left out between
  std::uint64_t until{};  // the turn behind that of the last record it is made of
  std::uint64_t epoch{};  // of its units
  std::size_t units{};
  std::size_t bytes{};
  std::uint64_t credits{};         // that its units keep: see Ahead
  Flush::Clock::time_point read{}; // when the first of them was: see Flush
  bool ends_epoch{};
  Fence<D> ready;
  Fence<D> free;
  Fence<D> also_free; // if a second stream used it

  /// Takes over what stays the same when a stage makes this batch of another.
  void follow(DeviceSlot& from) noexcept {
    turns.take(from.turns);
    until = from.until;
    epoch = from.epoch;
    ends_epoch = from.ends_epoch;
    credits = from.credits;
    read = from.read;
  }
  /// Takes over what stays the same when a stage also leaves the records where they are.
  void stay(const DeviceSlot& from) noexcept {
    index = from.index;
    source = from.source;
    units = from.units;
    bytes = from.bytes;
  }
  /// Notes that one stream alone used the batch.
  void used_until(const Fence<D>& fence) noexcept {
    free = fence;
    also_free = {};
  }
};
template <AnyDevice D>
using DeviceRing = Ring<DeviceSlot<D>, RingPolicy, RingKind::one_to_one>;

/// Joins the stage that fills batches in device memory with the stage that uses them: a ring of
/// whole batches. Leases keep it alive past its pipeline.
template <AnyDevice D> struct DeviceLink {
  using Doorbell = typename DeviceRing<D>::Doorbell;

  /// Allocates memory of its own. `rung` is the bell of the thread that fills the ring and watches
  /// fences.
  [[gnu::cold]] DeviceLink(D& on, std::size_t count, const Layout& layout,
                           Shared<Doorbell> rung = new_shared<Doorbell>(),
                           const char* stage = "AsyncCopier")
      : DeviceLink{on, count,
                   new_shared<const RingMemory>(RingMemory::in<Device>(&on, count, layout, stage)),
                   std::move(rung)} {}
  /// Shares the memory of another link, whose batches are changed in place.
  [[gnu::cold]] DeviceLink(D& on, std::size_t count, Shared<const RingMemory> of,
                           Shared<Doorbell> rung)
      : device{on}, bell{std::move(rung)}, ring{count, Side::one, Side::one},
        shared_memory{std::move(of)}, memory{*shared_memory}, consumer{on, 2 * count + 1},
        other_uses{on, std::min(count + 1, most_other_events), count + 1}, ready_fences(2 * count) {
    ring.on_release(bell.get());
  }
  DeviceLink(const DeviceLink&) = delete;
  DeviceLink& operator=(const DeviceLink&) = delete;
  [[gnu::cold]] ~DeviceLink() {
    // Leases given back late may still be in use. A lost device answers at once.
    try {
      consumer.sync();
      other_uses.sync();
    } catch (...) {
    }
  }

  const Layout& layout() const noexcept { return memory.layout(); }

  /// Returns the fence of the work that completes a batch. Kept for two laps: a place may be filled
  /// again, in stream order, while its last use is still open. Only the thread that fills calls it.
  Fence<D>& ready(std::uint64_t ticket) { return ready_fences[ticket % ready_fences.size()]; }
  /// Returns the batch in a place; T is const to read it.
  template <class T> Batch<T, Device> batch(std::size_t at, const DeviceSlot<D>& place) const {
    return Batch<T, Device>{memory.template view<std::remove_const_t<T>>(
        at, place.units, place.index, order->plain() && !outputs ? place.source : no_source_index)};
  }
  /// Returns the place in the run's order behind a batch.
  std::uint64_t place_behind(const DeviceSlot<D>& place) const noexcept {
    return outputs ? place.until : order->place(place.epoch, place.until);
  }
  /// Returns that position. Throws OptionError if there is none.
  [[gnu::cold]] Position position_behind(const DeviceSlot<D>& place) const {
    order->check_tells();
    return order->position(place_behind(place));
  }
  /// Returns which record the i-th of a batch is made of. Throws OptionError if it is not known.
  [[gnu::cold]] Visit visit(const DeviceSlot<D>& place, std::size_t i) const {
    if (!has_turns || outputs) {
      throw OptionError{"penstock: visit() does not know of which record this one is made, since a "
                        "stage gives another number of records than it takes: take a ps::Visit in "
                        "a Decoder."};
    }
    const std::uint64_t first = layout().in_records(place.source);
    const bool gaps = place.until - first != layout().in_records(place.units);
    return order->visit(place.epoch, gaps ? place.turns[i] : first + i);
  }

  /// Has the uses by the last stage, which takes from here, give their credits back.
  [[gnu::cold]] void end_ahead() {
    uses_ahead = Owned<UsesAhead<D>>{ahead ? new UsesAhead<D>{*ahead, ring.slots() + 1} : nullptr};
  }
  /// Looks at what the last stage does; returns true while only a fence will tell what comes next.
  /// Only the device thread calls it.
  bool look() {
    const bool open =
        consumer.look([this](std::uint64_t ticket) { return ready(ticket).reached(); });
    return (uses_ahead && uses_ahead->look(consumer.uses(), other_uses)) || open;
  }
  /// Notes that a use, whose fence this is, ends `credits`, before its places are given back.
  void used(const Fence<D>& use, std::uint64_t credits) noexcept {
    if (uses_ahead) {
      uses_ahead->note(use.serial, credits, other_uses);
    }
  }
  /// Forgets what the last stage did in the last run, before the next.
  [[gnu::cold]] void forget_uses() noexcept {
    consumer.reset();
    if (uses_ahead) {
      uses_ahead->reset();
    }
  }

  D& device;
  const Shared<Doorbell> bell;
  DeviceRing<D> ring;
  const Shared<const RingMemory> shared_memory;
  const RingMemory& memory;
  ConsumerWatch<D> consumer;
  Timeline<D> other_uses; // by second streams
  Vector<Fence<D>> ready_fences;
  Shared<Ahead<>> ahead; // null if nothing bounds how far the Reader is ahead
  Shared<RunOrder> order;
  bool has_turns{true};           // each unit is made of one of the source's
  bool outputs{};                 // of a Decoder of another number: they count themselves
  Owned<UsesAhead<D>> uses_ahead; // null too if other stages follow
};

} // namespace penstock::detail
