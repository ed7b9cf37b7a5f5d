// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/batch.hpp>
#include <penstock/detail/area.hpp>
#include <penstock/detail/grain.hpp>
#include <penstock/detail/meter.hpp>
#include <penstock/detail/source_numbers.hpp>
#include <penstock/detail/turns.hpp>
#include <penstock/fence.hpp>
#include <penstock/ring.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace penstock::detail {

/// What travels with a slot of a host ring.
struct HostSlot {
  std::uint64_t index{}; // of its first unit, with epochs, as if nothing was skipped, or as counted
  SourceNumbers source{}; // of its units
  std::size_t records{};  // units in it
  std::size_t bytes{};
  bool ends_epoch{};
};
using HostRing = Ring<HostSlot>;

/// The memory of a ring's places: each array of the schema is one area through the whole ring,
/// place k's part directly before place k+1's; each begins at a multiple of 256 bytes.
class Places {
 public:
  template <class Where, class D>
  static Places in(D* device, std::size_t places, Grain grain, const char* stage) {
    Places made;
    std::size_t bytes = 0;
    for (const Array& part : grain.parts) {
      made.starts_.push_back(bytes);
      const std::size_t more = checked_bytes(places, part.place, stage);
      bytes = checked_bytes(bytes + more + 255, 1, stage) / 256 * 256;
    }
    made.grain_ = std::move(grain);
    // The last array needs no rounding up, which an exact number of pages would feel.
    bytes = made.starts_.back() + places * made.grain_.parts.back().place;
    made.area_ = Area::in<Where>(device, bytes);
    return made;
  }

  const Grain& grain() const noexcept { return grain_; }
  std::byte* data(std::size_t place, std::size_t part = 0) const noexcept {
    return area_.data() + starts_[part] + place * grain_.parts[part].place;
  }
  /// Values of a Ragged column in the first `records` records of a place in host memory.
  std::size_t values(std::size_t place, std::size_t offsets_part,
                     std::size_t records) const noexcept {
    std::int64_t end = 0;
    std::memcpy(&end, data(place, offsets_part) + records * sizeof end, sizeof end);
    return static_cast<std::size_t>(end);
  }
  /// Bytes in array `part` of the first `records` records of a place in host memory.
  std::size_t used(std::size_t place, std::size_t part, std::size_t records) const noexcept {
    const Array& p = grain_.parts[part];
    return p.each * (p.kind == Array::records   ? records
                     : p.kind == Array::offsets ? records + 1
                                                : values(place, part - 1, records));
  }
  std::size_t used(std::size_t place, std::size_t records) const noexcept {
    std::size_t bytes = 0;
    for (std::size_t part = 0; part < grain_.parts.size(); ++part) {
      bytes += used(place, part, records);
    }
    return bytes;
  }

  template <class S>
  BatchView<S> view(std::size_t place, std::size_t units, std::uint64_t index,
                    std::uint64_t source) const noexcept {
    BatchView<S> view;
    for (std::size_t part = 0; part < schema_traits<S>::parts; ++part) {
      view.parts[part] = data(place, part);
    }
    std::copy(grain_.sizes.begin(), grain_.sizes.end(), view.sizes);
    view.size = units / grain_.units;
    view.index = index / grain_.units;
    view.source_index = source / grain_.units;
    view.alignment = grain_.alignment();
    return view;
  }

 private:
  Grain grain_;
  std::vector<std::size_t> starts_;
  Area area_;
};

/// The join between two stages in host memory: a ring and the memory of its slots.
struct HostLink {
  HostLink(std::size_t slots, Places memory, Side claimers, Side takers)
      : ring{slots, claimers, takers}, places{std::move(memory)} {}

  const Grain& grain() const noexcept { return places.grain(); }

  /// The batch in a slot; T is const to read it.
  template <class T, class Where>
  Batch<T, Where> batch(std::size_t place, const HostSlot& slot, std::uint64_t index) const {
    return Batch<T, Where>{
        places.template view<std::remove_const_t<T>>(place, slot.records, index, slot.source[0])};
  }

  /// Before the first run: has index() count what is delivered, where records may be left out. A
  /// slot then goes to the ring's takers when those before it are published too.
  void count() { counted_ = std::make_unique<Counted>(ring.slots()); }
  /// Before a run. No slot is in use.
  void reset() {
    if (counted_) {
      for (Counted::Held& held : counted_->held) {
        held.claim = {};
      }
      counted_->turns.reset();
      counted_->units = 0;
    }
    ring.reset();
  }
  /// What a worker does with a slot that he has filled, or left empty. Never blocks.
  void publish(HostRing::Claim&& claim, Fill fill) noexcept {
    if (!counted_) {
      claim.publish(fill);
      return;
    }
    Counted& counted = *counted_;
    const std::uint64_t ticket = claim.ticket();
    Counted::Held& mine = counted.held[claim.place()];
    mine.claim = std::move(claim);
    mine.fill = fill;
    counted.turns.bring(ticket, [&counted](std::size_t place) {
      Counted::Held& held = counted.held[place];
      HostSlot& slot = held.claim.slot();
      slot.index = counted.units;
      counted.units += slot.records;
      held.claim.publish(held.fill);
    });
  }

