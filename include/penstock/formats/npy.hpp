// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/schema.hpp>
#include <penstock/formats/array_options.hpp>
#include <penstock/formats/detail/array_columns.hpp>
#include <penstock/formats/detail/array_files.hpp>
#include <penstock/formats/detail/array_header.hpp>
#include <penstock/formats/detail/npy_header.hpp>
#include <penstock/io/posix.hpp>
#include <penstock/sources/detail/paths.hpp>

#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace penstock {

namespace detail {

struct NpyFormat : OneArrayAFile<npy_header> {
  static constexpr const char* call = "npy";
};

} // namespace detail

/// A source of the records of .npy files, as NumPy's np.save() writes them. Made by npy(). Copies
/// share what open() has opened. Io makes the system calls: see PosixIo.
template <class T, class Io = PosixIo>
using Npy = typename detail::arrays_of<T, detail::NpyFormat, Io>::type;

/// Makes a source of a .npy file, `npy<float>("x.npy")`, or of the files in a directory. A record
/// is what lies at one index of the first axis: for an array of one dimension a T; for others, rows
/// of bytes, as `npy<std::byte>(path)`, or a column of a schema. T is the type that the file has: a
/// number, bool, Half, BFloat16 (NumPy's V2), or std::byte for any. Either byte order is read:
/// values come as this machine has them. Refused when it is opened, by name: Fortran order,
/// objects, structures, strings, dates, complex numbers, an array of no dimensions, and a file that
/// has more or fewer bytes than its array. A list of paths stands for all of them, whose arrays
/// follow each other along their first axis, and are of one type and, but for that axis, of one
/// shape. It touches no file before open(), which prepare() calls.
/// The files must stay as they are while they are read.
template <class T, class Io = PosixIo>
  requires(!detail::HasColumns<T>)
Npy<T, Io> npy(detail::Paths paths, ArrayOptions options = {}, Io io = {}) {
  return Npy<T, Io>{std::move(paths).take(), options, std::move(io)};
}
/// Makes a source of columns, each of .npy files of its own: `npy<Sample>("images.npy",
/// "labels.npy")`, with a path or a std::vector of paths for each column. An array's type is that
/// of its column, and its shape, behind the first axis, the column's extents, one of which may be
/// `dynamic`. All columns have equally many records.
template <detail::HasColumns Schema, std::convertible_to<detail::Paths>... Files>
Npy<Schema> npy(Files... files) {
  constexpr std::size_t columns =
      detail::columns_traits<typename detail::columns_of<Schema>::type>::count;
  static_assert(columns == sizeof...(Files),
                "penstock: npy<Schema>(files...) takes the files of each column of the schema: a "
                "path, or a list of paths, for each.");
  if constexpr (columns == sizeof...(Files)) {
    return Npy<Schema>{{detail::Paths{std::move(files)}.take()...}};
  } else {
    return Npy<Schema>{{}};
  }
}

} // namespace penstock
