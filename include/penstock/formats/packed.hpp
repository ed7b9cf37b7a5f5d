// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/batch.hpp>
#include <penstock/data/memory.hpp>
#include <penstock/data/schema.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/formats/detail/array_columns.hpp>
#include <penstock/formats/detail/tensor_list.hpp>
#include <penstock/formats/packed/detail/packed_files.hpp>
#include <penstock/formats/packed/detail/packed_layout.hpp>
#include <penstock/formats/packed/detail/packed_reader.hpp>
#include <penstock/formats/packed/detail/packed_tensors.hpp>
#include <penstock/formats/packed/packed_info.hpp>
#include <penstock/formats/tensor_info.hpp>
#include <penstock/io/file.hpp>
#include <penstock/io/posix.hpp>
#include <penstock/run/options.hpp>
#include <penstock/sources/detail/checks.hpp>
#include <penstock/sources/detail/foreign_kind.hpp>
#include <penstock/sources/detail/header_file.hpp>
#include <penstock/sources/detail/paths.hpp>
#include <penstock/sources/detail/record_files.hpp>
#include <penstock/sources/detail/value_type.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock {

namespace detail {

/// The columns of packed files that a schema stands for.
template <class Schema> struct packed_columns {
  static constexpr bool fit = is_value<Schema>;
  static constexpr std::size_t count = 1;
  static std::array<WantedColumn, 1> wanted() { return {{{"", value_type_of<Schema>(), {}}}}; }
};
template <class... Fields> struct packed_columns<Columns<Fields...>> {
  static constexpr bool fit = !columns_traits<Columns<Fields...>>::ragged &&
                              (is_value<typename column_value<Fields>::type> && ...);
  static constexpr std::size_t count = sizeof...(Fields);
  static std::array<WantedColumn, count> wanted() {
    return {WantedColumn{Fields::name::text, value_type_of<typename column_value<Fields>::type>(),
                         column_value<Fields>::extents()}...};
  }
};
template <HasColumns Schema>
  requires(!std::is_same_v<Schema, typename columns_of<Schema>::type>)
struct packed_columns<Schema> : packed_columns<typename columns_of<Schema>::type> {};

} // namespace detail

/// A source of the records of packed files, which it unpacks on the Reader's workers. Made by
/// unpacked(). Copies share what open() has opened. Io makes the system calls: see PosixIo.
template <class Schema, class Io = PosixIo> class Unpacked {
  using Wanted = detail::packed_columns<Schema>;
  static constexpr bool has_numbers = Wanted::fit;
  static_assert(has_numbers,
                "penstock: a packed file holds numbers, bool, Half and BFloat16: "
                "unpacked<T>() takes one of these, or columns of them without Ragged.");
  using Files = detail::PackedFiles<Io>;

 public:
  /// The type of its records.
  using schema = Schema;

  /// Takes files and directories; touches none before open().
  explicit Unpacked(std::vector<std::string> paths, Io io = {})
      : closed_{"unpacked", std::move(paths), std::move(io)} {}

  /// Opens the files and reads their headers and indexes, many side by side; it checks all of them,
  /// and reads no chunk. Keeps 24 bytes a chunk, and the tables. Blocks. Throws SourceError with
  /// file and offset for what is no packed file, is damaged or cut, or has other columns than the
  /// schema; what progress throws. Does nothing the second time.
  void open(const PrepareOptions& preparing = {}) {
    if (!files_) {
      const auto wanted = Wanted::wanted();
      files_ = detail::new_shared<Files>(closed_, preparing,
                                         std::span<const detail::WantedColumn>{wanted});
    }
  }

  /// Returns how many records all files have. After open().
  std::uint64_t size() const { return files().size(); }
  /// Returns the bytes of a record. After open().
  std::size_t record_bytes() const
    requires(!detail::HasColumns<Schema>)
  {
    return files().record_bytes();
  }
  /// Returns the dynamic extents, in order. After open().
  const std::vector<std::size_t>& extents() const
    requires(detail::HasColumns<Schema>)
  {
    return files().extents();
  }

  /// Unpacks the records from into.index() on, which are numbered through all files, and checks
  /// each chunk, packed and unpacked. A chunk of which some records are wanted is unpacked as a
  /// whole, so take records in runs: `Order::block` keeps a chunk's together. After open(). Blocks;
  /// any number of threads at once, each of which keeps 256 KiB of memory for it. Throws
  /// SourceError with file, offset and the first record of the chunk at fault.
  template <HostSpace Where> std::size_t read(Batch<Schema, Where> into) const {
    if constexpr (detail::HasColumns<Schema>) {
      detail::check_range("unpacked", into.index(), into.size(), 0, size(), 0);
    } else {
      detail::check_range("unpacked", into, size(), record_bytes());
    }
    for (std::size_t column = 0; column != Wanted::count; ++column) {
      files().read(column, into.index(), into.size(),
                   static_cast<std::byte*>(into.view().parts[column]));
    }
    return into.size();
  }
  /// Has the system read the chunks of these records into the page cache. Any thread.
  void will_read(std::uint64_t first, std::uint64_t count) const noexcept {
    files_->will_read(first, count);
  }
  /// Appends how the files are read.
  [[gnu::cold]] void note(std::string& to) const { files().files().note(to); }

 private:
  const Files& files() const {
    if (!files_) {
      static_cast<void>(closed_.size()); // throws
    }
    return *files_;
  }

  detail::RecordFiles<Io> closed_;
  detail::Shared<const Files> files_;
};

