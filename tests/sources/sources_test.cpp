// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/counted_new.hpp"
#include "support/faulty_io.hpp"
#include "support/temp_dir.hpp"

#include <penstock/penstock.hpp>
#include <penstock/sources/generate.hpp>
#include <penstock/sources/memory.hpp>
#include <penstock/sources/records.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <limits>
#include <optional>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ps = penstock;
using ps::tests::FaultyIo;
using ps::tests::IoCall;
using ps::tests::IoFaults;
using ps::tests::TempDir;

namespace {

template <std::size_t Bytes> struct Record {
  std::array<std::byte, Bytes> bytes;
  bool operator==(const Record&) const = default;
};

std::vector<std::byte> some_bytes(std::size_t size, std::uint64_t seed = 0) {
  std::mt19937_64 random{seed};
  std::vector<std::byte> bytes(size);
  for (std::byte& b : bytes) {
    b = static_cast<std::byte>(random());
  }
  return bytes;
}

template <class E = ps::SourceError, class Call> std::optional<E> error_of(Call call) {
  try {
    call();
  } catch (const E& e) {
    return e;
  }
  return std::nullopt;
}

bool says(const std::exception& e, const std::string& text) {
  return std::string{e.what()}.find(text) != std::string::npos;
}

// Returns the bytes of `count` records from `first` on, read at once.
template <class Where = ps::Pageable, class Source>
std::vector<std::byte> read(const Source& source, std::uint64_t first, std::size_t count) {
  using T = typename Source::schema;
  const std::size_t record_bytes = ps::detail::record_bytes_of(source);
  std::vector<std::byte> into(count * record_bytes, std::byte{0xEE});
  const std::size_t got = source.read(
      ps::Batch<T, Where>{reinterpret_cast<T*>(into.data()), count, first, record_bytes});
  into.resize(got * record_bytes);
  return into;
}

// Returns all bytes, in reads of at most `step` records, the last records first.
template <class Where = ps::Pageable, class Source>
std::vector<std::byte> read_backwards(const Source& source, std::size_t step) {
  std::vector<std::byte> all;
  for (std::uint64_t end = source.size(); end > 0;) {
    const std::uint64_t first = end - std::min<std::uint64_t>(end, step);
    const auto part = read<Where>(source, first, end - first);
    all.insert(all.begin(), part.begin(), part.end());
    end = first;
  }
  return all;
}

template <class Source> std::optional<ps::SourceError> open_error(Source source) {
  return error_of([&] { source.open(); });
}

std::vector<std::byte> joined(const std::vector<std::vector<std::byte>>& parts) {
  std::vector<std::byte> all;
  for (const auto& part : parts) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

template <std::size_t Bytes> void check_whole_files() {
  CAPTURE(Bytes);
  const TempDir dir;
  for (const std::uint64_t offset : {0, 1, 16}) {
    for (const std::size_t count : {0, 1, 2, 11}) {
      CAPTURE(offset, count);
      const auto all = some_bytes(offset + Bytes * count, Bytes + count);
      const std::vector<std::byte> body(all.begin() + static_cast<std::ptrdiff_t>(offset),
                                        all.end());
      const std::string path = dir.write("a", all);

      auto typed = ps::records<Record<Bytes>>(path, {.offset = offset});
      typed.open();
      REQUIRE(typed.size() == count);
      REQUIRE(typed.record_bytes() == Bytes);
      auto sized = ps::records<std::byte>(path, {.offset = offset, .record_bytes = Bytes});
      sized.open();
      REQUIRE(sized.size() == count);
      REQUIRE(sized.record_bytes() == Bytes);
      for (const std::size_t step : {1, 3, 11}) {
        REQUIRE(read_backwards(typed, step) == body);
        REQUIRE(read_backwards<ps::Pinned>(sized, step) == body);
      }
    }
  }
}

} // namespace

TEST_CASE("records of any size come out as they lie in the file") {
  check_whole_files<1>();
  check_whole_files<3>();
  check_whole_files<784>();
  check_whole_files<4096>();
  check_whole_files<150528>();
}

TEST_CASE("records are numbered through several files, whichever end inside a read") {
  const TempDir dir;
  const std::size_t sizes[] = {2, 0, 0, 1, 5, 0, 3, 0};
  std::vector<std::string> paths;
  std::vector<std::vector<std::byte>> bodies;
  for (std::size_t i = 0; i < std::size(sizes); ++i) {
    const auto bytes = some_bytes(8 + 3 * sizes[i], i);
    paths.push_back(dir.write("file" + std::to_string(i), bytes));
    bodies.emplace_back(bytes.begin() + 8, bytes.end());
  }
  const auto expected = joined(bodies);
  const auto check = [&](auto source) {
    source.open();
    REQUIRE(source.size() == 11);
    for (std::size_t first = 0; first <= 11; ++first) {
      for (std::size_t count = 0; first + count <= 11; ++count) {
        CAPTURE(first, count);
        REQUIRE(read(source, first, count) ==
                std::vector(expected.begin() + static_cast<std::ptrdiff_t>(3 * first),
                            expected.begin() + static_cast<std::ptrdiff_t>(3 * (first + count))));
      }
    }
  };
  check(ps::records<Record<3>>(paths, {.offset = 8}));
  check(ps::records<Record<3>>(dir.path(), {.offset = 8}));

  // In the order given; a list's strings are file names as well.
  auto turned = ps::records<Record<3>>({paths[6], paths[0]}, {.offset = 8});
  turned.open();
  REQUIRE(read(turned, 0, 5) == joined({bodies[6], bodies[0]}));
  auto mixed = ps::records<Record<3>>({paths[3], dir.path()}, {.offset = 8});
  mixed.open();
  REQUIRE(read(mixed, 0, 12) == joined({bodies[3], expected}));
}

TEST_CASE("files without records are a source without records") {
  const TempDir dir;
  const FaultyIo<> io;
  auto source = ps::records<float>({dir.write("a", ""), dir.write("b", "")}, {}, io);
  source.open();
  REQUIRE(source.size() == 0);
  REQUIRE(io.open_now() == 0); // nothing will be read
  REQUIRE(read(source, 0, 0).empty());
  REQUIRE(error_of([&] { read(source, 0, 1); }));
}

TEST_CASE("a partial last record is refused with all its numbers") {
  const TempDir dir;
  const std::string good = dir.write("good", some_bytes(16 + 2 * 784));
  const std::string bad = dir.write("bad", some_bytes(16 + 3 * 784 - 1));
  const auto check = [&](const auto& e) {
    REQUIRE(e);
    REQUIRE(e->file() == bad);
    REQUIRE(e->offset() == 16 + 2 * 784);
    REQUIRE(e->record() == 4);
    REQUIRE(says(*e, "penstock: " + bad + " has 2367 bytes"));
    REQUIRE(says(*e, "offset of 16"));
    REQUIRE(says(*e, "records of 784 bytes: 783 are left over"));
    REQUIRE(says(*e, "cut it to 1584 bytes"));
  };
  check(open_error(ps::records<Record<784>>({good, bad}, {.offset = 16})));
  check(open_error(ps::records<char>({good, bad}, {.offset = 16, .record_bytes = 784})));
}

TEST_CASE("a file shorter than the offset is refused, one as long has no records") {
  const TempDir dir;
  const std::string path = dir.write("a", some_bytes(15));
  const auto e = open_error(ps::records<int>(path, {.offset = 16}));
  REQUIRE(e);
  REQUIRE(e->file() == path);
  REQUIRE(says(*e, path + " has 15 bytes, fewer than the offset of 16"));
  REQUIRE(open_error(ps::records<int>(path, {.offset = ~std::uint64_t{0}})));
  REQUIRE(open_error(ps::records<int>(dir.write("empty", ""), {.offset = 1})));
  auto exact = ps::records<int>(path, {.offset = 15});
  exact.open();
  REQUIRE(exact.size() == 0);
}

TEST_CASE("record sizes that cannot be are refused before anything is opened") {
  const TempDir dir;
  const FaultyIo<> io;
  const std::string path = dir.write("a", some_bytes(16));
  auto typed = ps::records<int>(path, {.record_bytes = 4}, io);
  auto e = error_of<ps::OptionError>([&] { typed.open(); });
  REQUIRE(e);
  REQUIRE(says(*e, "penstock: records: record_bytes is 4, but it is for records of single bytes, "
                   "and T has 4"));
  auto huge = ps::records<std::byte>(path, {.record_bytes = ~std::size_t{0}}, io);
  e = error_of<ps::OptionError>([&] { huge.open(); });
  REQUIRE(e);
  REQUIRE(says(*e, "record_bytes is 18446744073709551615, more than any memory"));
  REQUIRE(io.calls() == 0);

  auto large =
      ps::records<std::byte>(path, {.offset = 8, .record_bytes = std::size_t{1} << 62}, io);
  const auto left_over = open_error(large);
  REQUIRE(left_over);
  REQUIRE(says(*left_over, "8 are left over"));
  REQUIRE(io.open_now() == 0);
}

TEST_CASE("what cannot be opened is named") {
  const TempDir dir;
  const std::string good = dir.write("good", some_bytes(8));
  REQUIRE(::mkfifo((dir / "fifo").c_str(), 0600) == 0);
  std::filesystem::create_directory(dir / "folder");
  for (const std::string& path :
       {dir / "none", dir / "fifo", dir / "folder", std::string{"/dev/zero"}}) {
    CAPTURE(path);
    ::alarm(20); // in case it blocks after all
    const auto e = open_error(ps::records<int>({good, path}));
    ::alarm(0);
    REQUIRE(e);
    REQUIRE(e->file() == path);
    REQUIRE(says(*e, path));
  }
  const FaultyIo<> io{IoFaults::fail(
      [&](const IoCall& c) { return c.name == "open" && c.path == good ? EACCES : 0; })};
  const auto e = open_error(ps::records<int>(good, {}, io));
  REQUIRE(e);
  REQUIRE(e->file() == good);
  REQUIRE(says(*e, good + ": Permission denied"));

  const auto none = open_error(ps::records<int>(std::vector<std::string>{}));
  REQUIRE(none);
  REQUIRE(says(*none, "the list of files is empty"));
}

TEST_CASE("more records than 64 bits count are refused") {
  // No file system holds such files: those of two bytes are said to have the greatest length.
  struct Io : ps::PosixIo {
    int status(const char* path, ps::FileStatus& s) const { return PosixIo::status(path, s); }
    int status(int fd, ps::FileStatus& s) const {
      const int result = PosixIo::status(fd, s);
      s.size = s.size == 2 ? std::numeric_limits<std::int64_t>::max() : s.size;
      return result;
    }
  };
  const TempDir dir;
  const std::string huge = dir.write("huge", "xx");
  auto two = ps::records<char>({huge, huge}, {}, Io{});
  two.open();
  REQUIRE(two.size() == ps::unknown_size - 1);
  for (const std::string& path : {dir.write("one", "x"), dir.write("three", "xxx"), huge}) {
    const auto e = open_error(ps::records<char>({huge, huge, path}, {}, Io{}));
    REQUIRE(e);
    REQUIRE(e->file() == path);
    REQUIRE(says(*e, "more records than 64 bits can count"));
  }
}

TEST_CASE("a source is a description until it is opened, and copies share what was opened") {
  const TempDir dir;
  const FaultyIo<> io;
  const auto bytes = some_bytes(12);
  auto source = ps::records<Record<4>>(dir / "a", {}, io);
  REQUIRE(io.calls() == 0);
  auto e = error_of([&] { source.size(); });
  REQUIRE(e);
  REQUIRE(says(*e, "call open() first"));
  REQUIRE(error_of([&] { read(source, 0, 1); }));
  REQUIRE(open_error(source)); // and can be tried again
  dir.write("a", bytes);
  source.open();
  const long calls = io.calls();
  source.open();
  {
    const auto copy = source;
    REQUIRE(copy.size() == 3);
    REQUIRE(io.calls() == calls);
    REQUIRE(io.open_now() == 1);
  }
  REQUIRE(io.open_now() == 1);
  REQUIRE(read(source, 0, 3) == bytes);
  source = ps::records<Record<4>>(dir / "a", {}, io);
  REQUIRE(io.open_now() == 0);
}

TEST_CASE("a read beyond the end, or of records of another size, writes nothing") {
  const TempDir dir;
  auto source = ps::records<std::byte>(dir.write("a", some_bytes(40)), {.record_bytes = 4});
  source.open();
  std::vector<std::byte> into(400, std::byte{1});
  const auto refused = [&](std::size_t count, std::uint64_t first, std::size_t bytes) {
    const auto e = error_of(
        [&] { source.read(ps::Batch<std::byte, ps::Pageable>{into.data(), count, first, bytes}); });
    REQUIRE(e);
    REQUIRE(e->record() == first);
    REQUIRE(into == std::vector<std::byte>(400, std::byte{1}));
    return std::string{e->what()};
  };
  REQUIRE(refused(11, 0, 4).find("11 records from record 0 on, but the source has 10") !=
          std::string::npos);
  refused(1, 10, 4);
  refused(2, 9, 4);
  refused(0, 11, 4);
  refused(2, ~std::uint64_t{0}, 4);
  REQUIRE(refused(2, 0, 1).find("records of 1 bytes, but they have 4") != std::string::npos);
}

TEST_CASE("a file that shrinks is refused with file, offset and the record that is not whole") {
  const TempDir dir;
  const std::string path = dir.write("b", some_bytes(100));
  auto source = ps::records<Record<10>>({dir.write("a", some_bytes(100)), path});
  source.open();
  REQUIRE(::truncate(path.c_str(), 35) == 0);
  const auto e = error_of([&] { read(source, 8, 8); });
  REQUIRE(e);
  REQUIRE(e->file() == path);
  REQUIRE(e->offset() == 35);
  REQUIRE(e->record() == 13);
  REQUIRE(says(*e, path + " shrank while it was read: it had 100 bytes"));
  REQUIRE(says(*e, "This was record 13."));
  REQUIRE(read(source, 8, 5).size() == 50); // the rest of the records
}

TEST_CASE("of more files than stay open one that is replaced half-way is an error that names it") {
  const TempDir dir;
  constexpr std::size_t files = 300;
  const auto bytes = some_bytes(30);
  for (std::size_t i = 0; i < files; ++i) {
    dir.write(std::to_string(1000 + i), bytes);
  }
  auto source = ps::records<Record<10>>(dir.path());
  source.open();
  REQUIRE(read(source, 0, 3 * files).size() == 30 * files);
  for (std::size_t i = 0; i < files; ++i) {
    std::filesystem::rename(dir.write("new", some_bytes(30)), dir / std::to_string(1000 + i));
  }
  std::size_t refused = 0;
  for (std::size_t i = 0; i < files; ++i) {
    const std::string path = dir / std::to_string(1000 + i);
    std::vector<std::byte> got;
    if (const auto e = error_of([&] { got = read(source, 3 * i + 1, 1); })) {
      ++refused;
      REQUIRE(e->file() == path);
      REQUIRE(e->offset() == 10);
      REQUIRE(e->record() == 3 * i + 1);
      REQUIRE(says(*e, path + " changed while it was read: another file has its name now"));
      REQUIRE(says(*e, "This was record " + std::to_string(3 * i + 1) + "."));
    } else {
      REQUIRE(got == std::vector(bytes.begin() + 10, bytes.begin() + 20));
    }
  }
  REQUIRE(refused == files - 256);
}

TEST_CASE("files stay where they were when they were opened, whatever the current folder is") {
  const TempDir dir;
  const auto bytes = some_bytes(30);
  std::vector<std::string> paths;
  for (std::size_t i = 0; i < 300; ++i) {
    paths.push_back(std::to_string(i));
    dir.write(paths.back(), bytes);
  }
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(dir.path());
  auto listed = ps::records<Record<10>>(paths);
  auto found = ps::records<Record<10>>(".");
  auto e = error_of([&] {
    listed.open();
    found.open();
  });
  std::filesystem::current_path(before);
  REQUIRE(!e);
  REQUIRE(read(listed, 0, 900) == read(found, 0, 900));
  REQUIRE(read(listed, 0, 900).size() == 9000);
  std::filesystem::remove(dir / "299");
  e = error_of([&] { read(listed, 899, 1); });
  REQUIRE(e);
  REQUIRE(e->file() == "299");
}

TEST_CASE("a file that vanishes before its read is named, with the record that was wanted") {
  const TempDir dir;
  std::vector<std::string> paths(256, dir.write("a", some_bytes(10)));
  paths.push_back(dir.write("b", some_bytes(30)));
  auto source = ps::records<Record<10>>(paths);
  source.open();
  std::filesystem::remove(paths.back());
  const auto e = error_of([&] { read(source, 257, 2); });
  REQUIRE(e);
  REQUIRE(e->file() == paths.back());
  REQUIRE(e->record() == 257);
  REQUIRE(e->offset() == 10);
  REQUIRE(says(*e, "No such file"));
}

TEST_CASE("places on both sides of 4 GiB are reached in a sparse file") {
  const TempDir dir;
  constexpr std::uint64_t border = std::uint64_t{1} << 32;
  constexpr std::uint64_t record_bytes = 4096, offset = 24;
  constexpr std::uint64_t count = 2 * border / record_bytes + 5;
  const std::string path = dir.write("sparse", "");
  std::filesystem::resize_file(path, offset + count * record_bytes);

  // Each record chosen begins with its own offset; the records next to the border are among them.
  std::mt19937_64 random{4};
  std::vector<std::uint64_t> chosen{0, border / record_bytes - 1, border / record_bytes, count - 1};
  while (chosen.size() < 1000) {
    chosen.push_back(random() % count);
  }
  std::sort(chosen.begin(), chosen.end());
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  REQUIRE(fd >= 0);
  for (const std::uint64_t record : chosen) {
    const std::uint64_t at = offset + record * record_bytes;
    REQUIRE(::pwrite(fd, &at, sizeof at, static_cast<off_t>(at)) == sizeof at);
  }
  ::close(fd);

  auto source =
      ps::records<std::byte>(path, {.offset = offset, .record_bytes = std::size_t{record_bytes}});
  source.open();
  REQUIRE(source.size() == count);
  REQUIRE(chosen.size() > 990);
  for (const std::uint64_t record : chosen) {
    const std::uint64_t first = record - std::min<std::uint64_t>(record, random() % 3);
    const auto bytes = read(source, first, record - first + 1);
    std::uint64_t found = 0;
    std::memcpy(&found, bytes.data() + (record - first) * record_bytes, sizeof found);
    REQUIRE(found == offset + record * record_bytes);
  }
}

TEST_CASE("of very many files only some stay open, and reading them allocates nothing") {
  const TempDir dir;
  std::vector<std::vector<std::byte>> bodies;
  for (int i = 0; i < 700; ++i) {
    bodies.push_back(some_bytes(6, static_cast<std::uint64_t>(i)));
    dir.write("a file with a long name " + std::to_string(1000 + i), bodies.back());
  }
  const auto expected = joined(bodies);
  const FaultyIo<> io;
  auto counted = ps::records<Record<2>>(dir.path(), {}, io);
  counted.open();
  REQUIRE(io.open_now() == 256);
  REQUIRE(read_backwards(counted, 50) == expected);
  REQUIRE(io.open_now() == 256);
  REQUIRE(io.open_most() <= 256 + static_cast<long>(ps::detail::opening_threads(700)));
  const long opens = io.opens();
  REQUIRE(read(counted, 3 * 400, 3) == bodies[400]);
  REQUIRE(io.opens() == opens + 1); // not the file that ends before it

  auto source = ps::records<Record<2>>(dir.path());
  source.open();
  REQUIRE(source.size() == 2100);
  std::vector<Record<2>> into(2100);
  const std::uint64_t before = ps::tests::memory::allocations;
  source.read(ps::Batch<Record<2>, ps::Pageable>{into.data(), into.size()});
  const std::uint64_t after = ps::tests::memory::allocations;
  REQUIRE(after == before);
  REQUIRE(before > 2100); // reads are counted
  REQUIRE(std::memcmp(into.data(), expected.data(), expected.size()) == 0);
}

TEST_CASE("many threads read at once, each its own range") {
  const TempDir dir;
  std::vector<std::vector<std::byte>> bodies;
  std::vector<std::string> paths;
  for (int i = 0; i < 300; ++i) {
    bodies.push_back(some_bytes(static_cast<std::size_t>(i % 7) * 5, static_cast<unsigned>(i)));
    paths.push_back(dir.write(std::to_string(i), bodies.back()));
  }
  const auto expected = joined(bodies);
  IoFaults faults = IoFaults::fail([](const IoCall& c) { return c.number % 5 == 0 ? EINTR : 0; });
  faults.most_bytes = 13;
  auto source = ps::records<Record<5>>(paths, {}, FaultyIo<>{faults});
  source.open();
  const std::uint64_t size = source.size();
  std::vector<Record<5>> into(size);
  std::atomic<std::uint64_t> next{0};
  std::atomic<int> failures{0};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        try {
          for (std::uint64_t first; (first = next.fetch_add(9)) < size;) {
            const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(9, size - first));
            source.read(ps::Batch<Record<5>, ps::Pinned>{into.data() + first, n, first});
          }
        } catch (...) {
          ++failures;
        }
      });
    }
  }
  REQUIRE(failures == 0);
  REQUIRE(std::memcmp(into.data(), expected.data(), expected.size()) == 0);
}

