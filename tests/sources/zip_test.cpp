// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/faulty_io.hpp"
#include "support/temp_dir.hpp"

#include <penstock/penstock.hpp>
#include <penstock/sources/zip.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace ps = penstock;
using ps::tests::caught;
using ps::tests::FaultyIo;
using ps::tests::has;
using ps::tests::IoCall;
using ps::tests::IoFaults;
using ps::tests::TempDir;

namespace {

struct Sample
    : ps::Columns<ps::Field<"image", std::uint8_t, 2, 3>, ps::Field<"label", std::int32_t>> {};
struct Tokens
    : ps::Columns<ps::Field<"tokens", std::uint16_t, 3, ps::dynamic>,
                  ps::Field<"label", std::int32_t>, ps::Field<"mask", std::uint8_t, ps::dynamic>> {
};

static_assert(
    ps::Source<decltype(ps::zip<Sample>(ps::memory(std::declval<std::vector<std::byte>&>()),
                                        ps::memory(std::declval<std::vector<int>&>())))>);

std::vector<std::byte> counting(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<std::byte>(i * 7 + i / 256);
  }
  return bytes;
}
std::vector<std::int32_t> labels(std::size_t size) {
  std::vector<std::int32_t> all(size);
  for (std::size_t i = 0; i < size; ++i) {
    all[i] = static_cast<std::int32_t>(i * i);
  }
  return all;
}
auto images(const std::vector<std::byte>& bytes, std::size_t record = 6) {
  return ps::memory(bytes, {.record_bytes = record});
}

} // namespace

TEST_CASE("zip joins files and memory, record by record") {
  const auto bytes = counting(6 * 1000);
  const auto label = labels(1000);
  const TempDir dir;
  const std::span all{bytes};
  std::vector<std::byte> first(16), second(16);
  first.insert(first.end(), all.begin(), all.begin() + 6 * 333);
  second.insert(second.end(), all.begin() + 6 * 333, all.end());
  auto source =
      ps::zip<Sample>(ps::records<std::byte>({dir.write("a", first), dir.write("b", second)},
                                             {.offset = 16, .record_bytes = 6}),
                      ps::memory(label));
  source.open();
  CHECK(source.size() == 1000);
  CHECK(source.extents().empty());

  // One range across both files, into memory of the columns' own.
  std::array<std::uint8_t, 6 * 50> image{};
  std::array<std::int32_t, 50> got{};
  using B = ps::Batch<Sample, ps::Pinned>;
  CHECK(source.read(B{B::View{{image.data(), got.data()}, {}, 50, 310, 310, 1}}) == 50);
  CHECK(std::memcmp(image.data(), bytes.data() + 6 * 310, image.size()) == 0);
  CHECK(std::equal(got.begin(), got.end(), label.begin() + 310));

  std::uint64_t next = 0;
  bool right = true;
  const auto look = [&](ps::Batch<const Sample, ps::Pageable> batch) {
    for (std::size_t i = 0; i < batch.size(); ++i, ++next) {
      right = right && ps::get<"label">(batch)[i] == label[next] &&
              std::memcmp(ps::get<"image">(batch)[i], bytes.data() + 6 * next, 6) == 0;
    }
  };
  auto pipeline = ps::Reader{std::move(source), {.workers = 3, .batch = 64}} | ps::Consumer{look};
  CHECK(pipeline.run().records == 1000);
  CHECK(next == 1000);
  CHECK(right);
}

TEST_CASE("zip learns an extent of each column from the bytes of its records") {
  const auto tokens = counting(10 * 2 * 3 * 4);
  const auto label = labels(10);
  const auto mask = counting(10 * 9);
  auto source = ps::zip<Tokens>(images(tokens, 24), ps::memory(label), images(mask, 9));
  source.open();
  CHECK(source.size() == 10);
  CHECK(source.extents() == std::vector<std::size_t>{4, 9});
  // Opened again, as each prepare() does with its copy, it has the same extents.
  source.open();
  CHECK(source.extents() == std::vector<std::size_t>{4, 9});
}

TEST_CASE("zip of no records is a source of none") {
  const std::vector<std::byte> none;
  const std::vector<std::int32_t> no_label;
  auto source = ps::zip<Sample>(images(none), ps::memory(no_label));
  source.open();
  CHECK(source.size() == 0);
  std::size_t batches = 0;
  auto pipeline = ps::Reader{std::move(source)} |
                  ps::Consumer{[&](ps::Batch<const Sample, ps::Pageable>) { ++batches; }};
  CHECK(pipeline.run().records == 0);
  CHECK(batches == 0);
}

TEST_CASE("sources of different lengths are refused with both numbers") {
  const auto bytes = counting(6 * 10);
  for (const std::size_t count : {0, 9, 11}) {
    const auto label = labels(count);
    auto source = ps::zip<Sample>(images(bytes), ps::memory(label));
    const auto refused = caught<ps::SourceError>([&] { source.open(); });
    CHECK(has(refused, "zip: source number 1 has " + std::to_string(count) + " records"));
    CHECK(has(refused, "number 0 has 10"));
  }
  const auto label = labels(10);
  const auto tokens = counting(10 * 6);
  const auto mask = counting(7);
  auto third = ps::zip<Tokens>(images(tokens), ps::memory(label), images(mask, 1));
  CHECK(has(caught<ps::SourceError>([&] { third.open(); }), "source number 2 has 7 records"));
}

