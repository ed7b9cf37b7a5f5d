// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/memory/area.hpp>
#include <penstock/error.hpp>
#include <penstock/schema.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <numeric>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace penstock::detail {

/// One array of a schema: a plain schema's records, a column, a Ragged column's offsets, its
/// values; the number of a Counted batch's records.
struct Array {
  enum Kind : std::uint8_t { records, offsets, values, count };
  std::size_t each{};  // bytes of a record, an offset, a value
  std::size_t place{}; // bytes in a place, and from one to the next
  Kind kind{};
};

/// How many records a place of a ring holds, and how they lie.
///
/// Copiers count in units, which are records, or, where records travel in pieces, bytes.
struct Grain {
  std::size_t records{}; // units, where there are several a record
  std::vector<Array> parts;
  std::vector<std::size_t> sizes; // what a batch's view is told
  std::size_t units{1};           // in a record

  Grain() = default;
  /// Of a plain schema.
  Grain(std::size_t count, std::size_t record_bytes)
      : records{count}, parts{{record_bytes, count * record_bytes, Array::records}},
        sizes{record_bytes} {}

  bool ragged() const noexcept {
    return std::any_of(parts.begin(), parts.end(),
                       [](const Array& part) { return part.kind == Array::values; });
  }
  /// Of a unit, but for what a Ragged column adds.
  std::size_t record_bytes() const noexcept {
    return sum([](const Array& part) { return part.kind == Array::records ? part.each : 0; });
  }
  /// Of a place.
  std::size_t bytes() const noexcept {
    return sum([](const Array& part) { return part.place; });
  }
  /// What every place of this size is aligned to in every array, at most 256.
  std::size_t alignment() const noexcept {
    std::size_t common = 256;
    for (const Array& part : parts) {
      common = part.kind == Array::count ? common : std::gcd(common, part.place);
    }
    return common;
  }
  /// The same for places of another number of records; not for Ragged ones.
  Grain of(std::size_t other) const {
    Grain grain = *this;
    grain.records = other;
    for (Array& part : grain.parts) {
      part.place = checked_bytes(other, part.each, "a batch");
    }
    return grain;
  }
  /// The same with a number for each place.
  Grain counted() const {
    Grain grain = *this;
    grain.parts.push_back({sizeof(std::uint64_t), sizeof(std::uint64_t), Array::count});
    return grain;
  }
  /// The same without.
  Grain uncounted() const {
    Grain grain = *this;
    if (grain.parts.back().kind == Array::count) {
      grain.parts.pop_back();
    }
    return grain;
  }
  /// Records that end among `count` units from unit `first` on.
  std::uint64_t whole_records(std::uint64_t first, std::uint64_t count) const noexcept {
    return units == 1 ? count : (first + count) / units - first / units;
  }
  /// The same as pieces: places of `bytes` bytes, whatever the records.
  Grain pieces(std::size_t bytes) const {
    Grain grain{bytes, 1};
    grain.sizes = sizes;
    grain.units = record_bytes();
    return grain;
  }

 private:
  template <class F> std::size_t sum(F of) const noexcept {
    std::size_t total = 0;
    for (const Array& part : parts) {
      total += of(part);
    }
    return total;
  }
};

/// The bytes of one record but for Ragged columns. `extents`: those that are dynamic, in order; for
/// a plain schema the bytes themselves. Throws OptionError, which says that `stage` was told wrong.
template <class S>
std::size_t fixed_bytes(std::span<const std::size_t> extents, const char* stage);

/// Lays out places of `records` records; `value_bytes` is what they hold of each Ragged column.
template <class S>
Grain grain_of(std::size_t records, std::span<const std::size_t> extents, std::size_t value_bytes,
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
        throw OptionError{std::string{"penstock: "} + stage + ": the schema has an extent number " +
                          std::to_string(used) + " that is ps::dynamic, and it is " +
                          (used < extents.size() ? "0" : "not given") +
                          ": give each of them in the source's extents() or in .extents."};
      }
      bytes = checked_bytes(extent, bytes, stage);
    }
    f(traits, bytes);
  };
  [&]<class... Fields>(Columns<Fields...>*) {
    (column(column_traits<Fields>{}), ...);
  }(static_cast<typename columns_of<S>::type*>(nullptr));
  if (used != extents.size()) {
    throw OptionError{std::string{"penstock: "} + stage + ": " + std::to_string(extents.size()) +
                      " extents are given, but the schema has " + std::to_string(used) +
                      " that are ps::dynamic: give as many."};
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
Grain grain_of(std::size_t records, std::span<const std::size_t> extents, std::size_t value_bytes,
               const char* stage) {
  if constexpr (HasColumns<S>) {
    Grain grain;
    grain.records = records;
    const auto up = [](std::size_t bytes) { return (bytes + 255) / 256 * 256; };
    std::size_t used = 0;
    each_column<S>(extents, stage, [&]<class Traits>(Traits, std::size_t bytes) {
      if constexpr (Traits::ragged) {
        // Slots of a Ragged column are not merged, so each may be rounded up.
        const std::size_t offsets = checked_bytes(records + 1, sizeof(std::int64_t), stage);
        const std::size_t capacity = std::max<std::size_t>(value_bytes / Traits::value_bytes, 1);
        grain.parts.push_back({sizeof(std::int64_t), up(offsets), Array::offsets});
        grain.parts.push_back({Traits::value_bytes,
                               up(checked_bytes(capacity, Traits::value_bytes, stage)),
                               Array::values});
        grain.sizes.push_back(capacity);
      } else {
        grain.parts.push_back({bytes, checked_bytes(records, bytes, stage), Array::records});
        for (std::size_t left = Traits::sizes; left != 0; --left) {
          grain.sizes.push_back(extents[used++]);
        }
      }
    });
    return grain;
  } else {
    const std::size_t bytes = fixed_bytes<S>(extents, stage);
    checked_bytes(records, bytes, stage);
    return {records, bytes};
  }
}

} // namespace penstock::detail
