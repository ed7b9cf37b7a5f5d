// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/text.hpp>
#include <penstock/formats/detail/safetensors_header.hpp>
#include <penstock/formats/detail/tensor_list.hpp>
#include <penstock/formats/packed/detail/packed_layout.hpp>
#include <penstock/formats/packed/detail/packed_reader.hpp>
#include <penstock/formats/tensor_info.hpp>
#include <penstock/io/crc32c.hpp>
#include <penstock/io/file.hpp>
#include <penstock/sources/detail/foreign_kind.hpp>
#include <penstock/sources/detail/header_file.hpp>
#include <penstock/sources/detail/value_type.hpp>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

// Packed safetensors files, which docs/packed.md describes.
namespace penstock::detail {

/// The member of __metadata__ that has the plain file's size and header. The tensor that has the
/// packed header and index has this name, too, with a dot and the checksum of the plain header
/// behind it, since the shards of a model have each name once.
inline constexpr std::string_view packed_tensors_name{"penstock.packed"};
/// The bytes of a record: a tensor is whole ones, filled up with zeros.
inline constexpr std::uint64_t packed_tensor_record = 256;

/// Returns as what the elements of a tensor are packed: bytes, if no numbers of files.
constexpr ValueType packed_type_of(TensorType type) noexcept {
  switch (type) {
  case TensorType::bf16:
    return {'V', 2};
  case TensorType::f16:
    return {'f', 2};
  case TensorType::f32:
  case TensorType::c64:
    return {'f', 4};
  case TensorType::f64:
    return {'f', 8};
  case TensorType::i8:
    return {'i', 1};
  case TensorType::i16:
    return {'i', 2};
  case TensorType::i32:
    return {'i', 4};
  case TensorType::i64:
    return {'i', 8};
  case TensorType::u16:
    return {'u', 2};
  case TensorType::u32:
    return {'u', 4};
  case TensorType::u64:
    return {'u', 8};
  default:
    return {'u', 1};
  }
}
/// Returns the name of the tensor that has the packed header and index.
inline std::string packed_tensors_index(std::string_view header) {
  return joined({packed_tensors_name, ".", crc32c(std::as_bytes(std::span{header}))});
}
/// Returns how many records a tensor is.
constexpr std::uint64_t packed_records_of(const TensorInfo& tensor) noexcept {
  return tensor.bytes / packed_tensor_record + (tensor.bytes % packed_tensor_record != 0 ? 1 : 0);
}

/// What a packed safetensors file has.
struct PackedTensors {
  SafetensorsHeader plain{};         ///< What the plain file's header says.
  std::string header{};              ///< Its text.
  std::vector<PackedFile> columns{}; ///< One for each tensor that has bytes, in their order.
};

/// Returns what a packed safetensors file has whose header says this. Throws SourceError.
[[gnu::cold]] inline PackedTensors packed_tensors_in(const SafetensorsHeader& outer,
                                                     const HeaderFile& bytes) {
  const auto plain = outer.metadata.find(std::string{packed_tensors_name});
  if (plain == outer.metadata.end() || outer.tensors.empty() ||
      !outer.tensors.back().name.starts_with(packed_tensors_name)) {
    bytes.refuse(0, {"begins a safetensors file that is not packed: read it by "
                     "ps::safetensors(), or pack it."});
  }
  const auto refuse = [&](const char* what) {
    bytes.refuse(safetensors_length_bytes,
                 {"begins a packed safetensors header ", what, ": write or fetch the file again."});
  };
  PackedTensors made;
  std::uint64_t size = 0;
  const std::string& text = plain->second;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  if (error != std::errc{} || end == text.data() + text.size() || *end != ' ') {
    refuse("that does not have the plain file's size");
  }
  made.header.assign(end + 1, text.data() + text.size());
  if (size < safetensors_length_bytes + made.header.size()) {
    refuse("whose plain file would be smaller than its header");
  }
  const std::string path{bytes.path()};
  made.plain = SafetensorsParser{std::as_bytes(std::span{made.header}), size, path}.parse();
  PackedFile all = PackedFileReader{bytes, outer.tensors.back().offset}.read();
  std::size_t number = 0;
  for (const TensorInfo& tensor : made.plain.tensors) {
    if (tensor.bytes == 0) {
      continue;
    }
    const std::uint64_t records = packed_records_of(tensor);
    const ValueType type = packed_type_of(tensor.type);
    const std::uint64_t each = packed_tensor_record / type.bytes;
    if (number == all.columns.size() || all.records != 1 || all.columns[number].type != type ||
        all.columns[number].record_values() != records * each) {
      refuse("whose columns are not its tensors");
    }
    PackedColumn& column = all.columns[number++];
    column.extents = {each};
    made.columns.push_back({records, {}});
    made.columns.back().columns.push_back(std::move(column));
  }
  if (number != all.columns.size()) {
    refuse("that has more columns than tensors");
  }
  return made;
}

/// Reads what a packed safetensors file has, which is nothing for a file of another kind. Throws
/// SourceError, also for a safetensors file that is not packed.
template <class Io>
[[gnu::cold]] std::optional<PackedTensors> read_packed_tensors(const File<Io>& file,
                                                               const HeaderFile& bytes) {
  std::vector<std::byte> begin(std::min<std::uint64_t>(file.size(), foreign_bytes));
  read_full(file, 0, begin);
  if (!is_safetensors({reinterpret_cast<const char*>(begin.data()), begin.size()}, file.size())) {
    return {};
  }
  return packed_tensors_in(read_safetensors_header(file), bytes);
}

} // namespace penstock::detail
