// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/schema.hpp>
#include <penstock/error.hpp>

#include <cstddef>
#include <cstdint>
#include <span> // and std::ranges::enable_borrowed_range
#include <string>
#include <type_traits>

// A record of a view outlives the view, but g++ 13 warns where one is bound to a reference.
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 13
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdangling-reference"
#endif

namespace penstock {

/// A view of one column of a batch, for host and device code: what `get<"name">(batch)` gives. It
/// owns nothing, and T is const where the batch is. `operator[]` gives a record's values: one T, or
/// an array of T with the column's extents.
template <class T, std::size_t... Extents> class Column {
  template <class U, std::size_t... E> struct array_of {
    using type = U;
  };
  template <class U, std::size_t First, std::size_t... E> struct array_of<U, First, E...> {
    using type = typename array_of<U, E...>::type[First];
  };

 public:
  /// A record's values: T, or an array of T.
  using record_type = typename array_of<T, Extents...>::type;

  Column() = default;
  /// For batches: `size` records at `data`.
  PENSTOCK_HD Column(T* data, std::size_t size, const std::size_t* = nullptr)
      : data_{data}, size_{size} {}

  /// Returns all values, record after record.
  PENSTOCK_HD T* data() const { return data_; }
  /// Returns the number of records.
  PENSTOCK_HD std::size_t size() const { return size_; }
  /// Returns how many values a record has.
  PENSTOCK_HD static constexpr std::size_t elements() { return (std::size_t{1} * ... * Extents); }
  /// Returns the values of record `i`, less than size().
  PENSTOCK_HD record_type& operator[](std::size_t i) const { return begin()[i]; }
  /// Return where the records begin and end: a column of single values makes a `std::span`.
  /// @{
  PENSTOCK_HD record_type* begin() const { return reinterpret_cast<record_type*>(data_); }
  PENSTOCK_HD record_type* end() const { return begin() + size_; }
  /// @}

 private:
  T* data_{};
  std::size_t size_{};
};

/// A view of a column with a dynamic extent: a record's values come as one flat row.
template <class T, std::size_t... Extents>
  requires((Extents == dynamic) || ...)
class Column<T, Extents...> {
 public:
  Column() = default;
  /// For batches: `sizes` are the dynamic extents, in order.
  PENSTOCK_HD Column(T* data, std::size_t size, const std::size_t* sizes)
      : data_{data}, size_{size}, extents_{(Extents == dynamic ? *sizes++ : Extents)...} {}

  /// Returns all values, record after record.
  PENSTOCK_HD T* data() const { return data_; }
  /// Returns the number of records.
  PENSTOCK_HD std::size_t size() const { return size_; }
  /// Returns extent number `at`, dynamic or not.
  PENSTOCK_HD std::size_t extent(std::size_t at) const { return extents_[at]; }
  /// Returns how many values a record has.
  PENSTOCK_HD std::size_t elements() const {
    std::size_t product = 1;
    for (const std::size_t extent : extents_) {
      product *= extent;
    }
    return product;
  }
  /// Returns the values of record `i`, less than size(), as a column of single values.
  PENSTOCK_HD Column<T> operator[](std::size_t i) const {
    return {data_ + i * elements(), elements()};
  }

 private:
  T* data_{};
  std::size_t size_{};
  std::size_t extents_[sizeof...(Extents)]{};
};

/// A view of a column of variable length: offsets and values, laid out as Columns says.
template <class T> class Column<Ragged<T>> {
  using Offset = std::conditional_t<std::is_const_v<T>, const std::int64_t, std::int64_t>;

 public:
  Column() = default;
  /// For batches: `capacity` is how many values there is room for, `first` the first record's
  /// number, for messages.
  PENSTOCK_HD Column(T* values, Offset* offsets, std::size_t size, std::size_t capacity,
                     std::uint64_t first)
      : values_{values}, offsets_{offsets}, size_{size}, capacity_{capacity}, first_{first} {}

  /// Returns the number of records.
  PENSTOCK_HD std::size_t size() const { return size_; }
  /// Returns the values of all records, back to back.
  PENSTOCK_HD T* values() const { return values_; }
  /// Returns size() + 1 offsets, the first 0: record i has the values from offsets()[i] to before
  /// offsets()[i + 1].
  PENSTOCK_HD const std::int64_t* offsets() const { return offsets_; }
  /// Refused by the compiler: use values() or operator[].
  template <class Value = T> PENSTOCK_HD Value* data() const {
    constexpr bool fixed = !sizeof(Value);
    static_assert(fixed, "penstock: a Ragged column has records of any length: column.values() are "
                         "those of all, column[i].data() of one.");
    return values_;
  }
  /// Returns how many values a batch can hold.
  PENSTOCK_HD std::size_t capacity() const { return capacity_; }
  /// Returns the values of record i; while you fill the column, i must have been put.
  PENSTOCK_HD Column<T> operator[](std::size_t i) const {
    return {values_ + offsets_[i], static_cast<std::size_t>(offsets_[i + 1] - offsets_[i])};
  }

  /// Makes room for `count` values of record i, and returns the place to write them to. Host memory
  /// only. Call it for all records in order: i is 0, 1, 2, … Throws Error, with the record's
  /// number, out of that order or if the values do not fit. If they would fit into an empty batch,
  /// that ends the run, whatever OnError says: no record is at fault.
  T* put(std::size_t i, std::size_t count) const
    requires(!std::is_const_v<T>)
  {
    if (i >= size_ || offsets_[i] < 0) {
      throw Error{"penstock: record " + std::to_string(first_ + i) +
                  " was put out of turn: put all records of a batch, from 0 to before size()."};
    }
    const auto used = static_cast<std::size_t>(offsets_[i]);
    if (count > capacity_ - used) {
      refuse(i, count, used);
    }
    offsets_[i + 1] = static_cast<std::int64_t>(used + count);
    return values_ + used;
  }

 private:
  [[noreturn, gnu::cold]] void refuse(std::size_t i, std::size_t count, std::size_t used) const {
    const std::string text = "penstock: record " + std::to_string(first_ + i) + " has " +
                             std::to_string(count) + " values of a Ragged column, and of the " +
                             std::to_string(capacity_) + " that a slot has room for " +
                             std::to_string(capacity_ - used) +
                             " are left: give the stage that fills it more "
                             ".value_bytes, or the Reader a smaller .batch. A source with "
                             "lengths() puts as many values as it told.";
    if (count > capacity_) {
      throw Error{text + " This record alone needs .value_bytes = " +
                  std::to_string(count * sizeof(T)) + "."};
    }
    const std::size_t mean = (used + count + i) / (i + 1);
    throw detail::SlotFull{text, i, (mean > count ? mean : count) * sizeof(T)};
  }

  T* values_{};
  Offset* offsets_{};
  std::size_t size_{};
  std::size_t capacity_{};
  std::uint64_t first_{};
};

namespace detail {

/// Whether a column has as many values a record as each brings.
template <class T> inline constexpr bool is_ragged_column = false;
template <class T> inline constexpr bool is_ragged_column<Column<Ragged<T>>> = true;

} // namespace detail

} // namespace penstock

/// @cond
// What a column gives outlives it.
template <class T>
inline constexpr bool std::ranges::enable_borrowed_range<penstock::Column<T>> = true;
/// @endcond

#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 13
#pragma GCC diagnostic pop
#endif