/// Makes a source of the records of a packed file, or of all in a directory:
/// `unpacked<std::uint16_t>("train.packed")` for its only column, without extents,
/// `unpacked<std::byte>(path)` for rows of it, whatever they hold, or `unpacked<Sample>(path)` for
/// columns by their names, some of the file's or all. Of packed safetensors files, `std::byte`
/// gives the tensors, as packed_tensors_of() says. It touches no file before open(), which
/// prepare() calls. The files must stay as they are while they are read.
template <class Schema, class Io = PosixIo>
Unpacked<Schema, Io> unpacked(detail::Paths paths, Io io = {}) {
  return Unpacked<Schema, Io>{std::move(paths).take(), std::move(io)};
}

namespace detail {

inline PackedColumnInfo info_of(const PackedColumn& column, std::uint64_t records) {
  PackedColumnInfo info;
  info.name = column.name;
  info.type = name_of(column.type);
  info.extents = column.extents;
  info.codec = column.code.codec;
  info.chunks = column.chunks.size();
  info.bytes = column.record_values() * records * column.type.bytes;
  info.packed_bytes = column.code.table_bytes();
  for (const PackedPlace& chunk : column.chunks) {
    info.packed_bytes += chunk.bytes;
    info.raw_chunks += chunk.codec == PackedCodec::raw ? 1 : 0;
  }
  return info;
}

} // namespace detail

/// Whether a file is packed, or a packed safetensors file, by its first bytes or its header.
/// Blocks. Throws SourceError if it cannot be read, or has a damaged safetensors header.
template <class Io = PosixIo> [[gnu::cold]] bool is_packed(const std::string& path, Io io = {}) {
  const File<Io> file{std::move(io), path};
  std::vector<std::byte> begin(std::min<std::uint64_t>(file.size(), detail::foreign_bytes));
  read_full(file, 0, begin);
  const std::string_view text{reinterpret_cast<const char*>(begin.data()), begin.size()};
  return text.starts_with(detail::packed_magic) ||
         (detail::is_safetensors(text, file.size()) &&
          detail::read_safetensors_header(file).metadata.contains(
              std::string{detail::packed_tensors_name}));
}

/// Returns the columns of a packed file, or the tensors that have bytes of a packed safetensors
/// file, and checks its header and index. Blocks. Throws SourceError.
template <class Io = PosixIo>
[[gnu::cold]] std::vector<PackedColumnInfo> packed_columns_of(const std::string& path, Io io = {}) {
  const File<Io> file{io, path};
  const auto read = [&](std::uint64_t at, std::span<std::byte> into) { read_full(file, at, into); };
  const detail::HeaderFile header{file.path(), file.size(), read};
  std::vector<PackedColumnInfo> infos;
  if (const auto tensors = detail::read_packed_tensors(file, header)) {
    for (const TensorInfo& tensor : tensors->plain.tensors) {
      if (tensor.bytes != 0) {
        const detail::PackedFile& its = tensors->columns[infos.size()];
        PackedColumnInfo& info =
            infos.emplace_back(detail::info_of(its.columns.front(), its.records));
        info.name = tensor.name;
        info.extents = tensor.shape;
        info.bytes = tensor.bytes;
      }
    }
    return infos;
  }
  const detail::PackedFile has = detail::PackedFileReader{header}.read();
  for (const detail::PackedColumn& column : has.columns) {
    infos.push_back(detail::info_of(column, has.records));
  }
  return infos;
}

} // namespace penstock