TEST_CASE("whichever call fails, records come out right or the error names the file") {
  const TempDir dir;
  const auto first = some_bytes(40), other = some_bytes(4);
  std::vector<std::string> few{dir.write("first", first), dir.write("other", other)};
  std::vector<std::string> many(257, few[1]);
  many.insert(many.begin(), few[0]);
  int fired = 0;
  // Of the calls for many files, those in the middle are alike.
  const auto check = [&](const std::vector<std::string>& paths, long alike_from, long alike_to) {
    std::vector<std::vector<std::byte>> parts(paths.size(), other);
    parts[0] = first;
    const auto expected = joined(parts);
    for (const int error : {EIO, EINTR}) {
      for (const bool persistent : {false, true}) {
        for (long k = 1;; k += k < alike_from || k >= alike_to ? 1 : 97) {
          CAPTURE(error, persistent, k);
          IoFaults faults =
              persistent ? IoFaults::fail_from(k, error) : IoFaults::fail_once(k, error);
          faults.most_bytes = 16;
          const FaultyIo<> io{faults};
          bool right = false;
          std::optional<ps::SourceError> e;
          {
            auto source = ps::records<Record<4>>(paths, {}, io);
            e = error_of([&] {
              source.open();
              right = read(source, 0, source.size()) == expected;
            });
          }
          REQUIRE(right != e.has_value());
          REQUIRE(io.open_now() == 0);
          if (e) {
            REQUIRE(e->file().find(dir.path()) == 0);
            REQUIRE(says(*e, e->file()));
            REQUIRE(!(error == EINTR && !persistent));
          }
          if (io.failures() == 0) {
            REQUIRE(k > io.calls());
            REQUIRE(right);
            break;
          }
          ++fired;
        }
      }
    }
  };
  check(few, 0, 0);
  // Two files looked at, opened, looked at, their first bytes and they read (3 and 1 each), closed.
  REQUIRE(fired == 4 * 16);
  check(many, 7, 1000);
  std::cout << "Records: " << fired << " failing calls tried.\n";
}

