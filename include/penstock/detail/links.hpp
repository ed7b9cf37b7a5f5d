// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/batch.hpp>
#include <penstock/detail/area.hpp>
#include <penstock/detail/meter.hpp>
#include <penstock/fence.hpp>
#include <penstock/ring.hpp>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace penstock::detail {

/// How many records a place holds and how long they are.
struct Grain {
  std::size_t records{};
  std::size_t record_bytes{};

  std::size_t bytes() const noexcept { return records * record_bytes; }
  /// What every place of this size is aligned to, at most 256.
  std::size_t alignment() const noexcept { return std::gcd(bytes(), std::size_t{256}); }
};

/// What travels with a slot of a host ring.
struct HostSlot {
  std::uint64_t index{};
  std::size_t records{};
  bool ends_epoch{};
};
using HostRing = Ring<HostSlot>;

/// The join between two stages in host memory: a ring and the bytes of its slots. One column now; a
/// schema's further columns follow it in the same area.
struct HostLink {
  HostLink(std::size_t slots, Grain grain, Area memory, Side claimers, Side takers)
      : ring{slots, claimers, takers}, grain{grain}, area{std::move(memory)} {}

  std::byte* data(std::size_t place) const noexcept { return area.data() + place * grain.bytes(); }

  /// The batch in a slot; T is const to read it.
  template <class T, class Where>
  Batch<T, Where> batch(std::size_t place, const HostSlot& slot) const noexcept {
    return {reinterpret_cast<T*>(data(place)), slot.records, slot.index, grain.record_bytes,
            grain.alignment()};
  }

  HostRing ring;
  Grain grain;
  Area area;
};

/// What travels with a place of a device ring: when its bytes are there, and when they were used.
template <AnyDevice D> struct Place {
  std::uint64_t index{};
  std::size_t records{};
  Fence<D> ready;
  Fence<D> free;
};
template <AnyDevice D> using PlaceRing = Ring<Place<D>>;

/// The join between the copier and the consumer in device memory: a whole number of batches.
template <AnyDevice D> struct DeviceLink {
  // Four events for at most two copies in flight: a consumer that is late asks about an older one.
  DeviceLink(D& device, std::size_t places, Grain grain)
      : ring{places, Side::one, Side::one}, grain{grain},
        area{Area::in<Device>(&device, checked_bytes(places, grain.bytes(), "AsyncCopier"))},
        copies{device, 4}, uses{device, places + 1}, ready_serials(2 * places) {}

  /// The copy that completes a batch. Kept for two laps: a place may be filled again, in stream
  /// order, while its last use is still open.
  std::uint64_t& ready_serial(std::uint64_t ticket) {
    return ready_serials[ticket % ready_serials.size()];
  }

  std::byte* data(std::size_t place) const noexcept { return area.data() + place * grain.bytes(); }

  template <class T>
  Batch<const T, Device> batch(std::size_t at, const Place<D>& place) const noexcept {
    return {reinterpret_cast<const T*>(data(at)), place.records, place.index, grain.record_bytes,
            grain.alignment()};
  }

  PlaceRing<D> ring;
  Grain grain;
  Area area;
  Timeline<D> copies;
  Timeline<D> uses;
  std::vector<std::uint64_t> ready_serials;

  // Between the consumer's thread and the one that watches its fences.
  PlaceRing<D>::Bell* bell{};
  std::uint64_t uses_before{};             // recorded before this run
  StdAtomics::Atomic<bool> calling{false}; // the callable has the thread
  StdAtomics::Atomic<bool> drained{false}; // the last use is over
  Meter consuming;
};

} // namespace penstock::detail
