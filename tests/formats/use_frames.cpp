// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// For compare_compressed.py:
//
//   use_frames zstd|lz4|gzip FILE   prints all that comes out of a file of many frames, in reads of
//                                   100,000 bytes from the last to the first; or "refused:" and why
//   use_frames pack FILE            writes FILE.zst, in zstd's seekable format

#include <penstock/error.hpp>
#include <penstock/formats/gzip.hpp>
#include <penstock/formats/lz4.hpp>
#include <penstock/formats/seekable.hpp>
#include <penstock/formats/zstd.hpp>
#include <penstock/formats/zstd_output.hpp>
#include <penstock/io/file.hpp>
#include <penstock/penstock.hpp>

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

static void pack(const std::string& path) {
  auto pipeline = ps::Reader{ps::records<char>(path, {.as_it_is = true}), {.batch = 10'000}} |
                  ps::Writer{path + ".zst", {.workers = 2}, ps::ZstdOutput{{.frame = 50'000}}};
  pipeline.run();
}

int main(int argc, char** argv) {
  if (argc != 3) {
    return 2;
  }
  const std::string by = argv[1];
  try {
    by == "pack"   ? pack(argv[2])
    : by == "zstd" ? print(argv[2], ps::Zstd{})
    : by == "lz4"  ? print(argv[2], ps::Lz4{})
                   : print(argv[2], ps::Gzip{});
  } catch (const ps::SourceError& e) {
    std::cout << "refused: " << e.what() << '\n';
    return 1;
  }
}
