// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Reads any bytes as a safetensors file. What is taken must cover the file exactly.

#include <penstock/error.hpp>
#include <penstock/sources/detail/safetensors_header.hpp>
#include <penstock/sources/detail/safetensors_parser.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

namespace ps = penstock;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span bytes = std::as_bytes(std::span{data, size});
  const std::string path = "fuzzed";
  // A second time as a header alone: a fuzzer seldom finds a length that fits.
  for (const bool whole : {true, false}) {
    try {
      const std::uint64_t length =
          whole ? ps::detail::safetensors_header_bytes(bytes, size, path) : size;
      const auto header = bytes.subspan(whole ? 8 : 0, length);
      const std::uint64_t file = whole ? size : 8 + length + (size != 0 ? 4 * data[size / 2] : 0U);
      std::uint64_t end = 8 + length;
      const auto found = ps::detail::SafetensorsParser{header, file, path}.parse();
      for (const ps::TensorInfo& tensor : found.tensors) {
        if (tensor.offset != end) {
          std::abort();
        }
        end += tensor.bytes;
      }
      if (end != file) {
        std::abort();
      }
    } catch (const ps::SourceError& error) {
      if (error.file() != path || error.offset() > 2 * size + 1100) {
        std::abort();
      }
    }
  }
  return 0;
}
