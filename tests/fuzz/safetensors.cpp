// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Reads any bytes as a safetensors file. What is taken must cover the file exactly.

#include "fuzz/target.hpp"

#include <penstock/error.hpp>
#include <penstock/formats/detail/safetensors_header.hpp>
#include <penstock/formats/detail/tensor_list.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace ps = penstock;

PENSTOCK_FUZZ_TARGET(fuzz_safetensors) {
  const std::span<const std::byte> bytes = input;
  const std::size_t size = input.size();
  const std::string path = "fuzzed";
  // A second time as a header alone: a fuzzer seldom finds a length that fits.
  for (const bool whole : {true, false}) {
    try {
      const std::uint64_t length =
          whole ? ps::detail::safetensors_header_bytes(bytes, size, path) : size;
      const auto header = bytes.subspan(whole ? 8 : 0, length);
      const std::uint64_t file =
          whole ? size
                : 8 + length + (size != 0 ? 4 * std::to_integer<unsigned>(input[size / 2]) : 0U);
      std::uint64_t end = 8 + length;
      const auto found = ps::detail::SafetensorsParser{header, file, path}.parse();
      for (const ps::TensorInfo& tensor : found.tensors) {
        must(tensor.offset == end);
        end += tensor.bytes;
      }
      must(end == file);
    } catch (const ps::SourceError& error) {
      must(error.file() == path && error.offset() <= 2 * size + 1100);
    }
  }
}