  HostRing ring;
  Places places;
  std::shared_ptr<HostRing::Bell> bell; // that the ring rings, where a device thread fills it

 private:
  struct Counted {
    struct Held {
      HostRing::Claim claim;
      Fill fill{};
    };
    explicit Counted(std::size_t slots) : turns{slots}, held(slots) {}

    Turns<> turns;
    std::uint64_t units{};  // delivered so far: whose turn it is, his
    std::vector<Held> held; // by place: what is filled, until its turn
  };

  std::unique_ptr<Counted> counted_;
};

/// What travels with a place of a device ring: when its bytes are there, and when they were used.
template <AnyDevice D> struct Place {
  std::uint64_t index{};  // of its first unit, as delivered
  std::uint64_t source{}; // in the source
  std::size_t records{};  // units
  std::size_t bytes{};
  Fence<D> ready;
  Fence<D> free;
  Fence<D> also_free; // where a second stream used it
};
template <AnyDevice D> using PlaceRing = Ring<Place<D>>;

/// The join between who fills batches in device memory and who uses them: a whole number of
/// batches. Leases keep it alive past its pipeline.
template <AnyDevice D> struct DeviceLink {
  using Bell = typename PlaceRing<D>::Bell;

  /// Of memory of its own. `rung` is the bell of the thread that fills it and watches fences.
  DeviceLink(D& on, std::size_t count, Grain grain,
             std::shared_ptr<Bell> rung = std::make_shared<Bell>(),
             const char* stage = "AsyncCopier")
      : DeviceLink{
            on, count,
            std::make_shared<const Places>(Places::in<Device>(&on, count, std::move(grain), stage)),
            std::move(rung)} {}
  /// Of the same memory as another, whose batches are changed in place.
  DeviceLink(D& on, std::size_t count, std::shared_ptr<const Places> of, std::shared_ptr<Bell> rung)
      : device{on}, bell{std::move(rung)}, ring{count, Side::one, Side::one}, memory{std::move(of)},
        places{*memory}, uses{on, count + 1}, other_uses{on, count + 1}, ready_fences(2 * count),
        used_tickets(count + 1), used_indices(count + 1) {
    ring.on_release(bell.get());
  }
  DeviceLink(const DeviceLink&) = delete;
  DeviceLink& operator=(const DeviceLink&) = delete;
  ~DeviceLink() {
    // Leases given back late may still be in use. A device that was lost answers at once.
    try {
      uses.sync();
      other_uses.sync();
    } catch (...) {
    }
  }

  const Grain& grain() const noexcept { return places.grain(); }

  /// What completes a batch. Kept for two laps: a place may be filled again, in stream order, while
  /// its last use is still open. Of the thread that fills.
  Fence<D>& ready(std::uint64_t ticket) { return ready_fences[ticket % ready_fences.size()]; }
  /// The batch whose use a serial of `uses` ends: batches may be given back in any order.
  StdAtomics::Atomic<std::uint64_t>& used_ticket(std::uint64_t serial) {
    return used_tickets[serial % used_tickets.size()];
  }

  /// The same for its index().
  StdAtomics::Atomic<std::uint64_t>& used_index(std::uint64_t serial) {
    return used_indices[serial % used_indices.size()];
  }

  /// The batch in a place; T is const to read it.
  template <class T> Batch<T, Device> batch(std::size_t at, const Place<D>& place) const {
    return Batch<T, Device>{
        places.template view<std::remove_const_t<T>>(at, place.records, place.index, place.source)};
  }

  D& device;
  const std::shared_ptr<Bell> bell;
  PlaceRing<D> ring;
  const std::shared_ptr<const Places> memory;
  const Places& places;
  Timeline<D> uses;
  Timeline<D> other_uses;
  std::vector<Fence<D>> ready_fences;
  std::vector<StdAtomics::Atomic<std::uint64_t>> used_tickets;
  std::vector<StdAtomics::Atomic<std::uint64_t>> used_indices;

  // Between the consumer's thread and the one that watches its fences.
  StdAtomics::Atomic<bool> calling{false}; // the callable has the thread
  StdAtomics::Atomic<bool> drained{false}; // the last use is over
  Meter consuming;
};

} // namespace penstock::detail
