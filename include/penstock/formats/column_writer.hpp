// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/batch.hpp>
#include <penstock/data/column.hpp>
#include <penstock/data/schema.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/detail/engine/build.hpp>
#include <penstock/error.hpp>
#include <penstock/formats/detail/array_header.hpp>
#include <penstock/io/new_file.hpp>
#include <penstock/io/posix.hpp>
#include <penstock/sources/detail/value_type.hpp>
#include <penstock/stage.hpp>
#include <penstock/stages/writer.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace penstock {

/// A column of batches, and the file that it goes into. Made by column().
template <class Spelled> struct ColumnFile {
  std::string path; ///< Where the file will lie.
};

/// Says which column a Writer writes into which file: `ps::Writer{ps::column<"thumb">("t.npy"),
/// ps::column<"label">("labels.bin")}`.
template <Name Wanted, class Spelled = typename detail::spelled<Wanted>::type>
ColumnFile<Spelled> column(std::string path) {
  return {std::move(path)};
}

namespace detail {

/// The names of the columns that a Writer writes.
template <class... Spelled> struct WrittenColumns;

inline bool is_npy(const std::string& path) noexcept {
  return path.ends_with(".npy");
}
/// The bytes before the values of a .npy file whose array has so many axes: enough for all numbers.
constexpr std::size_t npy_header_bytes(std::size_t axes) noexcept {
  return (96 + 22 * axes + 63) / 64 * 64;
}
/// Returns those bytes.
[[gnu::cold]] inline std::string npy_header_of(ValueType type,
                                               const Vector<std::uint64_t>& extents) {
  constexpr std::size_t before = 10; // a magic number, a version, and how long the text is
  const char order = type.bytes == 1 ? '|' : std::endian::native == std::endian::big ? '>' : '<';
  std::string text =
      joined({"{'descr': '", std::string_view{&order, 1}, std::string_view{&type.kind, 1},
              type.bytes, "', 'fortran_order': False, 'shape': ", shape_of(extents), ", }"});
  text.resize(npy_header_bytes(extents.size()) - before - 1, ' ');
  text += '\n';
  return std::string{"\x93NUMPY\x01\x00", 8} + static_cast<char>(text.size() % 256) +
         static_cast<char>(text.size() / 256) + text;
}

/// Why a Writer of columns does not take a batch: records that it takes instead, for the compiler
/// to name.
/// @{
template <class Name> struct NoColumnOfThisName {};
template <class Name> struct RaggedColumnOf {}; // records of any length, in a file of values
/// @}
/// A column that is to be written, of batches of S.
template <class Name, class S> struct WrittenColumn {
  using in = lookup<Name, S, true>;
  static constexpr bool there = in::in_columns && in::there;
  static constexpr bool ragged = is_ragged_column<decltype(in::view::make(BatchView<S>{}))>;
  static constexpr bool good = there && !ragged;
  using refused = std::conditional_t<there, RaggedColumnOf<Name>, NoColumnOfThisName<Name>>;
};
/// What a Writer of columns takes: their batch, if each column is good, else why it is not.
template <class Given, class... Spelled> struct takes_columns : written<Given> {};
template <class S, class Where, class First, class... Spelled>
struct takes_columns<Batch<S, Where>, First, Spelled...>
    : std::conditional_t<
          WrittenColumn<First, std::remove_const_t<S>>::good,
          takes_columns<Batch<S, Where>, Spelled...>,
          written<Batch<typename WrittenColumn<First, std::remove_const_t<S>>::refused, Where>>> {};

/// Writes the columns of batches, each into its file.
template <class S, class Where, class... Spelled> struct WriteColumns {
  const OutputFiles<PosixIo>* files;

  void operator()(Batch<const S, Where> batch) const {
    each(batch, [&]<class T, std::size_t... E>(const NewFile<PosixIo>& file,
                                               const Column<T, E...>& column) {
      const std::size_t bytes = column.elements() * sizeof(T);
      const std::size_t before = is_npy(file.path()) ? npy_header_bytes(1 + sizeof...(E)) : 0;
      file.write(before + batch.index() * bytes,
                 std::as_bytes(std::span{column.data(), column.size() * column.elements()}));
    });
  }
  void end(std::uint64_t records, Batch<const S, Where> none) const {
    each(none, [&]<class T, std::size_t... E>(const NewFile<PosixIo>& file,
                                              const Column<T, E...>& column) {
      if (is_npy(file.path())) {
        Vector<std::uint64_t> extents;
        extents.push_back(records);
        for (std::size_t at = 0; at != sizeof...(E); ++at) {
          constexpr std::size_t fixed[]{E..., 0};
          if constexpr (((E == dynamic) || ...)) {
            extents.push_back(column.extent(at));
          } else {
            extents.push_back(fixed[at]);
          }
        }
        const std::string header = npy_header_of(value_type_of<std::remove_const_t<T>>(), extents);
        file.write(0, std::as_bytes(std::span{header}));
      }
    });
  }
  /// Throws OptionError if two columns have the same file, or a .npy file cannot say what a
  /// column's values are.
  [[gnu::cold]] static void check(const Vector<std::string>& paths) {
    for (const std::string& path : paths) {
      if (std::count(paths.begin(), paths.end(), path) != 1) {
        throw_error<OptionError>(
            {"penstock: Writer: two columns go into ", path, ": name a file for each."});
      }
    }
    std::size_t at = 0;
    columns_of_batch({}, [&]<class T, std::size_t... E>(const Column<T, E...>&) {
      if (const std::string& path = paths[at++];
          !is_value<std::remove_const_t<T>> && is_npy(path)) {
        throw_error<OptionError>({"penstock: Writer: ", path,
                                  " cannot say what the values of its column are, which are no "
                                  "numbers: end its name otherwise, and the bytes alone are "
                                  "written."});
      }
    });
  }

 private:
  // Calls f(column) for each, but for those that were refused.
  template <class F> static void columns_of_batch(const BatchView<S>& batch, F f) {
    const auto one = [&]<class Found>(Found) {
      if constexpr (Found::good) {
        f(Found::in::view::make(batch));
      }
    };
    (one(WrittenColumn<Spelled, S>{}), ...);
  }
  template <class F> void each(const Batch<const S, Where>& batch, F f) const {
    std::size_t at = 0;
    columns_of_batch(batch.view(), [&](const auto& column) { f((*files)[at++], column); });
  }
};

} // namespace detail

