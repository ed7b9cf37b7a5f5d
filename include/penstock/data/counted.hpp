// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/data/batch.hpp>
#include <penstock/data/memory.hpp>
#include <penstock/data/schema.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace penstock {

/// A schema of batches whose number of records only the device knows, such as what a selection left
/// of a batch. `Batch<Counted<S>, Device>` has room for capacity() records of S; how many it holds
/// is in device memory, *count(). AsyncCopier{to_host} makes plain batches of them again.
template <class Schema> struct Counted {};

namespace detail {

template <class S> inline constexpr bool is_counted = false;
template <class S> inline constexpr bool is_counted<Counted<S>> = true;
template <class S> inline constexpr bool is_counted<const Counted<S>> = true;

/// S for Counted<S>; every other type as it is.
template <class S> struct uncounted {
  using type = S;
};
template <class S> struct uncounted<Counted<S>> {
  using type = S;
};
template <class S> struct uncounted<const Counted<S>> {
  using type = const S;
};
template <class S> using uncounted_t = typename uncounted<S>::type;

/// The arrays of S, and then the count.
template <class S> struct schema_traits<Counted<S>> : schema_traits<S> {
  static constexpr std::size_t parts = schema_traits<S>::parts + 1;
};
template <class S> inline constexpr bool copies_as_bytes<Counted<S>> = copies_as_bytes<S>;

} // namespace detail

/// A batch with room for capacity() records that holds *count() of them. Like every Batch it is a
/// view, trivially copyable, and can be a kernel's argument. The work that fills it also writes
/// `*count()`, at most capacity(); the work that reads it, on the device, reads `*count()`.
template <class Schema, class Where>
  requires(detail::is_counted<Schema>)
class Batch<Schema, Where> {
  using Records = Batch<detail::uncounted_t<Schema>, Where>;
  using Count = std::conditional_t<std::is_const_v<Schema>, const std::uint64_t, std::uint64_t>;

 public:
  using schema = std::remove_const_t<Schema>; ///< What it is a batch of.
  using space = Where;                        ///< Where it lies.
  using View = detail::BatchView<schema>;     ///< For stages: the batch without its types.
  /// Whether it may only be read.
  static constexpr bool read_only = std::is_const_v<Schema>;

  Batch() = default;
  /// For stages: makes a batch of a view without types.
  PENSTOCK_HD explicit Batch(const View& view) : records_{plain(view)} {
    count_ = static_cast<Count*>(view.parts[detail::schema_traits<schema>::parts - 1]);
  }

  /// Returns how many records there is room for.
  PENSTOCK_HD std::size_t capacity() const { return records_.size(); }
  /// Returns where the number of records lies: device memory, which host code may only pass on.
  PENSTOCK_HD Count* count() const { return count_; }
  /// Returns the number in the source of the first record that it may be made of, as of a Batch.
  PENSTOCK_HD std::uint64_t source_index() const { return records_.source_index(); }
  /// Return what a Batch of capacity() records returns.
  /// @{
  PENSTOCK_HD auto data() const { return records_.data(); }
  PENSTOCK_HD std::size_t record_bytes() const { return records_.record_bytes(); }
  PENSTOCK_HD std::size_t alignment() const { return records_.alignment(); }
  /// @}
  /// Returns a column, for capacity() records; in generic code, call penstock::get<"name">(batch).
  template <Name Wanted> PENSTOCK_HD auto get() const { return penstock::get<Wanted>(records_); }
  /// Refused by the compiler: see capacity() and count().
  template <class Number = std::size_t> PENSTOCK_HD Number size() const {
    constexpr bool known = !sizeof(Number);
    static_assert(known, "penstock: only the device knows how many records a counted batch has: "
                         "they are at most capacity(), and *count() on the device.");
    return {};
  }

 private:
  PENSTOCK_HD static Records plain(const View& view) {
    using Plain = typename Records::View;
    Plain records;
    for (std::size_t part = 0; part + 1 < detail::schema_traits<schema>::parts; ++part) {
      records.parts[part] = view.parts[part];
    }
    for (std::size_t i = 0; i < sizeof records.sizes / sizeof *records.sizes; ++i) {
      records.sizes[i] = view.sizes[i];
    }
    records.size = view.size;
    records.index = view.index;
    records.source_index = view.source_index;
    records.alignment = view.alignment;
    return Records{records};
  }

  Records records_;
  Count* count_{};
};

/// Returns the column of a name, as of a Batch, for capacity() records.
template <Name Wanted, class Schema, class Where,
          class Spelled = typename detail::spelled<Wanted>::type>
  requires(detail::is_counted<Schema>)
PENSTOCK_HD auto get(const Batch<Schema, Where>& batch) {
  return batch.template get<Wanted>();
}

} // namespace penstock
