// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// show_safetensors FILE…: says on a line for each file which tensors it has, each as its name,
// dtype, extents and bytes, name and bytes in hexadecimal; or that it is refused, and why.
// show_safetensors --wrong FOLDER: writes the files there that safetensors_test tries, 000 and so
// on. For compare_safetensors.py.

#include "support/safetensors_files.hpp"

#include <penstock/error.hpp>
#include <penstock/formats/safetensors.hpp>
#include <penstock/formats/tensor_info.hpp>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <span>
#include <string>
#include <vector>

namespace ps = penstock;

namespace {

std::string hexadecimal(std::span<const std::byte> bytes) {
  constexpr const char* digits = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : bytes) {
    text += digits[std::to_integer<unsigned>(byte) / 16];
    text += digits[std::to_integer<unsigned>(byte) % 16];
  }
  return text;
}

std::string shown(const std::string& path) {
  std::string line = "has";
  auto source = ps::safetensors(path);
  source.open();
  std::vector<std::byte> bytes;
  for (const ps::TensorInfo& tensor : source.tensors()) {
    line += ' ' + hexadecimal(std::as_bytes(std::span{tensor.name})) + ',';
    line += ps::name_of(tensor.type);
    line += ',';
    for (const std::uint64_t extent : tensor.shape) {
      line += std::to_string(extent) + 'x';
    }
    bytes.resize(tensor.bytes);
    source.read_bytes(tensor.at, bytes);
    line += ',' + hexadecimal(bytes);
  }
  return line;
}

} // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments{argv + 1, argv + argc};
  if (arguments.size() == 2 && arguments[0] == "--wrong") {
    int number = 0;
    for (const auto& wrong : ps::tests::safetensors::wrong_safetensors()) {
      const std::string digits = std::to_string(1000 + number++).substr(1);
      std::ofstream{arguments[1] + '/' + digits, std::ios::binary} << wrong.file;
    }
    return 0;
  }
  for (const std::string& path : arguments) {
    try {
      std::cout << shown(path) << '\n';
    } catch (const ps::SourceError& error) {
      std::cout << "refused: " << error.what() << '\n';
    }
  }
  return std::cout.flush().good() ? 0 : 1;
}
