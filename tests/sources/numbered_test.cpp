// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The number of a record in its source, as a column that goes along.

#include "support/catch.hpp"
#include "support/temp_dir.hpp"
#include "support/watchdog.hpp"

#include <penstock/formats/files.hpp>
#include <penstock/penstock.hpp>
#include <penstock/sources/numbered.hpp>
#include <penstock/sources/slice.hpp>
#include <penstock/sources/zip.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace ps = penstock;
namespace tests = penstock::tests;

namespace {

using File = ps::Numbered<ps::LabelledFile>;
struct Class : ps::Columns<ps::Field<"record", std::uint64_t>, ps::Field<"bytes", std::int32_t>> {};
struct Pair : ps::Columns<ps::Field<"a", std::int32_t>, ps::Field<"b", float, 2>> {};

} // namespace

TEST_CASE("the number of a file goes through an order, skips, a Decoder and a Kernel") {
  const tests::Watchdog watchdog{"numbers of files"};
  const tests::TempDir dir;
  std::vector<std::string> paths;
  for (int i = 0; i != 200; ++i) {
    const std::string text(static_cast<std::size_t>(i), 'x');
    paths.push_back(dir.write(std::to_string(i), std::as_bytes(std::span{text})));
  }
  auto files = ps::files(paths);
  ps::HostDevice device;
  std::vector<std::uint64_t> seen;
  auto pipeline =
      ps::Reader{ps::numbered(files), {.workers = 2, .order = {.shuffle = 3}}} |
      ps::Decoder{[](ps::Row<const File> in, ps::Row<Class> out) {
                    ps::get<"record">(out) = ps::get<"record">(in);
                    ps::get<"bytes">(out) = static_cast<int>(ps::get<"bytes">(in).size());
                    if (ps::get<"record">(in) % 10 == 7) {
                      throw std::runtime_error{"a bad one"};
                    }
                  },
                  ps::to_pinned,
                  {.workers = 2, .on_error = {.skips = 1000}}} |
      ps::AsyncCopier{device, {.batch = 16}} |
      ps::Kernel{[](ps::Batch<const Class, ps::Device> in, ps::Batch<Class, ps::Device> out,
                    ps::HostStream& stream) {
        stream.enqueue([in, out] {
          std::ranges::copy(ps::get<"record">(in), ps::get<"record">(out).begin());
          std::ranges::copy(ps::get<"bytes">(in), ps::get<"bytes">(out).begin());
        });
      }} |
      ps::AsyncCopier{ps::to_host} | ps::Consumer{[&](ps::Batch<const Class, ps::Pinned> batch) {
        for (std::size_t i = 0; i != batch.size(); ++i) {
          const std::uint64_t record = ps::get<"record">(batch)[i];
          CHECK(static_cast<std::uint64_t>(ps::get<"bytes">(batch)[i]) == record);
          seen.push_back(record);
        }
      }};
  const ps::Report& report = pipeline.run();
  CHECK(report.skipped == 20);
  CHECK(std::all_of(report.skips.begin(), report.skips.end(),
                    [&](const ps::SkippedItem& item) { return item.file == paths[item.record]; }));
  CHECK(seen.size() == 180);
  CHECK_FALSE(std::is_sorted(seen.begin(), seen.end()));
  std::sort(seen.begin(), seen.end());
  CHECK(std::adjacent_find(seen.begin(), seen.end()) == seen.end());
}

TEST_CASE("the numbers are those of the source that is numbered") {
  std::vector<int> a(100);
  std::iota(a.begin(), a.end(), 0);
  const std::vector<float> b(200, 2);
  const auto pairs = ps::numbered(
      ps::drop(ps::zip<Pair>(ps::memory(a), ps::memory(std::as_bytes(std::span{b}),
                                                       {.record_bytes = 2 * sizeof(float)})),
               10));
  std::size_t records = 0;
  auto all = ps::Reader{pairs, {.epochs = 2, .order = {.shuffle = 1}, .batch = 7}} |
             ps::Consumer{[&](ps::Batch<const ps::Numbered<Pair>, ps::Pageable> batch) {
               for (std::size_t i = 0; i != batch.size(); ++i, ++records) {
                 CHECK(ps::get<"record">(batch)[i] + 10 ==
                       static_cast<std::uint64_t>(ps::get<"a">(batch)[i]));
                 CHECK(ps::get<"b">(batch)[i][1] == 2);
               }
             }};
  all.run();
  CHECK(records == 180);
}
