// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The recipe of docs/cookbook.md on compressed text, and the code of docs/sources.md.

#include "cookbook/compressed_lines.hpp"
#include "cookbook/compressed_records.hpp"
#include "support/catch.hpp"
#include "support/compressed_files.hpp"
#include "support/temp_dir.hpp"

#include <penstock/io/crc32c.hpp>
#include <penstock/penstock.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ps = penstock;
using namespace ps::tests;

TEST_CASE("lines of compressed files become tokens") {
  const TempDir dir;
  const std::vector<std::string> paths{dir.write("a", zstd_frame("ab\ncd\n")),
                                       dir.write("b", zstd_frame("x\n\ny"))};
  std::string tokens;
  auto pipeline = tokens_of(paths,
                            [](std::string_view line, auto add) {
                              for (const char c : line) {
                                add(static_cast<std::uint32_t>(c));
                              }
                            }) |
                  ps::Consumer{[&](ps::Batch<const std::uint32_t, ps::Pageable> batch) {
                    for (const std::uint32_t token : std::span{batch.data(), batch.size()}) {
                      tokens += static_cast<char>(token);
                    }
                  }};
  pipeline.run();
  CHECK(tokens == "abcdxy");
}

TEST_CASE("records of a compressed file, and compressed records of another, are read") {
  const TempDir dir;
  std::uint32_t sum = 0;
  auto numbers = ps::Reader{compressed_numbers(dir.write("numbers", gzip_member("\1\2\3\4")))} |
                 ps::Consumer{[&](ps::Batch<const std::uint32_t, ps::Pageable> batch) {
                   sum += batch.data()[0];
                 }};
  numbers.run();
  CHECK(sum == 0x04030201);

  const std::string data = zstd_frame("a text");
  const auto masked = [](const std::string& bytes) {
    const std::uint32_t crc = ps::crc32c(std::as_bytes(std::span{bytes}));
    const std::uint32_t mask = (crc >> 15 | crc << 17) + 0xA282EAD8U;
    return std::string{reinterpret_cast<const char*>(&mask), sizeof mask};
  };
  const std::uint64_t size = data.size();
  const std::string length{reinterpret_cast<const char*>(&size), sizeof size};
  std::string text;
  auto texts = compressed_texts(dir.write("texts", length + masked(length) + data + masked(data))) |
               ps::Consumer{[&](ps::Batch<const Text, ps::Pageable> batch) {
                 const auto bytes = ps::get<"bytes">(batch);
                 text.assign(bytes[0].data(), bytes[0].size());
               }};
  texts.run();
  CHECK(text == "a text");
}

TEST_CASE("the lines of a file of many frames are shuffled") {
  const TempDir dir;
  const std::string text = numbered_lines(1000);
  std::uint64_t lines = 0;
  std::uint64_t bytes = 0;
  auto pipeline =
      ps::Reader{compressed_lines(dir.write("text.zst", seekable_zstd(text, 4000, true))),
                 {.workers = 2, .order = {.shuffle = 7, .block = 100}}} |
      ps::Consumer{[&](ps::Batch<const ps::Line, ps::Pageable> batch) {
        lines += batch.size();
        bytes += static_cast<std::uint64_t>(ps::get<"text">(batch).offsets()[batch.size()]);
      }};
  pipeline.run();
  CHECK(lines == 1000);
  CHECK(bytes == text.size() - lines);
}

TEST_CASE("an array is read from .npy.zst, and its values are written compressed") {
  const TempDir dir;
  std::string head = "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }";
  head.resize(117, ' ');
  const float values[3] = {1, 2, 4};
  const std::string npy = std::string("\x93NUMPY\1\0\x76\0", 10) + head + '\n' +
                          std::string{reinterpret_cast<const char*>(values), sizeof values};
  float sum = 0;
  const auto add = [&](ps::Batch<const float, ps::Pageable> batch) {
    for (const float value : std::span{batch.data(), batch.size()}) {
      sum += value;
    }
  };
  auto array = ps::Reader{compressed_array(dir.write("a.npy.zst", zstd_frame(npy)))} |
               ps::Consumer{[&](ps::Batch<const float, ps::Pageable> batch) { add(batch); }};
  array.run();
  CHECK(sum == 7);

  const std::string path = dir.path() + "/values.zst";
  auto writes = to_zstd(dir.write("a.npy", npy), path);
  writes.run();
  auto reads = ps::Reader{ps::records<float>(path, {}, ps::seekable(ps::Zstd{}))} |
               ps::Consumer{[&](ps::Batch<const float, ps::Pageable> batch) { add(batch); }};
  reads.run();
  CHECK(sum == 14);
}