TEST_CASE("sources of unknown size that end apart are an error with both numbers") {
  const auto up_to = [](auto value, std::uint64_t count) {
    using T = decltype(value);
    return ps::generate<T>([count](std::span<T> out, std::uint64_t first) {
      const std::uint64_t left = count - std::min(count, first);
      return std::min<std::size_t>(out.size(), left);
    });
  };
  struct Pair : ps::Columns<ps::Field<"a", std::int16_t>, ps::Field<"b", std::int32_t>> {};
  for (const std::uint64_t second : {1000U, 1050U, 1100U, 650U, 600U, 0U}) {
    CAPTURE(second);
    std::uint64_t records = 0;
    auto pipeline =
        ps::Reader{ps::zip<Pair>(up_to(std::int16_t{}, 1000), up_to(std::int32_t{}, second)),
                   {.workers = 1, .batch = 100}} |
        ps::Consumer{[&](ps::Batch<const Pair, ps::Pageable> some) { records += some.size(); },
                     {.workers = 1}};
    const auto failed = ps::tests::thrown_by<ps::StageError>([&] { pipeline.run(); });
    CHECK(failed.has_value() == (second != 1000));
    CHECK((failed || records == 1000));
    if (failed) {
      const std::uint64_t end = std::min<std::uint64_t>(second, 1000);
      const std::uint64_t read = end / 100 * 100;
      const auto of = [read](std::uint64_t count) {
        return std::to_string(std::min<std::uint64_t>(count - read, 100));
      };
      CHECK(failed->record() == end);
      CHECK(has(*failed, "zip: of the 100 records from number " + std::to_string(read) +
                             " on, source number 1 has " + of(second) + ", but number 0 has " +
                             of(1000) + ":"));
    }
  }
}

TEST_CASE("records that are not as long as one of their column are refused with both sizes") {
  const auto bytes = counting(35 * 10);
  const auto label = labels(50);
  auto longer = ps::zip<Sample>(images(bytes, 7), ps::memory(label));
  const auto refused = caught<ps::SourceError>([&] { longer.open(); });
  CHECK(has(refused, "source number 0 has records of 7 bytes"));
  CHECK(has(refused, "its column's take 6"));

  // Sizes that a dynamic extent cannot match: 3 rows of two bytes each.
  const auto few = labels(10);
  auto uneven = ps::zip<Tokens>(images(bytes, 35), ps::memory(few), images(bytes, 35));
  const auto no_multiple = caught<ps::SourceError>([&] { uneven.open(); });
  CHECK(has(no_multiple, "source number 0 has records of 35 bytes"));
  CHECK(has(no_multiple, "a multiple of 6"));
}

TEST_CASE("what a zipped source cannot open or read it says itself, with file and offset") {
  const auto bytes = counting(6 * 1000);
  const auto label = labels(1000);
  const TempDir dir;
  const std::string path = dir.write("images", bytes);
  const std::string label_path = dir.write("labels", std::as_bytes(std::span{label}));

  auto missing =
      ps::zip<Sample>(ps::records<std::byte>(dir / "none", {.record_bytes = 6}), ps::memory(label));
  CHECK(caught<ps::SourceError>([&] { missing.open(); }).file() == dir / "none");

  // A read of the second file fails, at record 640 in slots of 64.
  const FaultyIo<> io{IoFaults::fail(
      [&](const IoCall& call) { return call.name == "read" && call.number > 15 ? EIO : 0; })};
  auto source = ps::zip<Sample>(images(bytes), ps::records<std::int32_t>(label_path, {}, io));
  auto pipeline = ps::Reader{std::move(source), {.workers = 1, .batch = 64}} |
                  ps::Consumer{[](ps::Batch<const Sample, ps::Pageable>) {}};
  try {
    pipeline.run();
    FAIL("nothing was thrown");
  } catch (const ps::StageError& e) {
    INFO(e.what());
    CHECK(e.stage() == "Reader");
    CHECK(e.file() == label_path);
    CHECK(e.record() % 64 == 0);
    CHECK(e.record() > 0);
    CHECK(e.offset() == e.record() * 4);
    CHECK_THROWS_AS(e.rethrow_nested(), ps::SourceError);
  }
  CHECK(io.failures() > 0);

  // The file became shorter after it was opened.
  auto shrunk =
      ps::zip<Sample>(ps::records<std::byte>(path, {.record_bytes = 6}), ps::memory(label));
  shrunk.open();
  std::filesystem::resize_file(path, 6 * 100 + 2);
  std::array<std::uint8_t, 6 * 50> image{};
  std::array<std::int32_t, 50> got{};
  using B = ps::Batch<Sample, ps::Pageable>;
  const auto early = caught<ps::SourceError>(
      [&] { shrunk.read(B{B::View{{image.data(), got.data()}, {}, 50, 80, 80, 1}}); });
  CHECK(early.file() == path);
  CHECK(early.offset() == 6 * 100 + 2);
  CHECK(early.record() == 100);
}

TEST_CASE("zip asks a source for no more than it has") {
  const auto bytes = counting(6 * 10);
  const auto label = labels(10);
  auto source = ps::zip<Sample>(images(bytes), ps::memory(label));
  source.open();
  std::array<std::uint8_t, 6 * 4> image{};
  std::array<std::int32_t, 4> got{};
  using B = ps::Batch<Sample, ps::Pageable>;
  const auto beyond = caught<ps::SourceError>(
      [&] { source.read(B{B::View{{image.data(), got.data()}, {}, 4, 7, 7, 1}}); });
  CHECK(has(beyond, "asked for 4 records from record 7 on"));
  CHECK(beyond.record() == 7);
}
