// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// unpack_frames zstd|lz4|gzip FILE: prints all that comes out of a file of many frames, in reads of
// 100,000 bytes from the last to the first, for compare_compressed.py; or "refused:" and why.

#include <penstock/error.hpp>
#include <penstock/formats/gzip.hpp>
#include <penstock/formats/lz4.hpp>
#include <penstock/formats/seekable.hpp>
#include <penstock/formats/zstd.hpp>
#include <penstock/io/file.hpp>

#include <algorithm>
#include <cstddef>
#include <iostream>
#include <span>
#include <string>

namespace ps = penstock;

template <class C> static void print(const std::string& path, C codec) {
  const auto io = ps::seekable(codec);
  const ps::File file{io, path};
  std::string all(file.size(), '\0');
  constexpr std::size_t each = 100'000;
  for (std::size_t end = all.size(); end != 0;) {
    const std::size_t begin = end - std::min(each, end);
    ps::read_full(file, begin, std::as_writable_bytes(std::span{all}).subspan(begin, end - begin));
    end = begin;
  }
  std::cout << all;
}

int main(int argc, char** argv) {
  if (argc != 3) {
    return 2;
  }
  const std::string by = argv[1];
  try {
    by == "zstd"  ? print(argv[2], ps::Zstd{})
    : by == "lz4" ? print(argv[2], ps::Lz4{})
                  : print(argv[2], ps::Gzip{});
  } catch (const ps::SourceError& e) {
    std::cout << "refused: " << e.what() << '\n';
    return 1;
  }
}
