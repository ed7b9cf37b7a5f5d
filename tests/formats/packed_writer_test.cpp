// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/faulty_io.hpp"
#include "support/outcome.hpp"
#include "support/packed_values.hpp"
#include "support/temp_dir.hpp"

#include <penstock/formats/packed.hpp>
#include <penstock/formats/packed/packed_writer.hpp>
#include <penstock/penstock.hpp>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace ps = penstock;
using ps::tests::content_of;
using ps::tests::FaultyIo;
using ps::tests::IoCall;
using ps::tests::IoFaults;
using ps::tests::outcome_of;
using ps::tests::TempDir;
using ps::tests::zipf_tokens;
using Tokens = std::vector<std::uint16_t>;

namespace {

template <class T> std::vector<ps::PackedColumnInfo> pack(const std::string& path,
                                                          const std::vector<T>& values) {
  ps::PackedWriter writer{path, {ps::packed_column<T>("x")}};
  writer.add(0, std::as_bytes(std::span{values}));
  return writer.finish();
}
template <class T, class S> std::vector<T> deliver(S source, const ps::ReaderOptions& options) {
  std::vector<T> all;
  auto pipeline = ps::Reader{std::move(source), options} |
                  ps::Consumer{[&](ps::Batch<const T, ps::Pageable> batch) {
                    all.insert(all.end(), batch.data(), batch.data() + batch.size());
                  }};
  pipeline.run();
  return all;
}

} // namespace

