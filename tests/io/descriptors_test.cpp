// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Threads that read many small records of one file open it once each, and few others do.

#include "support/catch.hpp"
#include "support/faulty_io.hpp"
#include "support/temp_dir.hpp"

#include <penstock/data/batch.hpp>
#include <penstock/io/uring.hpp>
#include <penstock/penstock.hpp>
#include <penstock/sources/mix.hpp>
#include <penstock/sources/records.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <sys/resource.h>

namespace {

namespace ps = penstock;
namespace tests = penstock::tests;

constexpr std::size_t count = 4096;

std::vector<std::uint64_t> numbers() {
  std::vector<std::uint64_t> all(count);
  for (std::size_t i = 0; i != count; ++i) {
    all[i] = i * i;
  }
  return all;
}
std::string file_of_numbers(const tests::TempDir& dir, const std::string& name = "numbers") {
  const std::vector<std::uint64_t> all = numbers();
  return dir.write(name, std::as_bytes(std::span{all}));
}

/// Reads `each` records at a time, `reads` times, and returns how many came out wrong.
template <class S> std::size_t wrong(const S& source, std::size_t each, std::size_t reads) {
  const std::vector<std::uint64_t> expected = numbers();
  std::vector<std::uint64_t> into(each);
  std::size_t bad = 0;
  for (std::size_t k = 0; k != reads; ++k) {
    const std::uint64_t first = k * 37 % (count - each + 1);
    source.read(ps::Batch<std::uint64_t, ps::Pageable>{into.data(), each, first});
    for (std::size_t i = 0; i != each; ++i) {
      bad += into[i] == expected[first + i] ? 0 : 1;
    }
  }
  return bad;
}
template <class Io> auto opened(const std::vector<std::string>& paths, Io io) {
  auto source = ps::records<std::uint64_t>(paths, {}, io);
  source.open();
  return source;
}

} // namespace

