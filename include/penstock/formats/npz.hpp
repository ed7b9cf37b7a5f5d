// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/schema.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/formats/array_info.hpp>
#include <penstock/formats/detail/array_columns.hpp>
#include <penstock/formats/detail/array_files.hpp>
#include <penstock/formats/detail/zip_directory.hpp>
#include <penstock/formats/npz_format.hpp>
#include <penstock/formats/npz_options.hpp>
#include <penstock/io/file.hpp>
#include <penstock/io/posix.hpp>
#include <penstock/sources/detail/header_file.hpp>
#include <penstock/sources/detail/held_bytes.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock {

/// A source of the records of arrays in .npz files, as NumPy's np.savez() and np.savez_compressed()
/// write them. Made by npz(). Copies share what open() has opened. Io makes the system calls: see
/// PosixIo.
template <class T, class Io = PosixIo>
using Npz = typename detail::arrays_of<T, detail::NpzFormat, Io>::type;

/// Makes a source of one array of a .npz file, by the name that it was saved with: `npz<float>(
/// "x.npz", "price")`; or of several files, a list of paths or a directory, whose arrays of that
/// name follow each other along their first axis. A record, the types and what is refused are those
/// of npy(). What np.savez() wrote is read in place, from any number of threads at once, and its
/// CRC-32 is not looked at. What np.savez_compressed() wrote needs NpzOptions::inflate: open()
/// inflates the array into memory, within NpzOptions::inflated_bytes, and compares its CRC-32.
/// Refused when it is opened, by name: an archive that is damaged, split, or has something before
/// or behind it; members that overlap, or of one name; and an array that is encrypted, packed in
/// another way, or of other sizes than the archive says. It touches no file before open(), which
/// prepare() calls. The files must stay as they are while they are read.
template <class T, class Io = PosixIo>
  requires(!detail::HasColumns<T>)
Npz<T, Io> npz(detail::ArrayPaths files, std::string_view name, NpzOptions options = {},
               Io io = {}) {
  return Npz<T, Io>{
      std::move(files).take(),
      {.direct = options.direct},
      std::move(io),
      {},
      {name, options.inflate, detail::new_shared<detail::BytesLeft>(options.inflated_bytes)}};
}
/// Makes a source of columns, each the array of the column's name: `npz<Sample>("x.npz")`. An
/// array's type is that of its column, and its shape, behind the first axis, the column's extents,
/// one of which may be `dynamic`. All columns have equally many records.
template <detail::HasColumns Schema, class Io = PosixIo>
Npz<Schema, Io> npz(detail::ArrayPaths files, NpzOptions options = {}, Io io = {}) {
  const std::vector<std::string> paths = std::move(files).take();
  const auto left = detail::new_shared<detail::BytesLeft>(options.inflated_bytes);
  return [&]<class... Fields>(Columns<Fields...>*) {
    const auto same = [&]<class>() { return paths; };
    return Npz<Schema, Io> {
      {same.template operator()<Fields>()...},
      {.direct = options.direct},
      std::move(io),
      {detail::NpzFormat{Fields::name::text, options.inflate, left}...}
    };
  }(static_cast<typename detail::columns_of<Schema>::type*>(nullptr));
}
/// Returns the arrays of a .npz file, in its order; other members are left out. Reads the end of
/// the file alone. Blocks; any thread. Throws SourceError.
template <class Io = PosixIo> std::vector<NpzArray> npz_arrays(std::string path, Io io = {}) {
  const File<Io> file{io, std::move(path)};
  const auto read = [&](std::uint64_t at, std::span<std::byte> into) { read_full(file, at, into); };
  const detail::HeaderFile whole{file.path(), file.size(), read};
  const detail::ZipDirectory directory{whole};
  std::vector<NpzArray> arrays;
  for (const detail::ZipEntry& entry : directory.entries()) {
    if (entry.name.ends_with(detail::NpzFormat::suffix)) {
      const std::size_t length = entry.name.size() - detail::NpzFormat::suffix.size();
      arrays.push_back({std::string{entry.name.substr(0, length)}, entry.bytes, entry.method == 8});
    }
  }
  return arrays;
}
/// Refuses an array without a name.
template <class T>
  requires(!detail::HasColumns<T>)
Npz<T> npz(detail::ArrayPaths files) {
  constexpr bool named = !sizeof(T);
  static_assert(named, "penstock: npz<T>(files, name) reads one array of an archive: give the name "
                       "that it was saved with, such as \"arr_0\".");
  return npz<T>(std::move(files), {});
}

} // namespace penstock