TEST_CASE("memory is read as it lies there") {
  std::vector<Record<3>> data(10);
  const auto bytes = some_bytes(30);
  std::memcpy(data.data(), bytes.data(), 30);
  const auto check = [&](const auto& source) {
    source.open();
    REQUIRE(source.size() == 10);
    REQUIRE(source.record_bytes() == 3);
    for (const std::size_t step : {1, 3, 10}) {
      REQUIRE(read_backwards(source, step) == bytes);
      REQUIRE(read_backwards<ps::Pinned>(source, step) == bytes);
    }
    REQUIRE(read(source, 10, 0).empty());
    REQUIRE(error_of([&] { read(source, 8, 3); }));
    REQUIRE(error_of([&] { read(source, ~std::uint64_t{0}, 1); }));
  };
  const std::span<const Record<3>> view{data};
  check(ps::memory(view));
  check(ps::memory(std::span{data}));
  check(ps::memory(data));
  check(ps::memory(std::as_const(data)));
  check(ps::memory(bytes, {.record_bytes = 3}));
  check(ps::memory(std::span<const std::byte>{bytes}, {.record_bytes = 3}));
  static_assert(std::is_same_v<decltype(ps::memory(view)), decltype(ps::memory(data))>);

  const int numbers[] = {7, 8, 9};
  const auto source = ps::memory(numbers);
  int got = 0;
  REQUIRE(source.read(ps::Batch<int, ps::Pageable>{&got, 1, 1}) == 1);
  REQUIRE(got == 8);
  REQUIRE(ps::memory(std::span<const int>{}).size() == 0);
  REQUIRE(read(ps::memory(std::span<const int>{}), 0, 0).empty());
}

