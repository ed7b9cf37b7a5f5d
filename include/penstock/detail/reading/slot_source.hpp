// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/batch.hpp>
#include <penstock/data/schema.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/detail/links/layout.hpp>
#include <penstock/detail/links/ring_memory.hpp>
#include <penstock/sources/detail/held_source.hpp>
#include <penstock/sources/detail/reads.hpp>
#include <penstock/sources/patience.hpp>
#include <penstock/sources/source.hpp>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>

namespace penstock::detail {

/// Records of a place in a ring that a source is to fill.
struct SlotPart {
  const RingMemory& memory;
  std::size_t place;
  std::size_t at;      // where the first of them lies there
  std::size_t units;   // how many they are
  std::uint64_t index; // the first one's number in the source
  std::uint64_t shown; // what source_index() says of it
};

/// Where a worker that fills a part of a slot has its own offsets of a Ragged column, which begin
/// at 0, and where the part's values lie in the slot.
struct OwnOffsets {
  std::int64_t* offsets; // one more than records
  std::uint64_t before;  // values of the slot's records before the part
  std::uint64_t values;  // of the part's
};

/// A source as a Reader's threads ask it: one call fills what a slot lacks, so that no thread needs
/// to know its type. It fills memory that the source's type and Where were laid out for.
class SlotSource : public HeldSource {
 public:
  /// Whether its records have Ragged columns, and whether its read() waits by a Patience.
  /// @{
  virtual bool ragged() const noexcept = 0;
  virtual bool waits() const noexcept = 0;
  /// @}
  /// Whether will_read() does anything.
  virtual bool hears_what_comes() const noexcept = 0;
  /// Returns the bytes of a record without its Ragged columns, and lays out slots.
  /// @{
  virtual std::size_t fixed_bytes(std::span<const std::size_t> extents) const = 0;
  virtual Layout layout(std::size_t records, std::span<const std::size_t> extents,
                        std::size_t value_bytes) const = 0;
  /// @}
  /// Fill a part of a slot, by read(): with records that follow each other; with those of these
  /// numbers. Return how many came. Throw what the source throws.
  /// @{
  virtual Filled fill(const SlotPart& into, const Patience& patience) const = 0;
  virtual Filled fill_numbered(std::span<const std::uint64_t> numbers, const SlotPart& into,
                               const Patience& patience) const = 0;
  /// @}
  /// Fills a part of a slot with Ragged columns while other workers fill the rest. `own` has an
  /// entry for each Ragged column, in order. Throws SourceError if the values do not fit.
  virtual Filled fill_beside(const SlotPart& into, std::span<const OwnOffsets> own,
                             const Patience& patience) const = 0;
};

/// A SlotSource of a source's type, into memory in Where.
template <Source From, class Where> class SlotSourceOf final : public HeldOf<From, SlotSource> {
  using Base = HeldOf<From, SlotSource>;
  using T = typename From::schema;

 public:
  using Base::Base;

 private:
  bool ragged() const noexcept override { return schema_traits<T>::ragged; }
  bool waits() const noexcept override { return TakesPatience<const From, Where>; }
  bool hears_what_comes() const noexcept override { return HearsWhatComes<From>; }
  [[gnu::cold]] std::size_t fixed_bytes(std::span<const std::size_t> extents) const override {
    return detail::fixed_bytes<T>(extents, "Reader");
  }
  [[gnu::cold]] Layout layout(std::size_t records, std::span<const std::size_t> extents,
                              std::size_t value_bytes) const override {
    return layout_of<T>(records, extents, value_bytes, "Reader");
  }

  Filled fill(const SlotPart& into, const Patience& patience) const override {
    return read_some(source_, batch(into), patience);
  }
  Filled fill_numbered(std::span<const std::uint64_t> numbers, const SlotPart& into,
                       const Patience& patience) const override {
    return read_numbered(source_, numbers, batch(into), patience);
  }
  Filled fill_beside(const SlotPart& into, std::span<const OwnOffsets> own,
                     const Patience& patience) const override {
    if constexpr (KnowsLengths<From>) {
      BatchView<T> view =
          into.memory.template view<T>(into.place, into.units, into.index, into.shown);
      set_beside(view, into, own);
      return read_some(source_, Batch<T, Where>{view}, patience);
    } else {
      return 0;
    }
  }

  static Batch<T, Where> batch(const SlotPart& into) {
    return Batch<T, Where>{
        into.at == 0 ? into.memory.template view<T>(into.place, into.units, into.index, into.shown)
                     : into.memory.template view_of_part<T>(into.place, into.at, into.units,
                                                            into.index, into.shown)};
  }
  // Moves a view of a slot's beginning to a part of it.
  static void set_beside(BatchView<T>& view, const SlotPart& into,
                         std::span<const OwnOffsets> own) {
    const auto& arrays = into.memory.layout().parts;
    for (const Array& array : arrays) {
      view.alignment = std::gcd(view.alignment, array.each);
    }
    std::size_t size = 0; // of view.sizes
    std::size_t at = 0;   // of the slot's arrays
    const auto column = [&](bool is_ragged, std::size_t sizes) {
      if (is_ragged) {
        const OwnOffsets& its = own.front();
        own = own.subspan(1);
        const std::size_t capacity = view.sizes[size];
        if (its.before > capacity || its.values > capacity - its.before) {
          throw_source_error({"penstock: the records from ", into.index - into.at, " to ",
                              into.index + into.units - 1, " have more than the ", capacity,
                              " values that a slot holds: give the Reader more .value_bytes, or a "
                              "smaller .batch."},
                             {}, 0, into.index);
        }
        view.parts[at] = its.offsets;
        view.parts[at + 1] =
            static_cast<std::byte*>(view.parts[at + 1]) + its.before * arrays[at + 1].each;
        view.sizes[size] = its.values;
      } else {
        view.parts[at] = static_cast<std::byte*>(view.parts[at]) + into.at * arrays[at].each;
      }
      size += sizes;
      at += is_ragged ? 2 : 1;
    };
    [&]<class... Fields>(Columns<Fields...>*) {
      (column(column_traits<Fields>::ragged, column_traits<Fields>::sizes), ...);
    }(static_cast<typename columns_of<T>::type*>(nullptr));
  }

  using Base::source_;
};

} // namespace penstock::detail
