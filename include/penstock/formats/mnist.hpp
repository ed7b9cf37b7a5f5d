// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/schema.hpp>
#include <penstock/formats/array_options.hpp>
#include <penstock/formats/detail/array_columns.hpp>
#include <penstock/formats/detail/array_files.hpp>
#include <penstock/formats/detail/array_header.hpp>
#include <penstock/io/posix.hpp>
#include <penstock/sources/detail/foreign_kind.hpp>
#include <penstock/sources/detail/header_file.hpp>
#include <penstock/sources/detail/paths.hpp>

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace penstock::detail {

/// Reads the header of an IDX file, the format of the MNIST data sets, as
/// http://yann.lecun.com/exdb/mnist/ describes it: two zero bytes, one for the type, one for the
/// number of dimensions; then each extent in 4 bytes, the most significant one first, as in the
/// values. Throws SourceError.
[[gnu::cold]] inline ArrayHeader idx_header(const HeaderFile& file) {
  std::byte magic[4];
  file.read(0, magic);
  if (magic[0] != std::byte{0} || magic[1] != std::byte{0}) {
    refuse_foreign(file);
    file.refuse(0, {"does not begin with two zero bytes, as an IDX file does: it is damaged, or of "
                    "another format. Name an IDX file, such as train-images-idx3-ubyte."});
  }
  ArrayHeader header;
  const auto code = std::to_integer<unsigned>(magic[2]);
  switch (code) {
  case 0x08:
    header.type = {'u', 1};
    break;
  case 0x09:
    header.type = {'i', 1};
    break;
  case 0x0B:
    header.type = {'i', 2};
    break;
  case 0x0C:
    header.type = {'i', 4};
    break;
  case 0x0D:
    header.type = {'f', 4};
    break;
  case 0x0E:
    header.type = {'f', 8};
    break;
  default:
    file.refuse(2, {"has ", code,
                    " for the type of its values, and IDX files have 8, 9 or 11 to 14 there: the "
                    "file is damaged, or of another format. Write or fetch it again."});
  }
  header.dims = std::to_integer<std::size_t>(magic[3]);
  if (header.dims > ArrayHeader::most_extents) {
    file.refuse(
        3, {"has ", header.dims, " dimensions, more than the ", ArrayHeader::most_extents,
            " that are read: the file is damaged, or of another format. Write or fetch it again."});
  }
  for (std::size_t i = 0; i != header.dims; ++i) {
    header.extents[i] = file.number<std::uint32_t>(4 + 4 * i, true);
  }
  header.offset = 4 + 4 * header.dims;
  header.swapped = std::endian::native == std::endian::little && header.type.bytes != 1;
  return header;
}

} // namespace penstock::detail

namespace penstock {

namespace detail {

struct IdxFormat : OneArrayAFile<idx_header> {
  static constexpr const char* call = "mnist";
};

} // namespace detail

/// A source of the records of IDX files, the format of the MNIST data sets. Made by mnist(). Copies
/// share what open() has opened. Io makes the system calls: see PosixIo.
template <class T, class Io = PosixIo>
using Mnist = typename detail::arrays_of<T, detail::IdxFormat, Io>::type;

/// Makes a source of an IDX file, the format of the MNIST data sets,
/// `mnist<std::uint8_t>("labels")`, or of the files in a directory. A record is what lies at one
/// index of the first axis: for an array of one dimension a T; for others, rows of bytes, as
/// `mnist<std::byte>(path)`, or a column of a schema. T is the type that the file has, an integer
/// of 8, 16 or 32 bits, float or double, or std::byte for any. Values come in this machine's byte
/// order. A file that has more or fewer bytes than its array is refused when it is opened; so is
/// one that gzip has compressed. It touches no file before open(), which prepare() calls. The files
/// must stay as they are while they are read.
template <class T, class Io = PosixIo>
  requires(!detail::HasColumns<T>)
Mnist<T, Io> mnist(std::string path, ArrayOptions options = {}, Io io = {}) {
  std::vector<std::string> paths;
  paths.push_back(std::move(path));
  return Mnist<T, Io>{std::move(paths), options, std::move(io)};
}
/// Makes a source of several files, whose arrays follow each other along their first axis: all of
/// one type and, but for that axis, of one shape.
template <class T, class Io = PosixIo>
  requires(!detail::HasColumns<T>)
Mnist<T, Io> mnist(std::vector<std::string> paths, ArrayOptions options = {}, Io io = {}) {
  return Mnist<T, Io>{std::move(paths), options, std::move(io)};
}
/// Makes a source of several files named in a list, `mnist<T>({"a", "b"})`, which could else be
/// one string's two ends.
template <class T, class Io = PosixIo>
  requires(!detail::HasColumns<T>)
Mnist<T, Io> mnist(std::initializer_list<std::string> paths, ArrayOptions options = {},
                   Io io = {}) {
  return Mnist<T, Io>{std::vector<std::string>{paths}, options, std::move(io)};
}
/// Makes a source of columns, each of IDX files of its own: `mnist<Sample>(images, labels)`, with a
/// path or a std::vector of paths for each column. An array's type is that of its column, and its
/// shape, behind the first axis, the column's extents, one of which may be `dynamic`. All columns
/// have equally many records.
template <detail::HasColumns Schema, std::convertible_to<detail::Paths>... Files>
Mnist<Schema> mnist(Files... files) {
  constexpr std::size_t columns =
      detail::columns_traits<typename detail::columns_of<Schema>::type>::count;
  static_assert(columns == sizeof...(Files),
                "penstock: mnist<Schema>(files...) takes the files of each column of the schema: a "
                "path, or a list of paths, for each.");
  if constexpr (columns == sizeof...(Files)) {
    return Mnist<Schema>{{detail::Paths{std::move(files)}.take()...}};
  } else {
    return Mnist<Schema>{{}};
  }
}

} // namespace penstock
