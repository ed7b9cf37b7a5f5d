// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/data/batch.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/detail/links/layout.hpp>
#include <penstock/device/detail/allocation.hpp>
#include <penstock/error.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <utility>

namespace penstock::detail {

/// The memory of a ring's slots: each array of the schema is one area through the whole ring, the
/// part of slot k directly before that of slot k+1. Each area begins at a multiple of 256 bytes.
class RingMemory {
 public:
  template <class Where, class D>
  [[gnu::cold]] static RingMemory in(D* device, std::size_t places, const Layout& layout,
                                     const char* stage) {
    RingMemory made;
    const std::size_t bytes = made.lay_out(places, layout, stage);
    made.allocation_ = Allocation::in<Where>(device, bytes);
    return made;
  }

  /// Returns the same slots for another ring. They stay this one's, which must live longer.
  [[gnu::cold]] RingMemory lent() const;

  const Layout& layout() const noexcept { return layout_; }
  std::size_t bytes() const noexcept { return allocation_.bytes(); }
  MemoryKind kind() const noexcept { return allocation_.kind(); }
  std::byte* data(std::size_t place, std::size_t part = 0) const noexcept;
  /// Returns how many values of a Ragged column the first `records` records of a place in host
  /// memory have.
  std::size_t values(std::size_t place, std::size_t offsets_part,
                     std::size_t records) const noexcept;
  /// Returns the bytes of the first `records` records of a place in host memory, in array `part`.
  std::size_t used(std::size_t place, std::size_t part, std::size_t records) const noexcept;
  std::size_t used(std::size_t place, std::size_t records) const noexcept;

  /// Shows `units` units of a place; `index` and `source` are the numbers of the first.
  template <class S>
  BatchView<S> view(std::size_t place, std::size_t units, std::uint64_t index,
                    std::uint64_t source) const noexcept {
    BatchView<S> view;
    for (std::size_t part = 0; part < schema_traits<S>::parts; ++part) {
      view.parts[part] = data(place, part);
    }
    view.alignment = alignment_;
    std::copy(layout_.sizes.begin(), layout_.sizes.end(), view.sizes);
    view.size = layout_.in_records(units);
    view.index = layout_.in_records(index);
    view.source_index = layout_.in_records(source);
    return view;
  }
  /// Shows so many units from unit `first` on, of a place that is shown in parts. The values of a
  /// Ragged column are those of all units: offsets count from the place's beginning.
  template <class S>
  BatchView<S> view_of_part(std::size_t place, std::size_t first, std::size_t units,
                            std::uint64_t index, std::uint64_t source) const noexcept {
    BatchView<S> view = this->view<S>(place, units, index, source);
    for (std::size_t part = 0; part < schema_traits<S>::parts; ++part) {
      const std::size_t each = layout_.parts[part].each;
      const std::size_t before = layout_.parts[part].kind == Array::values ? 0 : first * each;
      view.parts[part] = static_cast<std::byte*>(view.parts[part]) + before;
      view.alignment = std::gcd(view.alignment, each); // the same for all parts
    }
    return view;
  }

 private:
  // Lays out the arrays, and returns the bytes of all places.
  [[gnu::cold]] std::size_t lay_out(std::size_t places, const Layout& layout, const char* stage);

  Layout layout_;
  std::size_t alignment_{}; // of its slots
  Vector<std::size_t> starts_;
  Allocation allocation_;
};

std::int64_t* offsets_of(const RingMemory& places, std::size_t place, std::size_t part) noexcept;

/// Marks the first `records` records of a place as not put yet, in each Ragged column, but for
/// those before `first`. To be called before they are filled.
void open_ragged(const RingMemory& places, std::size_t place, std::size_t records,
                 std::size_t first = 0) noexcept;

/// Throws Error with the number of the first of these records that was not put; `number` is that of
/// the place's first. To be called after they are filled.
void check_ragged(const RingMemory& places, std::size_t place, std::size_t records,
                  std::uint64_t number, std::size_t first = 0);

#if PENSTOCK_BODIES
PENSTOCK_INLINE RingMemory RingMemory::lent() const {
  RingMemory other;
  other.layout_ = layout_;
  other.alignment_ = alignment_;
  other.starts_ = starts_;
  other.allocation_ = allocation_.lent();
  return other;
}

PENSTOCK_INLINE std::byte* RingMemory::data(std::size_t place, std::size_t part) const noexcept {
  return allocation_.data() + starts_[part] + place * layout_.parts[part].stride;
}

PENSTOCK_INLINE std::size_t RingMemory::values(std::size_t place, std::size_t offsets_part,
                                               std::size_t records) const noexcept {
  std::int64_t end = 0;
  std::memcpy(&end, data(place, offsets_part) + records * sizeof end, sizeof end);
  return static_cast<std::size_t>(end);
}

PENSTOCK_INLINE std::size_t RingMemory::used(std::size_t place, std::size_t part,
                                             std::size_t records) const noexcept {
  const Array& p = layout_.parts[part];
  return p.each * (p.kind == Array::records   ? records
                   : p.kind == Array::offsets ? records + 1
                                              : values(place, part - 1, records));
}

PENSTOCK_INLINE std::size_t RingMemory::used(std::size_t place,
                                             std::size_t records) const noexcept {
  std::size_t bytes = 0;
  for (std::size_t part = 0; part < layout_.parts.size(); ++part) {
    bytes += used(place, part, records);
  }
  return bytes;
}

PENSTOCK_INLINE std::size_t RingMemory::lay_out(std::size_t places, const Layout& layout,
                                                const char* stage) {
  std::size_t bytes = 0;
  for (const Array& part : layout.parts) {
    starts_.push_back(bytes);
    const std::size_t more = checked_bytes(places, part.stride, stage);
    bytes = checked_bytes(bytes + more + 255, 1, stage) / 256 * 256;
  }
  layout_ = layout;
  alignment_ = layout.alignment();
  // The last array is not rounded up: rounding would add a page to an exact number of pages.
  return starts_.back() + places * layout_.parts.back().stride;
}

PENSTOCK_INLINE std::int64_t* offsets_of(const RingMemory& places, std::size_t place,
                                         std::size_t part) noexcept {
  return reinterpret_cast<std::int64_t*>(places.data(place, part));
}

PENSTOCK_INLINE void open_ragged(const RingMemory& places, std::size_t place, std::size_t records,
                                 std::size_t first) noexcept {
  for (std::size_t part = 0; part < places.layout().parts.size(); ++part) {
    if (places.layout().parts[part].kind == Array::offsets) {
      std::int64_t* offsets = offsets_of(places, place, part);
      offsets[0] = 0;
      std::fill(offsets + first + 1, offsets + records + 1, std::int64_t{-1});
    }
  }
}

PENSTOCK_INLINE void check_ragged(const RingMemory& places, std::size_t place, std::size_t records,
                                  std::uint64_t number, std::size_t first) {
  for (std::size_t part = 0; part < places.layout().parts.size(); ++part) {
    if (places.layout().parts[part].kind == Array::offsets) {
      const std::int64_t* offsets = offsets_of(places, place, part);
      for (std::size_t i = first; i < records; ++i) {
        if (offsets[i + 1] == -1) {
          throw_error<Error>(
              {"penstock: record ", number + i,
               " of a Ragged column was not put: put every record of the batch, an empty one "
               "with a count of 0."});
        }
      }
    }
  }
}
#endif

} // namespace penstock::detail