template <class C>
concept Readable = requires(C&& c) { ps::memory(std::forward<C>(c)); };
static_assert(Readable<std::vector<int>&> && Readable<const std::vector<int>&>);
static_assert(Readable<std::span<int>> && Readable<std::span<const int>>);

TEST_CASE("memory refuses a partial last record and sizes that cannot be") {
  const std::vector<std::byte> bytes(11);
  const auto e = open_error(ps::memory(bytes, {.record_bytes = 4}));
  REQUIRE(e);
  REQUIRE(e->file().empty());
  REQUIRE(e->offset() == 8);
  REQUIRE(e->record() == 2);
  REQUIRE(says(*e, "penstock: memory: 11 bytes are no whole number of records of 4 bytes: 3 are"));

  const std::vector<int> numbers(4);
  REQUIRE(error_of<ps::OptionError>([&] { ps::memory(numbers, {.record_bytes = 4}).open(); }));
  REQUIRE(error_of<ps::OptionError>(
      [&] { ps::memory(bytes, {.record_bytes = ~std::size_t{0}}).open(); }));
}

TEST_CASE("a callable writes the records it is asked for, in either space") {
  const auto source =
      ps::generate<std::uint64_t>(1000, [](std::span<std::uint64_t> out, std::uint64_t first) {
        for (std::size_t i = 0; i < out.size(); ++i) {
          out[i] = (first + i) * 3;
        }
      });
  static_assert(ps::Source<std::remove_const_t<decltype(source)>>);
  REQUIRE(source.size() == 1000);
  std::vector<std::uint64_t> expected(1000);
  for (std::size_t i = 0; i < 1000; ++i) {
    expected[i] = i * 3;
  }
  const auto bytes = std::as_bytes(std::span{expected});
  REQUIRE(read_backwards(source, 64) == std::vector(bytes.begin(), bytes.end()));
  REQUIRE(read_backwards<ps::Pinned>(source, 1000) == std::vector(bytes.begin(), bytes.end()));
  REQUIRE(error_of([&] { read(source, 990, 11); }));
}

