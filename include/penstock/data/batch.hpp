// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/data/column.hpp>
#include <penstock/data/memory.hpp>
#include <penstock/data/schema.hpp>

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>

namespace penstock {

namespace detail {

/// What source_index() returns where a batch has none.
inline constexpr std::uint64_t no_source_index = ~std::uint64_t{0};

/// A batch without its types: where its arrays lie, and the numbers known only at run time.
template <class Schema> struct BatchView {
  void* parts[schema_traits<Schema>::parts]{};
  std::size_t sizes[schema_traits<Schema>::sizes != 0 ? schema_traits<Schema>::sizes : 1]{};
  std::size_t size{};
  std::uint64_t index{};
  std::uint64_t source_index{};
  std::size_t alignment{1};
};

/// The view of column `At`, if there is one.
template <std::size_t At, bool Const, class All> struct view_of {
  using type = Anything;
  template <class Schema> PENSTOCK_HD static type make(const BatchView<Schema>&) { return {}; }
};
template <std::size_t At, bool Const, class... Fields>
  requires(At < sizeof...(Fields))
struct view_of<At, Const, Columns<Fields...>> {
  using traits = columns_traits<Columns<Fields...>>;
  static constexpr std::size_t part = traits::parts_before(At);
  static constexpr std::size_t sizes = traits::sizes_before(At);

