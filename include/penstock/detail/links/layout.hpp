// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/data/schema.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/device/detail/allocation.hpp>
#include <penstock/error.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <numeric>
#include <span>
#include <type_traits>
#include <utility>

namespace penstock::detail {

/// One array of a schema: the records of a plain schema, a column, the offsets or the values of a
/// Ragged column, or the number of a Counted batch's records.
struct Array {
  enum Kind : std::uint8_t { records, offsets, values, count };
  std::size_t each{};   // bytes of a record, an offset, a value
  std::size_t stride{}; // bytes in a slot, and from one slot to the next
  Kind kind{};
};

/// How much a slot of a ring holds, and where it lies in memory.
///
/// Rings and copiers count in units: records, or bytes if records travel in pieces.
struct Layout {
  std::size_t units{}; // in a slot
  Vector<Array> parts;
  Vector<std::size_t> sizes; // what a batch's view is told
  std::size_t units_a_record{1};

  Layout() = default;
  /// Lays out slots of a plain schema.
  Layout(std::size_t count, std::size_t record_bytes);

  bool ragged() const noexcept;
  /// Returns whether records travel in pieces, so that a slot may hold a part of one.
  bool in_pieces() const noexcept { return units_a_record != 1; }
  /// Converts a count of units, or the number of one, to records, rounded down.
  std::uint64_t in_records(std::uint64_t count) const noexcept;
  /// Returns how many records a slot holds, rounded down.
  std::size_t records() const noexcept { return units / units_a_record; }
  /// Returns how many records end among `count` units from unit `first` on.
  std::uint64_t whole_records(std::uint64_t first, std::uint64_t count) const noexcept;
  /// Return the bytes of a record and of a unit, without those of Ragged columns.
  /// @{
  std::size_t record_bytes() const noexcept { return unit_bytes() * units_a_record; }
  std::size_t unit_bytes() const noexcept;
  /// @}
  /// Returns the bytes of a slot.
  std::size_t bytes() const noexcept;
  /// Returns how every slot of this size is aligned in every array but a count, at most to 256
  /// bytes.
  std::size_t alignment() const noexcept;
  /// Returns this layout with another number of units a slot; not for Ragged columns.
  Layout of(std::size_t other) const;
  /// Returns this layout with a number for each slot beside it.
  Layout counted() const;
  /// Returns this layout without the number beside each slot.
  Layout uncounted() const;
  /// Returns the layout of the same records in pieces: slots of `bytes` bytes.
  [[gnu::cold]] Layout pieces(std::size_t bytes) const;

