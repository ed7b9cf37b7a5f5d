// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Whole pipelines over files whose k-th system call fails, for every k and in every way: the right
// bytes arrive, or one error names file and offset.

#include "suite/through.hpp"
#include "support/catch.hpp"
#include "support/faulty_io.hpp"
#include "support/outcome.hpp"
#include "support/temp_dir.hpp"
#include "support/watchdog.hpp"

#include <penstock/sources/zip.hpp>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

using namespace suite;
using tests::Came;
using tests::IoFaults;
using tests::Outcome;
using tests::outcome_of;
using Io = tests::FaultyIo<>;

namespace {

using HostBytes = ps::Batch<const std::byte, ps::Pageable>;

constexpr std::size_t record = 300'001; // three a slot
constexpr std::size_t first_file = 5 * record;
constexpr std::size_t total = 7 * record;

// Two files, the first of which ends inside a slot.
struct Files {
  Files() : bytes{some_bytes(total)} {
    const std::span<const std::byte> all{bytes};
    paths = {dir.write("a", all.first(first_file)), dir.write("b", all.subspan(first_file))};
  }
  bool has(const std::string& path) const { return path == paths[0] || path == paths[1]; }
  // Returns a record's number: records are numbered through all files, while the offset is in one
  // file.
  std::uint64_t record_at(const std::string& path, std::uint64_t offset) const {
    return (path == paths[0] ? 0 : first_file / record) + offset / record;
  }

  std::vector<std::byte> bytes;
  tests::TempDir dir;
  std::vector<std::string> paths;
};

// Two files, each with a column of the same records.
struct Sample
    : ps::Columns<ps::Field<"image", std::uint8_t, 70'001>, ps::Field<"label", std::uint8_t, 8>> {};
struct ColumnFiles {
  static constexpr std::size_t records = 11, image = 70'001, label = 8;

  ColumnFiles() : images{some_bytes(records * image)}, labels{some_bytes(records * label, 2)} {
    paths = {dir.write("images", std::span<const std::byte>{images}),
             dir.write("labels", std::span<const std::byte>{labels})};
  }
  bool has(const std::string& path) const { return path == paths[0] || path == paths[1]; }
  std::uint64_t record_at(const std::string& path, std::uint64_t offset) const {
    return offset / (path == paths[0] ? image : label);
  }

  std::vector<std::byte> images, labels;
  tests::TempDir dir;
  std::vector<std::string> paths;
};

// The outcome of prepare() or run() on these files, with the bytes that arrived.
struct Result {
  Outcome prepare;
  Outcome run;
  bool right;

