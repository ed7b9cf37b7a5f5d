// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/text.hpp>
#include <penstock/error.hpp>
#include <penstock/formats/detail/tensor_list.hpp>
#include <penstock/formats/packed/detail/packed_layout.hpp>
#include <penstock/formats/packed/detail/packed_tensors.hpp>
#include <penstock/formats/packed/packed_info.hpp>
#include <penstock/formats/packed/packed_writer.hpp>
#include <penstock/formats/tensor_info.hpp>
#include <penstock/io/file.hpp>
#include <penstock/io/posix.hpp>
#include <penstock/run/json.hpp>
#include <penstock/sources/detail/header_file.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock {

namespace detail {

/// The header of a packed safetensors file: what it says before it is known where tensors lie, and
/// afterwards.
class PackedTensorsHeader {
 public:
  /// `plain` is what the plain file's header says, `text` that header, and `size` the file's bytes.
  PackedTensorsHeader(const SafetensorsHeader& plain, std::string_view text, std::uint64_t size)
      : plain_{plain}, index_{packed_tensors_index(text)} {
    for (const auto& [name, value] : plain.metadata) {
      metadata_.emplace_back(name, value);
    }
    metadata_.emplace_back(packed_tensors_name, std::to_string(size) + ' ' + std::string{text});
    const std::vector<std::uint64_t> farthest(plain.tensors.size() + 2, ~std::uint64_t{0});
    const std::uint64_t bytes = safetensors_length_bytes + json(farthest).size();
    bytes_ = (bytes + packed_alignment - 1) / packed_alignment * packed_alignment;
  }

  /// Returns the bytes that it has, with the length before it.
  std::uint64_t bytes() const noexcept { return bytes_; }
  /// Returns it, with the length before it: tensor number i lies from begins[i] to before
  /// begins[i + 1], counted from the end of the header, and the last one is the packed index.
  std::string text(const std::vector<std::uint64_t>& begins) const {
    std::string made;
    for (unsigned i = 0; i != safetensors_length_bytes; ++i) {
      made += static_cast<char>((bytes_ - safetensors_length_bytes) >> (8 * i));
    }
    made += json(begins);
    made.resize(bytes_, ' ');
    return made;
  }

 private:
  std::string json(const std::vector<std::uint64_t>& begins) const {
    std::vector<Json::Member> members{{"__metadata__", Json::object(metadata_)}};
    for (std::size_t i = 0; i + 1 != begins.size(); ++i) {
      const bool last = i == plain_.tensors.size();
      const std::string& name = last ? index_ : plain_.tensors[i].name;
      const std::uint64_t end = begins[i + 1];
      const std::uint64_t some = end == ~std::uint64_t{0} ? end : end - begins[i];
      members.emplace_back(name, Json::object({{"dtype", "U8"},
                                               {"shape", Json::array({some})},
                                               {"data_offsets", Json::array({begins[i], end})}}));
    }
    return Json::object(members).text();
  }

  const SafetensorsHeader& plain_;
  std::string index_;
  std::vector<Json::Member> metadata_;
  std::uint64_t bytes_ = 0;
};

} // namespace detail

/// Returns the tensors of packed safetensors files, in order: their types, shapes and bytes are
/// those of the plain files, and their data begins at byte `at` of what `packed<std::byte>()` and
/// `unpacked<std::byte>()` give of the same paths, whose records are 256 bytes: each tensor begins
/// with one, and zeros fill up its last. `offset` is that in the plain file. Blocks. Throws
/// SourceError for a file that is none, or is damaged.
template <class Io = PosixIo>
[[gnu::cold]] std::vector<TensorInfo> packed_tensors_of(const std::vector<std::string>& paths,
                                                        Io io = {}) {
  std::vector<TensorInfo> all;
  std::uint64_t at = 0;
  for (std::size_t file = 0; file != paths.size(); ++file) {
    const File<Io> opened{io, paths[file]};
    const auto read = [&](std::uint64_t from, std::span<std::byte> into) {
      read_full(opened, from, into);
    };
    const auto its =
        detail::read_packed_tensors(opened, detail::HeaderFile{opened.path(), opened.size(), read});
    if (!its) {
      detail::throw_source_error({"penstock: ", paths[file],
                                  " is no safetensors file: name files that pack_safetensors() has "
                                  "written."},
                                 paths[file], 0);
    }
    for (TensorInfo tensor : its->plain.tensors) {
      tensor.file = file;
      tensor.at = at;
      at += detail::packed_records_of(tensor) * detail::packed_tensor_record;
      all.push_back(std::move(tensor));
    }
  }
  return all;
}