TEST_CASE("any number of workers writes the same file, however the values come") {
  const TempDir dir;
  const Tokens tokens = zipf_tokens<std::uint16_t>(700'001, 20'000);
  const auto bytes = std::as_bytes(std::span{tokens});
  const auto written = [&](unsigned workers, std::size_t piece) {
    const std::string path = dir / "x";
    ps::PackedWriter writer{path, {ps::packed_column<std::uint16_t>("x")}, {.workers = workers}};
    writer.learn(0, bytes);
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      writer.add(0, bytes.subspan(at, std::min(piece, bytes.size() - at)));
    }
    CHECK(writer.finish().at(0).chunks == 86);
    return content_of(path);
  };
  const std::string one = written(1, bytes.size());
  CHECK(written(3, bytes.size()) == one);
  CHECK(written(7, 100'000) == one);
  CHECK(written(200, bytes.size()) == one);
}

TEST_CASE("values are packed as well in small pieces as in large ones") {
  const TempDir dir;
  const auto tokens = zipf_tokens<std::uint16_t>(300'000, 3000);
  const auto bytes = std::as_bytes(std::span{tokens});
  pack(dir / "whole", tokens);
  for (const bool learns : {true, false}) {
    for (const std::size_t piece : {2U, 126U, 20'000U}) {
      INFO(piece << (learns ? " learned" : " added"));
      ps::PackedWriter writer{dir / "x", {ps::packed_column<std::uint16_t>("x")}};
      const auto each = [&](auto f) {
        for (std::size_t at = 0; at < bytes.size(); at += piece) {
          f(bytes.subspan(at, std::min(piece, bytes.size() - at)));
        }
      };
      if (learns) {
        each([&](auto some) { writer.learn(0, some); });
      }
      each([&](auto some) { writer.add(0, some); });
      writer.finish();
      CHECK(content_of(dir / "x") == content_of(dir / "whole"));
    }
  }
}

TEST_CASE("values that were not learned stay raw, with their chunk") {
  const TempDir dir;
  Tokens tokens = zipf_tokens<std::uint16_t>(100'000, 5000);
  ps::PackedWriter writer{dir / "x.packed", {ps::packed_column<std::uint16_t>("x")}};
  writer.learn(0, std::as_bytes(std::span{tokens}));
  tokens[20'000] = 65'535;
  writer.add(0, std::as_bytes(std::span{tokens}));
  const auto info = writer.finish().at(0);
  CHECK(info.codec == ps::PackedCodec::ranked);
  CHECK(info.raw_chunks == 1);
  CHECK(deliver<std::uint16_t>(ps::unpacked<std::uint16_t>(dir / "x.packed"), {}) == tokens);
}

TEST_CASE("a file appears whole or not at all") {
  const TempDir dir;
  const std::string path = dir / "x.packed";
  {
    ps::PackedWriter writer{path, {ps::packed_column<std::uint16_t>("x", {3})}};
    const Tokens tokens(7);
    writer.add(0, std::as_bytes(std::span{tokens}));
    CHECK(outcome_of([&] { writer.finish(); }).says("has 7 values, which are no 2 records of 3"));
  }
  CHECK(std::filesystem::is_empty(dir.path()));
  pack(path, Tokens(7));
  CHECK(outcome_of([&] {
          ps::PackedWriter writer{dir / "none/x", {ps::packed_column<float>("x")}};
        }).says("make its folder first"));
}

TEST_CASE("a writer refuses what cannot be, and says so") {
  const TempDir dir;
  const auto refused = [&](std::vector<ps::PackedColumnShape> columns, std::size_t chunk) {
    return outcome_of([&] {
      const ps::PackedWriter writer{dir / "x", std::move(columns), {.chunk_bytes = chunk}};
    });
  };
  constexpr std::size_t usual = 16 << 10;
  CHECK(refused({}, usual).says("0 columns"));
  CHECK(refused({ps::packed_column<float>("")}, usual).says("name of column 0"));
  CHECK(refused({ps::packed_column<float>("a\n")}, usual).says("name of column 0"));
  CHECK(refused({ps::packed_column<float>("a"), ps::packed_column<float>("a")}, usual)
            .says("another column's"));
  CHECK(refused({ps::packed_column<float>("a", {0})}, usual).says("extents"));
  for (const auto& none : {ps::detail::ValueType{'u', 3}, {'f', 1}, {'q', 8}, {'V', 8}}) {
    CHECK(refused({{"a", none, {}}}, usual).says("column a has no type"));
  }
  CHECK(refused({ps::packed_column<float>("a")}, 17 << 10).says(".chunk_bytes is 17408"));
  CHECK(outcome_of([&] {
          const ps::PackedWriter none{dir / "x", {ps::packed_column<float>("a")}, {.workers = 0}};
        }).says(".workers is 0"));
  ps::PackedWriter writer{dir / "y", {ps::packed_column<float>("a")}};
  const std::vector<std::byte> bytes(10);
  CHECK(outcome_of([&] { writer.add(1, bytes); }).says("no column number 1"));
  CHECK(outcome_of([&] { writer.add(0, bytes); }).says("give whole values"));
  writer.add(0, std::span{bytes}.first(8));
  CHECK(outcome_of([&] { writer.learn(0, {}); }).says("learn before you add"));
  writer.finish();
  CHECK(outcome_of([&] { writer.finish(); }).says("is finished"));
  CHECK(outcome_of([&] {
          writer.add(0, {});
        }).says("it is finished, or has failed, before column 0"));
}

TEST_CASE("a write that fails leaves nothing of a packed file, and the file before stays") {
  const TempDir dir;
  const std::string path = dir / "x";
  const std::vector<std::uint16_t> values(100'000, 7);
  const auto bytes = std::as_bytes(std::span{values});
  pack(path, values);
  for (const long failing : {3, 4, 5, 6}) { // status and create come before
    const auto faults =
        IoFaults::fail([=](const IoCall& c) { return c.number >= failing ? ENOSPC : 0; });
    ps::PackedWriter<FaultyIo<>> writer{
        path, {ps::packed_column<std::uint16_t>("x")}, {}, FaultyIo<>{faults}};
    const auto first = outcome_of([&] {
      writer.add(0, bytes);
      writer.finish();
    });
    CHECK(first.says("No space left on device"));
    CHECK(outcome_of([&] { writer.add(0, bytes); }).says("or has failed, before column 0"));
    CHECK(outcome_of([&] { writer.finish(); }).says("or writing it has failed"));
    CHECK(deliver<std::uint16_t>(ps::unpacked<std::uint16_t>(path), {}) == values);
  }
}

TEST_CASE("columns that no file could have are refused before there is a file") {
  const TempDir dir;
  constexpr std::uint64_t half = std::uint64_t{1} << 32;
  for (const ps::PackedColumnShape& shape :
       {ps::packed_column<float>("x", {half, half}), ps::packed_column<float>("x", {half << 31, 2}),
        ps::packed_column<double>("x", {half << 30}), ps::PackedColumnShape{"x", {}, {}}}) {
    CHECK(outcome_of([&] {
            const ps::PackedWriter writer{dir / "x", {shape}};
          }).says("cannot be: give packed_column<T>()"));
  }
  CHECK(std::filesystem::is_empty(dir.path()));
}

TEST_CASE("an add of nothing chooses no codec") {
  const TempDir dir;
  const std::vector<std::uint8_t> values(1 << 20, 9);
  ps::PackedWriter writer{dir / "x", {ps::packed_column<std::uint8_t>("x")}};
  writer.add(0, {});
  writer.add(0, std::as_bytes(std::span{values}));
  const auto infos = writer.finish();
  CHECK(infos.front().packed_bytes < 10'000);
}