  template <class F> struct of;
  template <class Spelled, class T, std::size_t... E> struct of<NamedColumn<Spelled, T, E...>> {
    using value = std::conditional_t<Const, const T, T>;
    using type = Column<value, E...>;
    template <class Schema> PENSTOCK_HD static type make(const BatchView<Schema>& view) {
      return {static_cast<value*>(view.parts[part]), view.size, view.sizes + sizes};
    }
  };
  template <class Spelled, class T> struct of<NamedColumn<Spelled, Ragged<T>>> {
    using value = std::conditional_t<Const, const T, T>;
    using type = Column<Ragged<value>>;
    template <class Schema> PENSTOCK_HD static type make(const BatchView<Schema>& view) {
      return {static_cast<value*>(view.parts[part + 1]),
              static_cast<std::int64_t*>(view.parts[part]), view.size, view.sizes[sizes],
              view.source_index};
    }
  };
  using picked = of<std::tuple_element_t<At, std::tuple<Fields...>>>;
  using type = typename picked::type;
  template <class Schema> PENSTOCK_HD static type make(const BatchView<Schema>& view) {
    return picked::make(view);
  }
};

/// A class, since nvcc 13 warns about the lookup inside a function for host and device.
template <class Spelled, class Schema, bool Const> struct lookup {
  using columns = typename columns_of<Schema>::type;
  static constexpr std::size_t at = columns_traits<columns>::template find<Spelled>();
  static constexpr bool in_columns = HasColumns<Schema>;
  static constexpr bool there = !in_columns || at < columns_traits<columns>::count;
  using view = view_of<at, Const, columns>;
};

} // namespace detail

template <class Schema, class Where> class Batch;
template <Name Wanted, class Schema, class Where,
          class Spelled = typename detail::spelled<Wanted>::type>
PENSTOCK_HD auto get(const Batch<Schema, Where>& batch);

/// Stands for a column of a batch from a pipeline that was refused.
template <Name Wanted> PENSTOCK_HD detail::Anything get(const detail::Anything& unknown);

/// A view of consecutive records in one space: what stages hand to callables. Trivially copyable,
/// so it can be a kernel's argument. `Batch<const T, Where>` may only be read. It owns nothing: the
/// bytes are valid until the callable returns, those of a device batch until the work that it put
/// on its stream is done. A schema is one type, whose records lie back to back at data(), or named
/// Columns, each in an array of its own: `get<"name">(batch)`.
template <class Schema, class Where> class Batch {
  static constexpr bool in_a_space = Space<Where>;
  static_assert(in_a_space, "penstock: a batch lies in ps::Pageable, ps::Pinned or ps::Device.");
  static constexpr bool whole_records = !detail::HasColumns<std::remove_const_t<Schema>>;

 public:
  /// What it is a batch of.
  using schema = std::remove_const_t<Schema>;
  using space = Where;                    ///< Where it lies.
  using View = detail::BatchView<schema>; ///< For stages: the batch without its types.
  /// Whether it may only be read.
  static constexpr bool read_only = std::is_const_v<Schema>;

  Batch() = default;

  /// Views `size` records of `record_bytes` each at `data`; `index` is the number of the first one
  /// in its run. `alignment` is what every batch of this sequence is aligned to, in bytes.
  PENSTOCK_HD Batch(Schema* data, std::size_t size, std::uint64_t index = 0,
                    std::size_t record_bytes = sizeof(Schema),
                    std::size_t alignment = alignof(Schema))
    requires(whole_records)
      : view_{{const_cast<schema*>(data)}, {record_bytes}, size, index, index, alignment} {}
  /// For stages: makes a batch of a view without types.
  PENSTOCK_HD explicit Batch(const View& view) : view_{view} {}

  /// Makes a read-only batch of one that may be written; never the other way round.
  template <class S>
    requires(read_only && std::is_same_v<S, schema>)
  PENSTOCK_HD Batch(const Batch<S, Where>& b) : view_{b.view()} {}
  template <class S>
    requires(!read_only && std::is_same_v<S, const schema>)
  Batch(const Batch<S, Where>&) = delete; // read-only: take a ps::Batch<const T, Where>

  /// Returns the number of records.
  PENSTOCK_HD std::size_t size() const { return view_.size; }
  /// Returns the number of the first record, counted from 0 over everything delivered in one run,
  /// epochs included. In a Decoder: the number it would have if nothing were skipped.
  PENSTOCK_HD std::uint64_t index() const { return view_.index; }
  /// Returns the number of the first record in its source, counted anew in each epoch; skipped
  /// records count too. The records behind it have the next numbers, unless some were skipped.
  /// Under an Order that shuffles, or has several ranks, or where a source mixes others, a batch
  /// has no such number, and it is 2^64 - 1: ask the lease, Lease::visit(), or take a Visit.
  PENSTOCK_HD std::uint64_t source_index() const { return view_.source_index; }
  /// Returns the records, back to back: size() * record_bytes() bytes.
  PENSTOCK_HD std::conditional_t<whole_records, Schema*, detail::Anything> data() const {
    static_assert(whole_records,
                  "penstock: a batch of columns has no bytes of its own: ask for one "
                  "column, get<\"name\">(batch).");
    if constexpr (whole_records) {
      return static_cast<Schema*>(view_.parts[0]);
    } else {
      return {};
    }
  }
  /// Return where the records begin and end; of records of a run-time size, their bytes. Columns
  /// have ranges of their own.
  /// @{
  PENSTOCK_HD auto begin() const
    requires(whole_records)
  {
    return data();
  }
  PENSTOCK_HD auto end() const
    requires(whole_records)
  {
    return data() + size_bytes() / sizeof(Schema);
  }
  /// @}
  /// Returns the bytes from one record to the next: sizeof(Schema), or the size that the source was
  /// given for records of a run-time size.
  PENSTOCK_HD std::size_t record_bytes() const {
    static_assert(whole_records, "penstock: a batch of columns has no record_bytes(): ask for one "
                                 "column, get<\"name\">(batch), and its elements().");
    return view_.sizes[0];
  }
  /// Returns the bytes of all records.
  PENSTOCK_HD std::size_t size_bytes() const { return size() * record_bytes(); }
  /// Returns what data(), or every column's data(), is aligned to in every batch of this pipeline:
  /// a power of two, at most 256. It follows from the batch size: places lie back to back, so a
  /// batch of 256 times n bytes keeps 256.
  PENSTOCK_HD std::size_t alignment() const { return view_.alignment; }

  /// Returns the column of a name; in generic code, call penstock::get<"name">(batch).
  template <Name Wanted> PENSTOCK_HD auto get() const { return penstock::get<Wanted>(*this); }
  /// For stages: returns the batch without its types.
  PENSTOCK_HD const View& view() const { return view_; }

 private:
  View view_;
};

/// Returns the column of a name, `get<"image">(batch)`, for host and device code: see Column.
template <Name Wanted, class Schema, class Where, class Spelled>
PENSTOCK_HD auto get(const Batch<Schema, Where>& batch) {
  using Found = detail::lookup<Spelled, std::remove_const_t<Schema>, std::is_const_v<Schema>>;
  static_assert(Found::in_columns, "penstock: this batch has no named columns: its records are "
                                   "whole, use data().");
  static_assert(Found::there, "penstock: no column of this batch has that name: see Spelled, and "
                              "the names that Schema has.");
  return Found::view::make(batch.view());
}

} // namespace penstock

/// @cond
// Of records of a run-time size a range has the bytes.
template <class Schema, class Where>
inline constexpr bool std::ranges::disable_sized_range<penstock::Batch<Schema, Where>> = true;
/// @endcond
