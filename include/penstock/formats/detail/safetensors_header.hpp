// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/text.hpp>
#include <penstock/formats/tensor_info.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::detail {

// The format: https://github.com/huggingface/safetensors, "Format" in its README. A file is the
// header's length as 8 bytes, little-endian; the header, a JSON object, perhaps with blanks around
// it; and the bytes of the tensors, of which data_offsets count from the first.

inline constexpr std::uint64_t most_safetensors_header = 100'000'000; // as its own reader has it
inline constexpr std::uint64_t safetensors_length_bytes = 8;
/// What is wrong with a file whose header is, and what helps.
inline constexpr std::string_view safetensors_damaged =
    "the file was cut, or its header, or the header's length in the first 8 bytes, is damaged. "
    "Write "
    "or fetch it again.";
inline constexpr std::size_t most_tensor_extents = 64;       // as NumPy has it
inline constexpr std::size_t most_tensor_metadata = 1 << 16; // some programs write a dozen

/// What a header says.
struct SafetensorsHeader {
  std::uint64_t data{};            ///< Where the tensors' bytes begin in the file.
  std::vector<TensorInfo> tensors; ///< In the order in which they lie; `file` and `at` are not set.
  std::map<std::string, std::string> metadata{};
};

/// Returns the length of the header of a file of `size` bytes, of which these are the first, 8 or
/// all. Throws SourceError if there can be no header of that length.
inline std::uint64_t safetensors_header_bytes(std::span<const std::byte> first, std::uint64_t size,
                                              const std::string& path) {
  if (size < safetensors_length_bytes || first.size() < safetensors_length_bytes) {
    throw_source_error({"penstock: ", path, " at byte 0 has ", size,
                        " bytes, and a safetensors file begins with 8 that are its header's "
                        "length: it was cut, or is of another format. Write or fetch it again."},
                       path, 0);
  }
  std::uint64_t bytes = 0;
  for (unsigned i = 0; i != safetensors_length_bytes; ++i) {
    bytes |= std::to_integer<std::uint64_t>(first[i]) << (8 * i);
  }
  if (bytes == 0 || bytes > most_safetensors_header) {
    throw_source_error({"penstock: ", path, " at byte 0 says that its safetensors header has ",
                        bytes, " bytes, and a header has 2 to ", most_safetensors_header,
                        ": it is damaged, or of another format. Write or fetch it again."},
                       path, 0);
  }
  if (bytes > size - safetensors_length_bytes) {
    throw_source_error({"penstock: ", path, " at byte 0 says that its safetensors header has ",
                        bytes, " bytes, and the file has only ", size - safetensors_length_bytes,
                        " behind the header's length, the first 8 bytes: it was cut or is damaged, "
                        "or of another format. Write or fetch it again."},
                       path, 0);
  }
  return bytes;
}

} // namespace penstock::detail
