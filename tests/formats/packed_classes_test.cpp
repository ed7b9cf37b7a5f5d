// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/outcome.hpp"
#include "support/packed_values.hpp"
#include "support/temp_dir.hpp"

#include <penstock/formats/packed.hpp>
#include <penstock/formats/packed/packed_writer.hpp>
#include <penstock/io/crc32c.hpp>
#include <penstock/penstock.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <span>
#include <string>
#include <vector>

namespace ps = penstock;
using ps::tests::content_of;
using ps::tests::following;
using ps::tests::outcome_of;
using ps::tests::TempDir;

namespace {

template <class T> std::vector<T> packed_and_unpacked(const std::vector<T>& values) {
  const TempDir dir;
  const std::string path = dir / "x.packed";
  ps::PackedWriter writer{path, {ps::packed_column<T>("x")}};
  writer.add(0, std::as_bytes(std::span{values}));
  CHECK(writer.finish().front().codec == ps::PackedCodec::classes);
  std::vector<T> all;
  auto pipeline = ps::Reader{ps::unpacked<T>(path), {.batch = 7000}} |
                  ps::Consumer{[&](ps::Batch<const T, ps::Pageable> batch) {
                    all.insert(all.end(), batch.data(), batch.data() + batch.size());
                  }};
  pipeline.run();
  return all;
}

} // namespace

TEST_CASE("values that follow each other are packed by their classes, whatever their type") {
  CHECK(packed_and_unpacked(following<std::uint8_t>(300'001, 90)) ==
        following<std::uint8_t>(300'001, 90));
  CHECK(packed_and_unpacked(following<std::int8_t>(300'001, 200)) ==
        following<std::int8_t>(300'001, 200)); // some of them are negative
  CHECK(packed_and_unpacked(following<std::uint16_t>(300'001, 1000)) ==
        following<std::uint16_t>(300'001, 1000));
  CHECK(packed_and_unpacked(following<std::int32_t>(300'001, 1000)) ==
        following<std::int32_t>(300'001, 1000));
}

TEST_CASE("tables of classes with right checksums and wrong numbers are refused") {
  const TempDir dir;
  const std::string path = dir / "x.packed";
  const auto values = following<std::uint16_t>(100'000, 500);
  ps::PackedWriter writer{path, {ps::packed_column<std::uint16_t>("x")}};
  writer.add(0, std::as_bytes(std::span{values}));
  REQUIRE(writer.finish().front().codec == ps::PackedCodec::classes);
  const std::string whole = content_of(path);
  std::uint64_t index;
  std::memcpy(&index, whole.data() + 24, sizeof index);
  constexpr std::size_t tables = 144;
  const auto opened_with = [&](std::size_t at, std::uint32_t number) {
    std::string file = whole;
    std::memcpy(file.data() + index + at, &number, sizeof number);
    const auto bytes = std::as_bytes(std::span{file});
    const std::uint32_t index_crc = ps::crc32c(bytes.subspan(index));
    std::memcpy(file.data() + 56, &index_crc, sizeof index_crc);
    const std::uint32_t header_crc = ps::crc32c(bytes.first(60));
    std::memcpy(file.data() + 60, &header_crc, sizeof header_crc);
    std::ofstream{path, std::ios::binary} << file;
    return outcome_of([&] { ps::unpacked<std::uint16_t>(path).open(); });
  };
  std::uint32_t classes;
  std::memcpy(&classes, whole.data() + index + 76, sizeof classes);
  REQUIRE(classes == 8);
  const std::size_t symbols = tables + classes * 512;
  CHECK(opened_with(76, 0).says("says that there are 0 classes"));
  CHECK(opened_with(76, 17).says("says that there are 17 classes"));
  CHECK(opened_with(76, 7).says("has a symbol that cannot stand for values"));
  CHECK(opened_with(66, 0x20000004).says("says that there are 8 classes")); // codec `ranked`
  CHECK(opened_with(tables + 512, 0x12345).says("frequencies that do not add up"));
  CHECK(opened_with(symbols, 2000).says("has a symbol that cannot stand for values"));
  CHECK(opened_with(symbols, 15U << 20).says("has a symbol that cannot stand for values"));
  CHECK(opened_with(symbols, 8U << 24).says("has a symbol that cannot stand for values"));
  CHECK(opened_with(symbols + 4 * 256, 0x10000).says("has a value that no rank can stand for"));
}

TEST_CASE("it does not matter in which pieces values are learned or added") {
  const auto values = following<std::uint16_t>(100'000, 5000);
  const auto bytes = std::as_bytes(std::span{values});
  const auto packed = [&](std::size_t piece, bool learn) {
    const TempDir dir;
    ps::PackedWriter writer{dir / "x.packed", {ps::packed_column<std::uint16_t>("x")}};
    for (const bool learns : {true, false}) {
      for (std::size_t at = 0; at < bytes.size() && (learn || !learns); at += piece) {
        const auto some = bytes.subspan(at, std::min(piece, bytes.size() - at));
        learns ? writer.learn(0, some) : writer.add(0, some);
      }
    }
    return writer.finish().front().packed_bytes;
  };
  CHECK(packed(2, true) == packed(bytes.size(), true));
  CHECK(packed(50'002, true) == packed(bytes.size(), true));
  CHECK(packed(2, false) == packed(30'000, false));
  CHECK(packed(2, false) < bytes.size() * 9 / 10);
}