 private:
  template <class F> std::size_t sum(F of) const noexcept {
    std::size_t total = 0;
    for (const Array& part : parts) {
      total += of(part);
    }
    return total;
  }
};

/// Returns the bytes of one record without its Ragged columns. `extents`: the dynamic ones, in
/// order; for a plain schema, the bytes themselves. Throws OptionError, which says that `stage` was
/// told wrong.
template <class S>
std::size_t fixed_bytes(std::span<const std::size_t> extents, const char* stage);

/// Lays out slots of `records` records; `value_bytes` is what a slot holds of each Ragged column.
template <class S>
Layout layout_of(std::size_t records, std::span<const std::size_t> extents, std::size_t value_bytes,
                 const char* stage);

/// Walks through a schema's columns: calls f(traits of the column, the bytes of one record).
template <class S, class F>
void each_column(std::span<const std::size_t> extents, const char* stage, F f) {
  std::size_t used = 0;
  const auto column = [&]<class Traits>(Traits traits) {
    std::size_t bytes = Traits::value_bytes * Traits::fixed;
    for (std::size_t left = Traits::ragged ? 0 : Traits::sizes; left != 0; --left, ++used) {
      const std::size_t extent = used < extents.size() ? extents[used] : 0;
      if (extent == 0) {
        throw_error<OptionError>({"penstock: ", stage, ": the schema has an extent number ", used,
                                  " that is ps::dynamic, and it is ",
                                  (used < extents.size() ? "0" : "not given"),
                                  ": give each of them in the source's extents() or in .extents."});
      }
      bytes = checked_bytes(extent, bytes, stage);
    }
    f(traits, bytes);
  };
  [&]<class... Fields>(Columns<Fields...>*) {
    (column(column_traits<Fields>{}), ...);
  }(static_cast<typename columns_of<S>::type*>(nullptr));
  if (used != extents.size()) {
    throw_error<OptionError>({"penstock: ", stage, ": ", extents.size(),
                              " extents are given, but the schema has ", used,
                              " that are ps::dynamic: give as many."});
  }
}

template <class S>
std::size_t fixed_bytes(std::span<const std::size_t> extents, const char* stage) {
  if constexpr (HasColumns<S>) {
    std::size_t sum = 0;
    each_column<S>(extents, stage, [&](auto, std::size_t bytes) { sum += bytes; });
    return sum;
  } else {
    return extents.empty() ? sizeof(S) : extents[0];
  }
}

template <class S>
Layout layout_of(std::size_t records, std::span<const std::size_t> extents, std::size_t value_bytes,
                 const char* stage) {
  if constexpr (HasColumns<S>) {
    Layout layout;
    layout.units = records;
    const auto up = [](std::size_t bytes) { return (bytes + 255) / 256 * 256; };
    std::size_t used = 0;
    each_column<S>(extents, stage, [&]<class Traits>(Traits, std::size_t bytes) {
      if constexpr (Traits::ragged) {
        // Slots of a Ragged column are not merged, so each may be rounded up.
        const std::size_t offsets = checked_bytes(records + 1, sizeof(std::int64_t), stage);
        const std::size_t capacity = std::max<std::size_t>(value_bytes / Traits::value_bytes, 1);
        layout.parts.push_back({sizeof(std::int64_t), up(offsets), Array::offsets});
        layout.parts.push_back({Traits::value_bytes,
                                up(checked_bytes(capacity, Traits::value_bytes, stage)),
                                Array::values});
        layout.sizes.push_back(capacity);
      } else {
        layout.parts.push_back({bytes, checked_bytes(records, bytes, stage), Array::records});
        for (std::size_t left = Traits::sizes; left != 0; --left) {
          layout.sizes.push_back(extents[used++]);
        }
      }
    });
    return layout;
  } else {
    const std::size_t bytes = fixed_bytes<S>(extents, stage);
    checked_bytes(records, bytes, stage);
    return {records, bytes};
  }
}

#if PENSTOCK_BODIES
PENSTOCK_INLINE Layout::Layout(std::size_t count, std::size_t record_bytes) : units{count} {
  parts.push_back({record_bytes, count * record_bytes, Array::records});
  sizes.push_back(record_bytes);
}

PENSTOCK_INLINE bool Layout::ragged() const noexcept {
  bool any = false;
  for (const Array& part : parts) {
    any = any || part.kind == Array::values;
  }
  return any;
}

PENSTOCK_INLINE std::uint64_t Layout::in_records(std::uint64_t count) const noexcept {
  return in_pieces() ? count / units_a_record : count; // small slots feel a division
}

PENSTOCK_INLINE std::uint64_t Layout::whole_records(std::uint64_t first,
                                                    std::uint64_t count) const noexcept {
  return in_pieces() ? in_records(first + count) - in_records(first) : count;
}

PENSTOCK_INLINE std::size_t Layout::unit_bytes() const noexcept {
  return sum([](const Array& part) { return part.kind == Array::records ? part.each : 0; });
}

PENSTOCK_INLINE std::size_t Layout::bytes() const noexcept {
  return sum([](const Array& part) { return part.stride; });
}

PENSTOCK_INLINE std::size_t Layout::alignment() const noexcept {
  std::size_t common = 256;
  for (const Array& part : parts) {
    common = part.kind == Array::count ? common : std::gcd(common, part.stride);
  }
  return common;
}

PENSTOCK_INLINE Layout Layout::of(std::size_t other) const {
  Layout layout = *this;
  layout.units = other;
  for (Array& part : layout.parts) {
    part.stride = checked_bytes(other, part.each, "a batch");
  }
  return layout;
}

PENSTOCK_INLINE Layout Layout::counted() const {
  Layout layout = *this;
  layout.parts.push_back({sizeof(std::uint64_t), sizeof(std::uint64_t), Array::count});
  return layout;
}

PENSTOCK_INLINE Layout Layout::uncounted() const {
  Layout layout = *this;
  if (layout.parts.back().kind == Array::count) {
    layout.parts.pop_back();
  }
  return layout;
}

PENSTOCK_INLINE Layout Layout::pieces(std::size_t bytes) const {
  Layout layout{bytes, 1};
  layout.sizes = sizes;
  layout.units_a_record = unit_bytes();
  return layout;
}
#endif

} // namespace penstock::detail