TEST_CASE("a callable of unknown size says how many it wrote") {
  const auto source = ps::generate<int>([](std::span<int> out, std::uint64_t first) -> std::size_t {
    const std::size_t n = first < 10 ? std::min<std::size_t>(out.size(), 10 - first) : 0;
    std::fill_n(out.begin(), n, static_cast<int>(first));
    return n;
  });
  REQUIRE(source.size() == ps::unknown_size);
  std::vector<int> into(4, -1);
  REQUIRE(source.read(ps::Batch<int, ps::Pageable>{into.data(), 4, 4}) == 4);
  REQUIRE(into == std::vector{4, 4, 4, 4});
  REQUIRE(source.read(ps::Batch<int, ps::Pinned>{into.data(), 4, 8}) == 2);
  REQUIRE(into == std::vector{8, 8, 4, 4});
  REQUIRE(source.read(ps::Batch<int, ps::Pageable>{into.data(), 4, 12}) == 0);
  // Record numbers do not start over.
  REQUIRE(error_of([&] { read(source, ps::unknown_size - 2, 4); }));

  const auto liar = ps::generate<int>(
      [](std::span<int> out, std::uint64_t) -> std::size_t { return out.size() + 1; });
  const auto e = error_of([&] { read(liar, 7, 4); });
  REQUIRE(e);
  REQUIRE(e->record() == 7);
  REQUIRE(says(*e, "penstock: generate: f returned 5 for a span of 4"));
}

