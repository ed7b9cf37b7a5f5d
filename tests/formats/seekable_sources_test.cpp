// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Sources of files of many frames are as those of the same files, not compressed.

#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/compressed_files.hpp"
#include "support/temp_dir.hpp"

#include <penstock/formats/lines.hpp>
#include <penstock/formats/npy.hpp>
#include <penstock/formats/seekable.hpp>
#include <penstock/formats/zstd.hpp>
#include <penstock/penstock.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace ps = penstock;
using namespace ps::tests;
using Strings = std::vector<std::string>;

namespace {

const std::string text = numbered_lines(20'000);

std::string compress(const std::string& all) {
  return seekable_zstd(all, 64 << 10, true);
}

struct Text {
  char bytes[60];
};
struct Part {
  Strings lines;
  std::string position;
};

// Reads batches from a position on, at most so many.
template <class S>
Part lines_of(S source, ps::ReaderOptions options, const std::string& from = {},
              std::uint64_t batches = ~std::uint64_t{0}) {
  options.batch = 50;
  options.value_bytes = 20'000;
  auto pipeline = ps::Reader{std::move(source), options} |
                  ps::Decoder{[](ps::Row<const ps::Line> in, Text& out) {
                    const auto line = ps::get<"text">(in);
                    std::copy_n(line.data(), line.size(), out.bytes);
                    out.bytes[line.size()] = '\0';
                  }};
  Part part;
  const ps::Position position = from.empty() ? ps::Position{} : ps::Position{from};
  for (auto batch : pipeline.batches({.from = position})) {
    if (batches-- == 0) {
      break;
    }
    for (std::size_t i = 0; i != batch.size(); ++i) {
      part.lines.emplace_back(batch.data()[i].bytes);
    }
    part.position = batch.position().text();
  }
  return part;
}

} // namespace

TEST_CASE("lines come in any order, to any rank, and from any position, as those of a plain file") {
  const TempDir dir;
  const std::string plain = dir.write("plain", text);
  const std::string packed = dir.write("packed", compress(text));
  const auto check = [&](const ps::ReaderOptions& options) {
    const Strings expected = lines_of(ps::lines(plain), options).lines;
    REQUIRE(!expected.empty());
    const auto source = ps::lines(packed, {}, ps::seekable(ps::Zstd{}));
    CHECK(lines_of(source, options).lines == expected);
    Part first = lines_of(source, options, {}, 57);
    const Part rest = lines_of(source, options, first.position);
    first.lines.insert(first.lines.end(), rest.lines.begin(), rest.lines.end());
    CHECK(first.lines == expected);
  };
  check({});
  check({.workers = 3});
  check({.workers = 3, .order = {.shuffle = 7, .block = 500, .window = 4}});
  check({.epochs = 2, .order = {.shuffle = 7, .block = 100, .ranks = {.rank = 1, .world = 3}}});
}

TEST_CASE("records, arrays and samples are read as those of plain files") {
  const TempDir dir;
  std::vector<std::uint32_t> numbers(50'000);
  std::iota(numbers.begin(), numbers.end(), 0U);
  const std::string bytes(reinterpret_cast<const char*>(numbers.data()), numbers.size() * 4);
  std::string head = "{'descr': '<u4', 'fortran_order': False, 'shape': (50000,), }";
  head.resize(117, ' ');
  const std::string npy = std::string("\x93NUMPY\1\0\x76\0", 10) + head + '\n' + bytes;
  const auto sum = [](auto source) {
    std::uint64_t found = 0;
    auto pipeline = ps::Reader{std::move(source), {.workers = 2, .batch = 1000}} |
                    ps::Consumer{[&](ps::Batch<const std::uint32_t, ps::Pageable> batch) {
                      found = std::accumulate(batch.data(), batch.data() + batch.size(), found);
                    }};
    pipeline.run();
    return found;
  };
  const std::uint64_t expected = std::accumulate(numbers.begin(), numbers.end(), std::uint64_t{0});
  const auto io = ps::seekable(ps::Zstd{});
  CHECK(sum(ps::records<std::uint32_t>(dir.write("numbers", compress(bytes)), {}, io)) == expected);
  CHECK(sum(ps::npy<std::uint32_t>(dir.write("numbers.npy.zst", compress(npy)), {}, io)) ==
        expected);
}

TEST_CASE("a damaged frame is the error of the records in it") {
  const TempDir dir;
  std::string bytes(400'000, 'a');
  std::string packed = zstd_frame(bytes.substr(0, 100'000)) + zstd_frame(bytes.substr(100'000));
  packed.back() ^= 1;
  const std::string path = dir.write("packed", packed);
  std::uint64_t records = 0;
  auto pipeline =
      ps::Reader{ps::records<std::uint32_t>(path, {.as_it_is = true}, ps::seekable(ps::Zstd{})),
                 {.batch = 1000}} |
      ps::Consumer{
          [&](ps::Batch<const std::uint32_t, ps::Pageable> batch) { records += batch.size(); }};
  const auto e = caught<ps::StageError>([&] { pipeline.run(); });
  const auto cause = caught<ps::SourceError>([&] { e.rethrow_nested(); });
  CHECK(cause.file() == path);
  CHECK(std::string{cause.what()}.find("a checksum that does not fit") != std::string::npos);
  CHECK(cause.offset() == 100'000);
  CHECK(records <= 25'000); // the error may overtake records before it
}