  bool failed() const { return prepare.came != Came::nothing || run.came != Came::nothing; }
};

// Its bytes are still to be looked at.
template <class P> Result result_of(P& pipeline) {
  Result result{outcome_of([&] { pipeline.prepare(); }), {}, false};
  if (result.prepare.came == Came::nothing) {
    result.run = outcome_of([&] { pipeline.run(); });
  }
  return result;
}

Result through_records(const Files& files, const Io& io, ps::DirectReads direct) {
  std::vector<std::byte> got(total);
  auto pipeline = ps::Reader{ps::records<std::byte>(files.paths,
                                                    {.record_bytes = record, .direct = direct}, io),
                             {.workers = 2}} |
                  ps::Consumer{[&](HostBytes batch) {
                                 std::memcpy(got.data() + batch.index() * record, batch.data(),
                                             batch.size_bytes());
                               },
                               {.workers = 2}};
  Result result = result_of(pipeline);
  result.right = got == files.bytes;
  return result;
}

Result through_host(const Files& files, const Io& io) {
  return through_records(files, io, ps::DirectReads::automatic);
}
Result through_direct(const Files& files, const Io& io) {
  return through_records(files, io, ps::DirectReads::always);
}

Result through_device(const Files& files, const Io& io) {
  ps::HostDevice device;
  Collector<ps::HostDevice> got{device, total};
  auto pipeline = ps::Reader{ps::records<std::byte>(files.paths, {.record_bytes = record}, io),
                             ps::to_pinned,
                             {.workers = 2}} |
                  ps::AsyncCopier{device, {.batch = 2}} | ps::Consumer{std::ref(got)};
  Result result = result_of(pipeline);
  result.right = got.in_order && got.holds(files.bytes);
  return result;
}

// Each column comes from a file of its own, and a decoder turns it about.
Result through_decoder(const ColumnFiles& files, const Io& io) {
  std::vector<std::byte> images(files.images.size()), labels(files.labels.size());
  auto pipeline =
      ps::Reader{
          ps::zip<Sample>(
              ps::records<std::uint8_t>(files.paths[0], {.record_bytes = ColumnFiles::image}, io),
              ps::records<std::uint8_t>(files.paths[1], {.record_bytes = ColumnFiles::label}, io)),
          {.workers = 2, .depth = 2, .batch = 2}} |
      ps::Decoder{
          [](ps::Batch<const Sample, ps::Pageable> in, ps::Batch<Sample, ps::Pageable> out) {
            const auto invert = [](const auto& from, const auto& to) {
              const std::size_t n = from.size() * from.elements();
              std::transform(from.data(), from.data() + n, to.data(), std::bit_not<>{});
            };
            invert(ps::get<"image">(in), ps::get<"image">(out));
            invert(ps::get<"label">(in), ps::get<"label">(out));
          },
          {.workers = 2, .depth = 2}} |
      ps::Consumer{[&](ps::Batch<const Sample, ps::Pageable> batch) {
                     const auto keep = [&](const auto& column, std::vector<std::byte>& to) {
                       const std::size_t each = column.elements();
                       std::transform(column.data(), column.data() + column.size() * each,
                                      to.data() + batch.index() * each,
                                      [](std::uint8_t b) { return ~std::byte{b}; });
                     };
                     keep(ps::get<"image">(batch), images);
                     keep(ps::get<"label">(batch), labels);
                   },
                   {.workers = 2}};
  Result result = result_of(pipeline);
  result.right = images == files.images && labels == files.labels;
  return result;
}

// Checks for the right bytes, or for one error that says where.
template <class Input> void check_result(const Input& files, const Result& result) {
  CAPTURE(result.prepare, result.run);
  if (!result.failed()) {
    CHECK(result.right);
    return;
  }
  CHECK_FALSE(result.right);
  const bool in_run = result.prepare.came == Came::nothing;
  const Outcome& out = in_run ? result.run : result.prepare;
  CHECK(out.came == (in_run ? Came::stage_error : Came::source_error));
  CHECK(files.has(out.file));
  CHECK(out.says("penstock: "));
  CHECK(out.says(out.file));
  if (in_run) {
    CHECK(out.stage == "Reader");
    CHECK(out.cause == Came::source_error);
    CHECK(out.record == files.record_at(out.file, out.offset));
  }
}

struct Points {
  int fired = 0;
  int errors = 0;
};

template <class Input, class Through>
Points fail_each_call(const Input& files, Through through, int error, bool persistent) {
  tests::Watchdog watchdog{"file calls"};
  Points points;
  bool fired = true;
  for (long k = 1; fired; ++k) {
    CAPTURE(k, error, persistent);
    watchdog.progress(static_cast<std::uint64_t>(k));
    IoFaults faults = persistent ? IoFaults::fail_from(k, error) : IoFaults::fail_once(k, error);
    faults.direct_alignment = 512; // for readers that ask for direct reads
    const Io io{faults};
    const Result result = through(files, io);
    check_result(files, result);
    CHECK(io.open_now() == 0);
    // Close is the last call, and the only one whose failure loses nothing.
    fired = io.failures() != 0;
    points.fired += fired ? 1 : 0;
    points.errors += result.failed() ? 1 : 0;
  }
  return points;
}

// Checks the error of a file that ends earlier than it said when it was opened.
const Outcome& error_of_end(const Files& files, const Result& result, std::uint64_t end) {
  check_result(files, result);
  // The first 264 bytes are looked at when a file is opened.
  const Outcome& out = end < 264 ? result.prepare : result.run;
  CHECK(out.came == (end < 264 ? Came::source_error : Came::stage_error));
  CHECK(out.offset >= end);
  CHECK(out.says("shrank"));
  return out;
}

} // namespace

TEST_CASE("whichever file call fails, the right bytes arrive or one error names file and offset") {
  const Files files;
  const ColumnFiles columns;
  Points all;
  const auto fail_each = [&all](const auto& input, auto through) {
    for (const bool persistent : {false, true}) {
      for (const int error : {EIO, EACCES, EINTR, EAGAIN}) {
        const Points points = fail_each_call(input, through, error, persistent);
        CAPTURE(error, persistent, points.fired, points.errors);
        // Two files: found, opened, examined, and read in at least four parts.
        CHECK(points.fired >= 10);
        // An error after which a call is tried again is none, unless it goes on for ever.
        const bool again = error == EINTR || error == EAGAIN;
        CHECK((points.errors == 0) == (again && !persistent));
        all.fired += points.fired;
        all.errors += points.errors;
      }
    }
  };
  fail_each(files, through_host);
  fail_each(files, through_direct);
  fail_each(files, through_device);
  fail_each(columns, through_decoder);
  std::printf("%d file calls failed, %d times with an error\n", all.fired, all.errors);
}