TEST_CASE("a callable's own error goes through, and std::ref shares its object") {
  struct Counter {
    int calls = 0;
    void operator()(std::span<char>, std::uint64_t) {
      if (++calls == 2) {
        throw std::domain_error{"second call"};
      }
    }
  } counter;
  const auto source = ps::generate<char>(5, std::ref(counter));
  REQUIRE(read(source, 0, 5).size() == 5);
  REQUIRE(error_of<std::domain_error>([&] { read(source, 0, 5); }));
  REQUIRE(counter.calls == 2);
}

namespace {

// Types that are almost sources, each with one defect.
struct Good {
  using schema = int;
  std::uint64_t size() const { return 0; }
  template <class Where> std::size_t read(ps::Batch<int, Where>) const { return 0; }
};
struct NoSchema {
  std::uint64_t size() const { return 0; }
  template <class Where> std::size_t read(ps::Batch<int, Where>) const { return 0; }
};
struct ReadsNotAsConst : Good {
  template <class Where> std::size_t read(ps::Batch<int, Where>) { return 0; }
};
struct ReadsOtherRecords : Good {
  template <class Where> std::size_t read(ps::Batch<float, Where>) const { return 0; }
};
struct OnlyPageable : Good {
  std::size_t read(ps::Batch<int, ps::Pageable>) const { return 0; }
};
struct SaysNotHowMany : Good {
  template <class Where> void read(ps::Batch<int, Where>) const {}
};
struct NoSize {
  using schema = int;
  template <class Where> std::size_t read(ps::Batch<int, Where>) const { return 0; }
};
struct NoCopy : Good {
  NoCopy(NoCopy&&) = default;
};
static_assert(ps::Source<Good>);
static_assert(!ps::Source<NoSchema> && !ps::Source<NoSize> && !ps::Source<NoCopy>);
static_assert(!ps::Source<ReadsNotAsConst> && !ps::Source<ReadsOtherRecords>);
static_assert(!ps::Source<OnlyPageable> && !ps::Source<SaysNotHowMany> && !ps::Source<int>);
static_assert(std::is_same_v<ps::detail::schema_of<Good>::type, int>);
static_assert(std::is_same_v<ps::detail::schema_of<NoSchema>::type, std::byte>);
static_assert(ps::Source<ps::Records<int>> && ps::Source<ps::Memory<int>>);

struct Sized : Good {
  std::size_t bytes;
  int opened = 0;
  void open() { ++opened; }
  std::size_t record_bytes() const { return bytes; }
};

} // namespace

