// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

namespace penstock {

/// An extent of a column that is known only at run time, from the source or from a stage's options.
inline constexpr std::size_t dynamic = ~std::size_t{0};

/// A column's name, made of a string literal of at most 32 characters. It holds words instead of an
/// array, since nvcc 13 writes such arguments back as source, and cannot write an array.
struct Name {
  /// The letters, eight to a word, and their number.
  /// @{
  std::uint64_t word0{}, word1{}, word2{}, word3{};
  std::size_t size{};
  /// @}

  /// Makes a name of a string literal; more than 32 characters do not compile.
  template <std::size_t Count> consteval Name(const char (&text)[Count]) : size{Count - 1} {
    static_assert(Count <= 33, "penstock: a column's name has at most 32 characters.");
    std::uint64_t words[4]{};
    for (std::size_t i = 0; i + 1 < Count; ++i) {
      words[i / 8] |= std::uint64_t{static_cast<unsigned char>(text[i])} << (8 * (i % 8));
    }
    word0 = words[0];
    word1 = words[1];
    word2 = words[2];
    word3 = words[3];
  }
  /// For nvcc, which writes names in this form.
  consteval Name(std::uint64_t a, std::uint64_t b, std::uint64_t c, std::uint64_t d, std::size_t n)
      : word0{a}, word1{b}, word2{c}, word3{d}, size{n} {}

