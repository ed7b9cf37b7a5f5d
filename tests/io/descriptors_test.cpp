// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Threads that read many small records of one file open it once each, and few others do.

#include "support/catch.hpp"
#include "support/faulty_io.hpp"
#include "support/temp_dir.hpp"

#include <penstock/batch.hpp>
#include <penstock/sources/records.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

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