TEST_CASE("a source may leave out open() and record_bytes()") {
  Good good;
  ps::detail::open_source(good);
  REQUIRE(ps::detail::record_bytes_of(good) == sizeof(int));
  Sized sized{{}, 12};
  ps::detail::open_source(sized);
  REQUIRE(sized.opened == 1);
  REQUIRE(ps::detail::record_bytes_of(sized) == 12);
  const auto e = error_of([] { ps::detail::record_bytes_of(Sized{{}, 0}); });
  REQUIRE(e);
  REQUIRE(says(*e, "its record_bytes() must be at least 1"));
}

// Its note() throws `what`.
template <class What> struct NoNote {
  using schema = int;
  std::uint64_t size() const { return 100; }
  template <ps::HostSpace Where> std::size_t read(ps::Batch<int, Where> into) const {
    std::fill_n(into.data(), into.size(), 1);
    return into.size();
  }
  void note(std::string& to) const {
    to += "half";
    throw What{"no note"};
  }
};
struct NoMemory : std::bad_alloc {
  explicit NoMemory(const char*) {}
};
struct NoException {
  explicit NoException(const char*) {}
};

TEST_CASE("a source whose note() throws is read all the same") {
  const auto note_of = [](const auto& source) {
    auto pipeline = ps::Reader{source} | ps::Consumer{[](ps::Batch<const int, ps::Pageable>) {}};
    CHECK(pipeline.run().records == 100);
    return pipeline.report().stages[0].note;
  };
  CHECK(note_of(NoNote<std::runtime_error>{}) == "half; its note() threw: no note");
  CHECK(note_of(NoNote<NoMemory>{}) == "half; its note() threw: std::bad_alloc");
  CHECK(note_of(NoNote<NoException>{}) == "half");
}
