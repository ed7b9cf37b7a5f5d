// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What every device must do, written once. The including file defines TestDevice and
// for_each_device(f), which calls f with each device to try.

#include "suite/through.hpp"
#include "support/all_pairs.hpp"
#include "support/catch.hpp"
#include "support/sanitizer.hpp"
#include "support/temp_dir.hpp"
#include "support/test_devices.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <map>
#include <random>
#include <type_traits>

namespace suite {

using D = TestDevice;

/// Writes `bytes` as `files` files, of lengths that end inside slots, the second of them empty.
inline std::vector<std::string> write_files(const tests::TempDir& dir,
                                            std::span<const std::byte> bytes, std::size_t record,
                                            std::size_t files) {
  std::vector<std::string> paths;
  std::size_t at = 0;
  for (std::size_t i = 0; i < files; ++i) {
    const std::size_t left = (bytes.size() - at) / record;
    const std::size_t records = i + 1 == files ? left : i == 1 ? 0 : left / 2 + left % 2;
    paths.push_back(dir / ("part-" + std::to_string(i)));
    std::ofstream{paths.back(), std::ios::binary}.write(
        reinterpret_cast<const char*>(bytes.data() + at),
        static_cast<std::streamsize>(records * record));
    at += records * record;
  }
  return paths;
}

/// Returns whether batches have the expected sizes: all full, but for a short one at each epoch's
/// end.
inline bool sizes_fit(const std::vector<std::size_t>& sizes, std::size_t batch, std::size_t records,
                      std::size_t epochs) {
  std::size_t i = 0;
  for (std::size_t epoch = 0; epoch < epochs; ++epoch) {
    for (std::size_t left = records; left != 0; ++i) {
      if (i == sizes.size() || sizes[i] != std::min(batch, left)) {
        return false;
      }
      left -= sizes[i];
    }
  }
  return i == sizes.size();
}

inline std::vector<std::byte> repeated(std::span<const std::byte> bytes, std::size_t times) {
  std::vector<std::byte> all;
  for (std::size_t i = 0; i < times; ++i) {
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  return all;
}

TEST_CASE("bytes out are bytes in, in order, for all pairs of settings") {
  const std::array<std::size_t, 5> record_sizes{1, 3, 784, 4096, 150528};
  const std::array<std::size_t, 3> file_counts{1, 3, 7};
  // Batches in bytes: far smaller than a copy, about a slot, larger than a copy, one record.
  const std::array<std::size_t, 4> batch_bytes{200'000, 1 << 20, 9 << 20, 0};
  const std::array<std::size_t, 3> totals{2'700'000, 12'000'000, 1'048'576 * 3};
  const std::array<unsigned, 5> workers{1, 2, 3, 7, 12};
  const std::array<std::size_t, 4> depths{2, 3, 8, 64};
  const auto rows =
      tests::all_pairs<8>({record_sizes.size(), file_counts.size(), batch_bytes.size(),
                           totals.size(), workers.size(), depths.size(), 2, 2});
  std::printf("all pairs: %zu combinations\n", rows.size());
  for (const auto& row : rows) {
    const std::size_t record = record_sizes[row[0]];
    const std::size_t records = totals[row[3]] / record;
    // Very many launches of one small record would only measure launches.
    const std::size_t batch =
        std::max({batch_bytes[row[2]] / record, records / 500, std::size_t{1}});
    const bool staged = row[6] == 1;
    const std::size_t epochs = row[7] + 1;
    CAPTURE(record, file_counts[row[1]], batch, records, workers[row[4]], depths[row[5]], staged,
            epochs);
    const auto bytes = some_bytes(records * record);
    const tests::TempDir dir;
    const auto source = ps::records<std::byte>(write_files(dir, bytes, record, file_counts[row[1]]),
                                               {.record_bytes = record});
    for_each_device([&](D& device) {
      Collector<D> got{device, bytes.size() * epochs};
      const ps::ReaderOptions reading{
          .workers = workers[row[4]], .depth = depths[row[5]], .epochs = epochs};
      const ps::CopierOptions copying{.batch = batch, .depth = depths[row[5]]};
      if (staged) {
        auto pipeline = ps::Reader{source, reading} |
                        ps::PinnedStager{{.workers = 2, .depth = depths[row[5]]}} |
                        ps::AsyncCopier{device, copying} | ps::Consumer{std::ref(got)};
        pipeline.run();
      } else {
        auto pipeline = ps::Reader{source, ps::to_pinned, reading} |
                        ps::AsyncCopier{device, copying} | ps::Consumer{std::ref(got)};
        pipeline.run();
      }
      CHECK(got.in_order);
      CHECK(got.aligned);
      CHECK(sizes_fit(got.sizes, batch, records, epochs));
      CHECK(got.holds(repeated(bytes, epochs)));
    });
  }
}

TEST_CASE("records of 100 MB travel in pieces, or are a slot each", "[large]") {
  // ThreadSanitizer keeps four times as many bytes about them. Not a whole number of pieces.
  constexpr std::size_t record = tests::under_tsan ? 5'000'011 : 100'000'007;
  const auto bytes = some_bytes(3 * record);
  for (const std::size_t slot : {0, 1}) {
    const std::size_t depth = slot + 2;
    CAPTURE(slot);
    for_each_device([&](D& device) {
      Collector<D> got{device, bytes.size()};
      auto pipeline = ps::Reader{ps::memory(std::span{bytes}, {.record_bytes = record}),
                                 ps::to_pinned,
                                 {.workers = 2, .depth = depth, .batch = slot}} |
                      ps::AsyncCopier{device, {.batch = 1, .depth = depth}} |
                      ps::Consumer{std::ref(got)};
      const ps::Report& report = pipeline.run();
      CHECK(report.records == 3);
      CHECK(report.stages[0].depth == depth);
      CHECK(report.stages[0].records == 3);
      const bool says_so = report.stages[0].note.find(std::to_string(record)) != std::string::npos;
      CHECK(says_so == (slot == 1));
      CHECK(got.in_order);
      CHECK(got.holds(bytes));
    });
  }
}

TEST_CASE("a file of 0 bytes is a run without batches") {
  const tests::TempDir dir;
  const std::string path = dir / "empty";
  std::ofstream{path};
  for_each_device([&](D& device) {
    Collector<D> got{device, 0};
    auto pipeline = ps::Reader{ps::records<std::byte>(path), ps::to_pinned} |
                    ps::AsyncCopier{device} | ps::Consumer{std::ref(got)};
    const ps::Report& report = pipeline.run();
    CHECK(report.records == 0);
    CHECK(got.sizes.empty());
    CHECK_FALSE(report.stopped);
  });
}

TEST_CASE("one record is one batch, and one byte short of a record is refused") {
  const auto bytes = some_bytes(4096);
  const tests::TempDir dir;
  const auto paths = write_files(dir, bytes, 4096, 1);
  for_each_device([&](D& device) {
    Collector<D> got{device, bytes.size()};
    auto one = ps::Reader{ps::records<std::byte>(paths, {.record_bytes = 4096}), ps::to_pinned} |
               ps::AsyncCopier{device, {.batch = 10}} | ps::Consumer{std::ref(got)};
    one.run();
    CHECK(got.sizes == std::vector<std::size_t>{1});
    CHECK(got.holds(bytes));

    auto partial =
        ps::Reader{ps::records<std::byte>(paths, {.record_bytes = 4097}), ps::to_pinned} |
        ps::AsyncCopier{device} | ps::Consumer{std::ref(got)};
    try {
      partial.prepare();
      CHECK(false);
    } catch (const ps::SourceError& e) {
      CHECK(e.file() == paths[0]);
      CHECK(std::string{e.what()}.find("4096") != std::string::npos);
    }
  });
}

TEST_CASE("a sparse file is read right on both sides of 4 GiB") {
  constexpr std::uint64_t four_gib = std::uint64_t{1} << 32;
  constexpr std::uint64_t margin = 24 << 20;
  const tests::TempDir dir;
  const std::string path = dir / "sparse";
  // Eight bytes that hold their own offset, at 1000 places.
  std::map<std::uint64_t, std::uint64_t> places;
  {
    std::fstream file{path, std::ios::binary | std::ios::out | std::ios::trunc};
    std::mt19937_64 random{7};
    while (places.size() < 1000) {
      const std::uint64_t at = (four_gib - margin + random() % (2 * margin)) / 8 * 8;
      places[at] = at;
    }
    for (const auto& [at, value] : places) {
      file.seekp(static_cast<std::streamoff>(at));
      file.write(reinterpret_cast<const char*>(&value), sizeof value);
    }
  }
  REQUIRE(truncate(path.c_str(), static_cast<off_t>(four_gib + margin)) == 0);
  std::vector<std::byte> expected(2 * margin);
  for (const auto& [at, value] : places) {
    std::memcpy(expected.data() + (at - (four_gib - margin)), &value, sizeof value);
  }
  for_each_device([&](D& device) {
    Collector<D> got{device, expected.size()};
    auto pipeline = ps::Reader{ps::records<std::byte>(path, {.offset = four_gib - margin}),
                               ps::to_pinned,
                               {.workers = 3}} |
                    ps::AsyncCopier{device, {.batch = 3'000'000}} | ps::Consumer{std::ref(got)};
    pipeline.run();
    CHECK(got.in_order);
    CHECK(got.holds(expected));
  });
}

TEST_CASE("a pipeline runs again, with the same result") {
  const auto bytes = some_bytes(5'000'000);
  for_each_device([&](D& device) {
    Collector<D> got{device, bytes.size()};
    auto pipeline = ps::Reader{ps::memory(std::span{bytes}), ps::to_pinned, {.workers = 2}} |
                    ps::AsyncCopier{device, {.batch = 300'000}} | ps::Consumer{std::ref(got)};
    for (int run = 0; run < 4; ++run) {
      got.clear();
      const ps::Report& report = pipeline.run();
      CHECK(report.records == bytes.size());
      CHECK(got.in_order);
      CHECK(got.holds(bytes));
    }
  });
}

TEST_CASE("a source of unknown size ends where it says") {
  const auto bytes = some_bytes(3'333'333);
  for_each_device([&](D& device) {
    Collector<D> got{device, bytes.size()};
    const auto write = [&](std::span<std::byte> out, std::uint64_t first) -> std::size_t {
      const std::size_t n = std::min<std::size_t>(
          out.size(), bytes.size() - std::min<std::uint64_t>(first, bytes.size()));
      std::copy_n(bytes.begin() +
                      static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(first, bytes.size())),
                  n, out.begin());
      return n;
    };
    auto pipeline = ps::Reader{ps::generate<std::byte>(write), ps::to_pinned, {.workers = 3}} |
                    ps::AsyncCopier{device, {.batch = 100'000}} | ps::Consumer{std::ref(got)};
    for (int run = 0; run < 2; ++run) {
      got.clear();
      pipeline.run();
      CHECK(got.in_order);
      CHECK(got.holds(bytes));
    }
  });
}

TEST_CASE("without the waits for fences, wrong bytes are seen", "[race]") {
  // The planted bug that these tests must catch: streams that do not wait for each other. It is a
  // race, which ThreadSanitizer would report by itself: under it they do wait, and nothing is seen.
  using Device = std::conditional_t<tests::under_tsan, D, tests::ForgetsWaits<D>>;
  const auto bytes = some_bytes(6'000'000);
  bool caught = false;
  for (int attempt = 0; attempt < (tests::under_tsan ? 2 : 20) && !caught; ++attempt) {
    for_each_device<Device>([&](Device& device) {
      Collector<Device> got{device, bytes.size()};
      auto pipeline = ps::Reader{ps::memory(std::span{bytes}), ps::to_pinned, {.workers = 2}} |
                      ps::AsyncCopier{device, {.batch = 1'000'000, .depth = 2}} |
                      ps::Consumer{std::ref(got)};
      pipeline.run();
      caught = caught || !got.holds(bytes);
    });
  }
  CHECK(caught == !tests::under_tsan);
}

} // namespace suite