TEST_CASE("short reads deliver the right bytes") {
  const Files files;
  const ColumnFiles columns;
  for (const std::size_t most : {1'000UL, 4'096UL, 300'000UL}) {
    CAPTURE(most);
    IoFaults faults;
    faults.most_bytes = most;
    const Io io{faults};
    const Result host = through_host(files, io);
    CHECK_FALSE(host.failed());
    CHECK(host.right);
    faults.direct_alignment = 512;
    const Io direct_io{faults};
    const Result direct = through_direct(files, direct_io);
    CHECK_FALSE(direct.failed());
    CHECK(direct.right);
    CHECK(direct_io.direct_reads() >= static_cast<long>(total / most));
    const Result device = through_device(files, io);
    CHECK_FALSE(device.failed());
    CHECK(device.right);
    const Result decoded = through_decoder(columns, io);
    CHECK_FALSE(decoded.failed());
    CHECK(decoded.right);
    CHECK(io.reads() >= 2 * static_cast<long>(total / most));
  }
}

TEST_CASE("a file that ends early is an error wherever it ends") {
  const Files files;
  for (const std::uint64_t end : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{2 * record},
                                  std::uint64_t{3 * record - 1}, std::uint64_t{4 * record + 7},
                                  std::uint64_t{first_file - 1}}) {
    CAPTURE(end);
    IoFaults faults;
    faults.ends_at = end;
    error_of_end(files, through_host(files, Io{faults}), end);
    faults.direct_alignment = 512;
    error_of_end(files, through_direct(files, Io{faults}), end);
    error_of_end(files, through_device(files, Io{faults}), end);
  }
}

TEST_CASE("a file that is cut while it is read is an error with the place where it ends now") {
  tests::Watchdog watchdog{"a file is cut"};
  const tests::TempDir dir;
  const auto bytes = some_bytes(20 * record);
  for (const std::uint64_t left : {std::uint64_t{17 * record}, std::uint64_t{17 * record + 5}}) {
    const std::string path = dir.write("cut", std::span<const std::byte>{bytes});
    bool cut = false;
    std::uint64_t records = 0;
    auto pipeline = ps::Reader{ps::records<std::byte>(path, {.record_bytes = record}),
                               {.workers = 1, .depth = 2}} |
                    ps::Consumer{[&](HostBytes batch) {
                      records += batch.size();
                      if (!cut) {
                        cut = ::truncate(path.c_str(), static_cast<off_t>(left)) == 0;
                      }
                    }};
    const Outcome out = outcome_of([&] { pipeline.run(); });
    CAPTURE(out, left);
    CHECK(cut);
    CHECK(out.came == Came::stage_error);
    CHECK(out.stage == "Reader");
    CHECK(out.file == path);
    CHECK(out.offset == left);
    CHECK(out.record == 17);
    CHECK(records <= 15); // whole slots before the shortened one
    // The file is again as it was when opened: the pipeline works again.
    dir.write("cut", std::span<const std::byte>{bytes});
    CHECK(pipeline.run().records == 20);
  }
}

TEST_CASE("what cannot be opened is one error of prepare with its path") {
  tests::Watchdog watchdog{"not to be opened"};
  const tests::TempDir dir;
  const std::string fifo = dir / "fifo";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  const std::string empty = dir / "empty";
  REQUIRE(::mkdir(empty.c_str(), 0700) == 0);
  const std::string good = dir.write("good", std::string(100, 'x'));
  for (const std::string& path : {dir / "missing", empty, std::string{"/dev/zero"}, fifo}) {
    CAPTURE(path);
    ps::HostDevice device;
    Collector<ps::HostDevice> got{device, 100};
    auto pipeline =
        ps::Reader{ps::records<std::byte>(std::vector<std::string>{good, path}), ps::to_pinned} |
        ps::AsyncCopier{device} | ps::Consumer{std::ref(got)};
    for (int attempt = 0; attempt < 2; ++attempt) {
      const Outcome out = outcome_of([&] { pipeline.prepare(); });
      CAPTURE(out);
      CHECK(out.came == Came::source_error);
      CHECK(out.file == path);
      CHECK(out.says(path));
    }
    CHECK(outcome_of([&] { pipeline.run(); }).came == Came::source_error);
    // The device was asked for nothing but the collector's memory.
    CHECK(device.counts().calls == 1);
  }
}