TEST_CASE("Threads that read many small records have a descriptor each, and give it back") {
  const tests::TempDir dir;
  const tests::FaultyIo<> io;
  {
    const auto source = opened({file_of_numbers(dir)}, io);
    const long before = io.opens();
    CHECK(wrong(source, 1, 8) == 0);
    CHECK(io.opens() == before); // few reads need none
    std::string note;
    source.note(note);
    CHECK(note.empty());
    std::vector<std::size_t> bad(4, 1);
    std::vector<std::thread> threads;
    for (std::size_t& of_thread : bad) {
      threads.emplace_back([&] { of_thread = wrong(source, 2, 500); });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    CHECK(bad == std::vector<std::size_t>(4, 0));
    CHECK(io.opens() == before + 4);
    source.note(note);
    CHECK(note == "small records by a descriptor a thread");
  }
  CHECK(io.open_now() == 0);
}

TEST_CASE("Large reads, and reads of many files, open nothing more") {
  const tests::TempDir dir;
  const tests::FaultyIo<> io;
  const std::string path = file_of_numbers(dir);
  const std::vector<std::byte> large(std::size_t{1} << 20);
  auto bytes = ps::records<std::byte>(dir.write("large", large), {.record_bytes = 1 << 17}, io);
  bytes.open();
  const long one = io.opens();
  std::vector<std::byte> into(1 << 17);
  for (int k = 0; k != 100; ++k) {
    bytes.read(ps::Batch<std::byte, ps::Pageable>{into.data(), 1, 3, into.size()});
  }
  CHECK(io.opens() == one);
  const auto many = opened(std::vector<std::string>(9, path), io);
  const long nine = io.opens();
  CHECK(wrong(many, 1, 1000) == 0);
  CHECK(io.opens() == nine);
}

TEST_CASE("Where a file cannot be opened again its own descriptor serves") {
  const tests::TempDir dir;
  const std::string path = file_of_numbers(dir);
  bool refuse = false;
  tests::IoFaults faults = tests::IoFaults::fail(
      [&](const tests::IoCall& call) { return refuse && call.name == "open" ? EMFILE : 0; });
  const tests::FaultyIo<> io{faults};
  const auto source = opened({path}, io);
  refuse = true;
  const long before = io.calls();
  CHECK(wrong(source, 1, 200) == 0);
  CHECK(io.failures() == 1); // it is not tried again
  CHECK(io.calls() == before + 201);
}

TEST_CASE("Another file of that name is not read") {
  const tests::TempDir dir;
  const tests::FaultyIo<> io;
  const std::string path = file_of_numbers(dir);
  const auto source = opened({path}, io);
  std::filesystem::rename(path, dir / "away");
  dir.write("numbers", std::string(count * 8, 'x'));
  CHECK(wrong(source, 1, 200) == 0);
}

// Lowers the limit on open files while it lives.
struct FewFiles {
  explicit FewFiles(rlim_t most) {
    ::getrlimit(RLIMIT_NOFILE, &before);
    const rlimit now{most, before.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &now);
  }
  FewFiles(const FewFiles&) = delete;
  FewFiles& operator=(const FewFiles&) = delete;
  ~FewFiles() { ::setrlimit(RLIMIT_NOFILE, &before); }
  rlimit before{};
};
std::size_t open_files() {
  const std::filesystem::directory_iterator files{"/proc/self/fd"};
  return static_cast<std::size_t>(std::distance(begin(files), end(files))) - 1; // its own
}

TEST_CASE("Sources leave half of the files that the process may open to others, and need no more") {
  constexpr std::size_t shards = 300;
  const tests::TempDir dir;
  std::vector<std::string> paths;
  for (std::uint64_t i = 0; i != shards; ++i) {
    const std::vector<std::uint64_t> two{2 * i, 2 * i + 1};
    paths.push_back(dir.write("shard" + std::to_string(1000 + i), std::as_bytes(std::span{two})));
  }
  const auto run_all = [&](std::size_t sources, auto io) {
    std::vector<ps::Share<std::uint64_t>> parts;
    for (std::size_t i = 0; i != sources; ++i) {
      parts.push_back({ps::records<std::uint64_t>(paths, {}, io), 1});
    }
    std::atomic<std::uint64_t> sum{0};
    auto pipeline =
        ps::Reader{
            ps::mix<std::uint64_t>(parts),
            {.workers = 4, .order = {.shuffle = 1, .records = 1200 * sources}, .batch = 16}} |
        ps::Consumer{[&](ps::Batch<const std::uint64_t, ps::Pageable> batch) {
          sum += std::accumulate(batch.data(), batch.data() + batch.size(), std::uint64_t{0});
        }};
    pipeline.prepare();
    const std::size_t open = open_files();
    CHECK(pipeline.run().records == 1200 * sources);
    CHECK(sum == 2 * sources * (2 * shards) * (2 * shards - 1) / 2);
    return open;
  };
  for (const rlim_t most : {20, 64, 256, 1024}) {
    for (const std::size_t sources : {1U, 5U}) {
      CAPTURE(most, sources);
      const FewFiles few{most};
      CHECK(run_all(sources, ps::PosixIo{}) <= std::max<std::size_t>(most / 2, 11) + 2);
      CHECK(run_all(sources, ps::UringIo{}) <= std::max<std::size_t>(most / 2, 11) + 2);
    }
  }
  // Whoever has them open: the upper half is the program's.
  const FewFiles few{256};
  std::vector<std::ifstream> mine;
  while (open_files() < 200) {
    mine.emplace_back(paths.front());
  }
  run_all(2, ps::PosixIo{});
}

// Another file of the program's is closed while somebody pauses.
struct ClosesMeanwhile : ps::PosixIo {
  void pause() const {
    if (++*pauses == 5) {
      files->pop_back();
    }
  }
  std::vector<std::ifstream>* files;
  int* pauses;
};

TEST_CASE("A file that finds too many open waits until others are closed") {
  const tests::TempDir dir;
  const std::string path = file_of_numbers(dir);
  const FewFiles few{64};
  std::vector<std::ifstream> mine;
  while (mine.empty() || mine.back().is_open()) {
    mine.emplace_back(path);
  }
  mine.pop_back(); // which is not open
  int pauses = 0;
  ClosesMeanwhile io;
  io.files = &mine;
  io.pauses = &pauses;
  const auto source = opened({path}, io);
  CHECK(pauses == 5);
  CHECK(wrong(source, 1, 1000) == 0);
}