/// Writes columns, each into a file of its own: their values, record after record, as a .npy file
/// if that is how its name ends. All files get their names, or none does: see
/// NewFile::commit_all(). Else as a Writer of records. Ragged columns are refused.
template <class... Spelled>
class Writer<detail::WrittenColumns<Spelled...>, WriterOptions> : public StageBase {
 public:
  /// The batch it takes: Given's columns, in host memory of either kind.
  template <class Given> using takes = typename detail::takes_columns<Given, Spelled...>::type;
  /// Nothing: a Writer is the last stage.
  template <class> using gives = void;

  /// Takes columns and their files; creates nothing before a run.
  explicit Writer(ColumnFile<Spelled>... files) : Writer{WriterOptions{}, std::move(files)...} {}
  /// Takes options before them.
  explicit Writer(WriterOptions options, ColumnFile<Spelled>... files) : options_{options} {
    (paths_.push_back(std::move(files.path)), ...);
  }

  /// For prepare().
  template <class Given> void plan(detail::Plan& plan) const { plan.sees_records(); }
  /// For prepare().
  template <class Given, class D> [[gnu::cold]] void build(detail::Build<D>& build) const {
    using In = detail::batch_of<Given>;
    using Write = detail::WriteColumns<typename In::schema, typename In::space, Spelled...>;
    Write::check(paths_);
    detail::build_writer<Write, In>(build, PosixIo{}, paths_, options_);
  }

 private:
  detail::Vector<std::string> paths_;
  WriterOptions options_;
};
/// Deduce a Writer of columns.
/// @{
template <class First, class... Spelled>
Writer(ColumnFile<First>, ColumnFile<Spelled>...)
    -> Writer<detail::WrittenColumns<First, Spelled...>, WriterOptions>;
template <class First, class... Spelled>
Writer(WriterOptions, ColumnFile<First>, ColumnFile<Spelled>...)
    -> Writer<detail::WrittenColumns<First, Spelled...>, WriterOptions>;
/// @}

} // namespace penstock