/// Packs the safetensors file `in` into another one, `out`, which keeps each tensor's name and
/// holds it packed, as U8; the plain file's header is in its __metadata__. Reads `in` twice. `out`
/// appears whole, or not at all. Returns what each tensor that has bytes became. Blocks. Throws
/// SourceError; SinkError; OptionError.
template <class Io = PosixIo>
std::vector<PackedColumnInfo> pack_safetensors(const std::string& in, const std::string& out,
                                               PackedWriterOptions options = {}, Io io = {}) {
  const File<Io> file{io, in};
  const detail::SafetensorsHeader plain = detail::read_safetensors_header(file);
  if (plain.metadata.contains(std::string{detail::packed_tensors_name})) {
    detail::throw_source_error(
        {"penstock: ", in, " is packed already: pack the file that it was made of."}, in, 0);
  }
  std::string text(plain.data - detail::safetensors_length_bytes, '\0');
  read_full(file, detail::safetensors_length_bytes, std::as_writable_bytes(std::span{text}));
  const detail::PackedTensorsHeader header{plain, text, file.size()};
  std::vector<PackedColumnShape> columns;
  for (const TensorInfo& tensor : plain.tensors) {
    if (tensor.bytes != 0) {
      const detail::ValueType type = detail::packed_type_of(tensor.type);
      columns.push_back(
          {std::to_string(columns.size()),
           type,
           {detail::packed_records_of(tensor) * detail::packed_tensor_record / type.bytes}});
    }
  }
  if (columns.empty()) {
    detail::throw_source_error(
        {"penstock: ", in, " has no bytes of tensors: there is none to pack."}, in, 0);
  }
  PackedWriter<Io> writer{out, columns, options, io};
  writer.begin_at(header.bytes());
  std::vector<std::byte> piece;
  const auto each_piece = [&](const TensorInfo& tensor, auto take) {
    constexpr std::uint64_t most = std::uint64_t{8} << 20;
    for (std::uint64_t at = 0; at != tensor.bytes;) {
      const std::uint64_t some = std::min(tensor.bytes - at, most);
      piece.assign((some + 255) / detail::packed_tensor_record * detail::packed_tensor_record,
                   std::byte{0});
      read_full(file, tensor.offset + at, std::span{piece}.first(some));
      take(std::span<const std::byte>{piece});
      at += some;
    }
  };
  std::size_t column = 0;
  for (const TensorInfo& tensor : plain.tensors) {
    if (tensor.bytes != 0) {
      each_piece(tensor, [&](auto bytes) { writer.learn(column, bytes); });
      each_piece(tensor, [&](auto bytes) { writer.add(column, bytes); });
      writer.end_column(column++);
    }
  }
  auto infos = writer.finish_by([&](auto& to, const std::vector<detail::PackedColumn>& packed,
                                    std::uint64_t records, std::uint64_t at) {
    std::vector<std::uint64_t> begins;
    std::size_t next = 0;
    std::uint64_t begin = header.bytes();
    for (const TensorInfo& tensor : plain.tensors) {
      begins.push_back(begin - header.bytes());
      if (tensor.bytes != 0) {
        ++next;
        begin = next == packed.size() ? at : packed[next].chunks.front().at;
      }
    }
    begins.push_back(at - header.bytes());
    const std::uint64_t index_at = at + detail::packed_header_bytes;
    const std::vector<std::byte> index = detail::packed_index(packed);
    to.write(at, detail::packed_header(packed.size(), records, index_at, index));
    to.write(index_at, index);
    begins.push_back(index_at + index.size() - header.bytes());
    const std::string head = header.text(begins);
    to.write(0, std::as_bytes(std::span{head}));
  });
  column = 0;
  for (const TensorInfo& tensor : plain.tensors) {
    if (tensor.bytes != 0) {
      infos[column].name = tensor.name;
      infos[column].bytes = tensor.bytes;
      infos[column++].extents = tensor.shape;
    }
  }
  return infos;
}

} // namespace penstock