  /// Returns letter number `i`, less than `size`.
  constexpr char at(std::size_t i) const {
    const std::uint64_t words[]{word0, word1, word2, word3};
    return static_cast<char>((words[i / 8] >> (8 * (i % 8))) & 0xff);
  }
};

/// A name as a type, which messages spell out.
template <char... Letters> struct Chars {
  /// The name, ended by a zero.
  static constexpr char text[]{Letters..., '\0'};
};

/// The values of a column whose records each have any number of values: see Columns.
template <class T> struct Ragged {
  using value_type = T; ///< One value.
};

/// A column of a schema; write it as Field<"name", T, Extents...>.
template <class Spelled, class T, std::size_t... Extents> struct NamedColumn {
  using name = Spelled; ///< Its name, as Chars.
  using value_type = T; ///< One value.
};

namespace detail {

/// Stands for a type that is unknown after a mistake already reported. It accepts every use
/// silently.
struct Anything {
  template <class T> PENSTOCK_HD operator T() const;
  PENSTOCK_HD Anything data() const;
  PENSTOCK_HD std::size_t size() const;
  PENSTOCK_HD std::size_t size_bytes() const;
  PENSTOCK_HD std::size_t record_bytes() const;
  PENSTOCK_HD std::size_t alignment() const;
  PENSTOCK_HD std::uint64_t index() const;
  PENSTOCK_HD std::uint64_t source_index() const;
  std::uint64_t epoch() const;
  Anything position() const;
  Anything visit(std::size_t) const;
  void release() const;
  Anything share() const;
  template <class S> void used_on(S&&) const;
  template <Name> PENSTOCK_HD Anything get() const;
  PENSTOCK_HD Anything operator[](std::size_t) const;
  template <class T> PENSTOCK_HD const Anything& operator=(const T&) const;
};

// Deduced once more, or clang would print the expressions behind the letters.
template <class> struct canonical;
template <char... Letters> struct canonical<Chars<Letters...>> {
  using type = Chars<Letters...>;
};
template <Name Text, class Index> struct spell_out;
template <Name Text, std::size_t... At> struct spell_out<Text, std::index_sequence<At...>> {
  using type = Chars<Text.at(At)...>;
};
template <Name Text> struct spelled {
  using type =
      typename canonical<typename spell_out<Text, std::make_index_sequence<Text.size>>::type>::type;
};

template <class Column> inline constexpr bool has_values = true;
template <class Spelled, class T, std::size_t... Extents>
inline constexpr bool has_values<NamedColumn<Spelled, T, Extents...>> = ((Extents != 0) && ...);

} // namespace detail

/// A named column whose records hold Extents of T, row by row: `Field<"image", std::uint8_t, 3,
/// 224, 224>`; one T without extents. An extent may be `dynamic`. `Field<"text", Ragged<char>>` has
/// any number of values a record.
template <Name Text, class T, std::size_t... Extents>
using Field = NamedColumn<typename detail::spelled<Text>::type, T, Extents...>;

/// A schema of named columns, each an array of its own in every batch. Derive from it, which keeps
/// messages short: `struct Sample : Columns<Field<"image", …>, Field<"label", int>> {};`
///
/// A Ragged column has Apache Arrow's layout of variable-size lists with 64-bit offsets: the values
/// of all records back to back, and for n records n + 1 offsets, the first of them 0. A batch of it
/// is one slot all the way, with a maximum of records and of value bytes.
template <class... Fields> struct Columns {
  /// Whether every column has values: checked where the schema is written, before any other check.
  static constexpr bool have_values = (detail::has_values<Fields> && ...);
  static_assert(have_values,
                "penstock: a column of extent 0 has no values: give Field<name, T, extents...> "
                "extents of 1 or more, and none for one T a record.");
};

namespace detail {

template <class... Fields> Columns<Fields...> columns_fn(const Columns<Fields...>*);
template <class S>
concept HasColumns = std::is_class_v<S> && requires(const S* s) { columns_fn(s); };

/// The columns of a schema; none for a plain type.
template <class S> struct columns_of {
  using type = Columns<>;
};
template <HasColumns S> struct columns_of<S> {
  using type = decltype(columns_fn(static_cast<const S*>(nullptr)));
};

/// Whether records of T can be copied byte by byte, column by column.
template <class T>
inline constexpr bool copies_as_bytes = std::is_trivially_copyable_v<T> && !std::is_const_v<T>;
template <class T> inline constexpr bool copies_as_bytes<Ragged<T>> = copies_as_bytes<T>;
template <class Spelled, class T, std::size_t... Extents>
inline constexpr bool copies_as_bytes<NamedColumn<Spelled, T, Extents...>> = copies_as_bytes<T>;
template <class... Fields>
inline constexpr bool copies_as_bytes<Columns<Fields...>> = (copies_as_bytes<Fields> && ...);
template <HasColumns S>
  requires(!std::is_same_v<S, typename columns_of<S>::type>)
inline constexpr bool copies_as_bytes<S> = copies_as_bytes<typename columns_of<S>::type>;

/// What a column is made of: `parts` arrays, and `sizes` numbers known only at run time.
template <class Column> struct column_traits;
template <class Spelled, class T, std::size_t... Extents>
struct column_traits<NamedColumn<Spelled, T, Extents...>> {
  static constexpr bool ragged = false;
  static constexpr std::size_t value_bytes = sizeof(T);
  static constexpr std::size_t parts = 1;
  static constexpr std::size_t sizes = (std::size_t{0} + ... + (Extents == dynamic ? 1 : 0));
  /// Values of one record, without the dynamic extents.
  static constexpr std::size_t fixed = (std::size_t{1} * ... * (Extents == dynamic ? 1 : Extents));
};
template <class Spelled, class T> struct column_traits<NamedColumn<Spelled, Ragged<T>>> {
  static constexpr bool ragged = true;
  static constexpr std::size_t value_bytes = sizeof(T);
  static constexpr std::size_t parts = 2; // offsets, values
  static constexpr std::size_t sizes = 1; // how many values a slot holds
  static constexpr std::size_t fixed = 0;
};

/// The columns of a schema as a whole: their number, and what those before number `at` are made of.
template <class All> struct columns_traits;
template <class... Fields> struct columns_traits<Columns<Fields...>> {
  static constexpr std::size_t count = sizeof...(Fields);
  static constexpr bool ragged = (false || ... || column_traits<Fields>::ragged);

  static constexpr std::size_t parts_before(std::size_t at) {
    std::size_t i = 0;
    std::size_t sum = 0;
    ((sum += i < at ? column_traits<Fields>::parts : 0, ++i), ...);
    return sum;
  }
  static constexpr std::size_t sizes_before(std::size_t at) {
    std::size_t i = 0;
    std::size_t sum = 0;
    ((sum += i < at ? column_traits<Fields>::sizes : 0, ++i), ...);
    return sum;
  }
  template <class Spelled> static constexpr std::size_t find() {
    std::size_t i = 0;
    std::size_t found = count;
    ((std::is_same_v<typename Fields::name, Spelled> ? void(found = i) : void(), ++i), ...);
    return found;
  }
};

/// A plain schema is one array and one number, the bytes of a record.
template <class S> struct schema_traits {
  static constexpr bool named = false;
  static constexpr bool ragged = false;
  static constexpr std::size_t parts = 1;
  static constexpr std::size_t sizes = 1;
};
template <HasColumns S> struct schema_traits<S> {
  using columns = columns_traits<typename columns_of<S>::type>;
  static_assert(columns::count != 0, "penstock: a schema of columns has at least one.");
  static constexpr bool named = true;
  static constexpr bool ragged = columns::ragged;
  static constexpr std::size_t parts = columns::parts_before(columns::count);
  static constexpr std::size_t sizes = columns::sizes_before(columns::count);
};

} // namespace detail
} // namespace penstock
