// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/counted_new.hpp"
#include "support/faulty_io.hpp"
#include "support/sanitizer.hpp"
#include "support/temp_dir.hpp"

#include <penstock/io/direct.hpp>
#include <penstock/sources/records.hpp>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

namespace ps = penstock;
using ps::DirectReads;
using ps::tests::FaultyIo;
using ps::tests::IoCall;
using ps::tests::IoFaults;
using ps::tests::TempDir;

namespace {

std::vector<std::byte> some_bytes(std::size_t size) {
  std::mt19937_64 random{size};
  std::vector<std::byte> bytes(size);
  for (std::byte& b : bytes) {
    b = static_cast<std::byte>(random());
  }
  return bytes;
}

template <class Call> auto error_of(Call call) {
  return ps::tests::thrown_by<ps::SourceError>(call);
}

bool says(const ps::SourceError& e, const std::string& text) {
  return std::string{e.what()}.find(text) != std::string::npos;
}

// Direct reads as on the strictest disks, on whatever file system the test runs.
IoFaults aligned_to(std::size_t alignment) {
  IoFaults faults;
  faults.direct_alignment = alignment;
  return faults;
}

// Memory that begins `past` bytes after a multiple of 4096.
class Room {
 public:
  explicit Room(std::size_t size) : bytes_(size + 2 * page) {}
  std::span<std::byte> at(std::size_t past, std::size_t size) {
    const std::size_t base = page - reinterpret_cast<std::uintptr_t>(bytes_.data()) % page;
    std::fill(bytes_.begin(), bytes_.end(), std::byte{0xEE});
    return std::span{bytes_}.subspan(base + past, size);
  }
  // Returns whether all bytes outside of `inside` are as they were.
  bool kept(std::span<std::byte> inside) const {
    const auto untouched = [](std::byte b) { return b == std::byte{0xEE}; };
    const auto from = bytes_.begin() + (inside.data() - bytes_.data());
    return std::all_of(bytes_.begin(), from, untouched) &&
           std::all_of(from + static_cast<std::ptrdiff_t>(inside.size()), bytes_.end(), untouched);
  }

 private:
  static constexpr std::size_t page = 4096;
  std::vector<std::byte> bytes_;
};

template <class Io>
bool reads_right(const ps::DirectFile<Io>& file, const std::vector<std::byte>& bytes, Room& room,
                 std::uint64_t offset, std::size_t size, std::size_t past) {
  const std::span<std::byte> into = room.at(past, size);
  ps::read_full(file, offset, into);
  return std::equal(into.begin(), into.end(),
                    bytes.begin() + static_cast<std::ptrdiff_t>(offset)) &&
         room.kept(into);
}

// Drops the file's pages from the cache, if the system allows it.
void drop(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  REQUIRE(fd >= 0);
  REQUIRE(::fsync(fd) == 0);
  REQUIRE(::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0);
  ::close(fd);
}

double cached_share(const std::string& path, std::uint64_t size) {
  const ps::PosixIo io;
  const int fd = io.open(path.c_str());
  REQUIRE(fd >= 0);
  double share = -1;
  REQUIRE(io.cached(fd, size, share) == 0);
  io.close(fd);
  return share;
}

constexpr std::size_t mib = std::size_t{1} << 20;

} // namespace

TEST_CASE("records tell that they are read directly, and that no window is read ahead then") {
  struct Io : FaultyIo<> {
    using FaultyIo<>::FaultyIo;
    int will_read(int, std::uint64_t, std::uint64_t) const noexcept { return 0; }
  };
  const TempDir dir;
  const auto bytes = some_bytes(4096);
  auto source = ps::records<std::byte>(dir.write("a", bytes), {.direct = DirectReads::always},
                                       Io{aligned_to(512)});
  source.open();
  std::string note;
  source.note(note);
  CHECK(note == "reads past the page cache");
  source.will_read(0, 100);
  note.clear();
  source.note(note);
  CHECK(note == "reads past the page cache, so no window is read ahead: give records() .direct = "
                "ps::DirectReads::none");
}

TEST_CASE("any offset, count and address come out right, read directly") {
  const TempDir dir;
  for (const std::size_t alignment : {512, 4096}) {
    const std::size_t size = 5 * alignment + 77;
    const auto bytes = some_bytes(size);
    const FaultyIo<> io{aligned_to(alignment)};
    const ps::DirectFile file{io, dir.write("a", bytes), DirectReads::always};
    REQUIRE(file.is_direct());
    REQUIRE(file.size() == size);
    Room room{size};
    const std::size_t near[] = {0,
                                1,
                                alignment - 1,
                                alignment,
                                alignment + 1,
                                3 * alignment,
                                5 * alignment - 1,
                                5 * alignment,
                                5 * alignment + 1,
                                size};
    bool right = true;
    int tried = 0;
    for (const std::size_t from : near) {
      for (const std::size_t to : near) {
        for (const std::size_t past : {std::size_t{0}, std::size_t{1}, from % alignment}) {
          if (to >= from) {
            right = right && reads_right(file, bytes, room, from, to - from, past);
            ++tried;
          }
        }
      }
    }
    CAPTURE(alignment);
    REQUIRE(tried > 150);
    REQUIRE(right);
    REQUIRE(io.failures() == 0);
  }
}

TEST_CASE("what is aligned goes straight into place, in one read, and its file's end through the "
          "cache") {
  const TempDir dir;
  const auto bytes = some_bytes(64 * 4096 + 100);
  const FaultyIo<> io{aligned_to(4096)};
  const ps::DirectFile file{io, dir.write("a", bytes), DirectReads::always};
  Room room{bytes.size()};
  const auto reads_for = [&](std::uint64_t offset, std::size_t size, std::size_t past) {
    const long all = io.reads();
    const long direct = io.direct_reads();
    REQUIRE(reads_right(file, bytes, room, offset, size, past));
    return std::pair{io.direct_reads() - direct, io.reads() - all};
  };
  using Reads = std::pair<long, long>; // direct reads, all reads
  REQUIRE(reads_for(4096, 40 * 4096, 0) == Reads{1, 1});
  REQUIRE(reads_for(0, bytes.size(), 0) == Reads{1, 2});
  REQUIRE(reads_for(100, 10 * 4096, 100) == Reads{1, 3}); // a head and a tail
  REQUIRE(reads_for(100, 10 * 4096, 0) == Reads{1, 1});   // by way of the bounce buffer
  REQUIRE(reads_for(63 * 4096, 4096 + 100, 1) == Reads{1, 2});
  REQUIRE(reads_for(64 * 4096, 100, 1) == Reads{0, 1});
  REQUIRE(reads_for(7, 0, 0) == Reads{0, 0});
}

TEST_CASE("reads that do not fit where they are wanted take one allocation a thread") {
  const TempDir dir;
  const auto bytes = some_bytes(4 * mib);
  const ps::DirectFile file{FaultyIo<>{aligned_to(4096)}, dir.write("a", bytes),
                            DirectReads::always};
  Room room{bytes.size()};
  std::uint64_t first = 0;
  std::uint64_t later = 0;
  bool right = true;
  std::thread{[&] {
    const auto read = [&] { right = right && reads_right(file, bytes, room, 5, 3 * mib, 1); };
    const std::uint64_t before = ps::tests::memory::allocations;
    read();
    const std::uint64_t between = ps::tests::memory::allocations;
    for (int k = 0; k < 10; ++k) {
      read();
    }
    first = between - before;
    later = ps::tests::memory::allocations - between;
  }}.join();
  REQUIRE(right);
#if defined(__clang__)
  constexpr std::uint64_t of_the_sanitizer = ps::tests::under_tsan ? 1 : 0;
#else
  constexpr std::uint64_t of_the_sanitizer = 0;
#endif
  REQUIRE(first == 1 + of_the_sanitizer);
  REQUIRE(later == 0);
}

TEST_CASE("directly is read what is not in the page cache, and of some size") {
  const TempDir dir;
  const auto bytes = some_bytes(mib);
  const std::string path = dir.write("a", bytes);
  const auto is_direct = [&](double cached, DirectReads reads, const std::string& of) {
    IoFaults faults = aligned_to(4096);
    faults.cached = cached;
    return ps::DirectFile{FaultyIo<>{faults}, of, reads}.is_direct();
  };
  REQUIRE(is_direct(0.0, DirectReads::automatic, path));
  REQUIRE(is_direct(0.49, DirectReads::automatic, path));
  REQUIRE(!is_direct(0.5, DirectReads::automatic, path));
  REQUIRE(!is_direct(1.0, DirectReads::automatic, path));
  REQUIRE(is_direct(1.0, DirectReads::always, path));
  REQUIRE(!is_direct(0.0, DirectReads::none, path));

  const std::string small = dir.write("small", some_bytes(mib - 1));
  REQUIRE(!is_direct(0.0, DirectReads::automatic, small));
  REQUIRE(is_direct(0.0, DirectReads::always, small));
  REQUIRE(!is_direct(0.0, DirectReads::always, dir.write("empty", "")));
}

TEST_CASE("what is in the page cache is seen as it is, and looking changes nothing") {
  const TempDir dir;
  const auto bytes = some_bytes(8 * mib + 5);
  const std::string path = dir.write("a", bytes);
  REQUIRE(cached_share(path, bytes.size()) == 1); // just written
  drop(path);
  const double share = cached_share(path, bytes.size());
  REQUIRE(share == cached_share(path, bytes.size()));
  const ps::DirectFile dropped{ps::PosixIo{}, path, DirectReads::automatic};
  // Some systems keep files in memory only, or refuse direct reads: then the file is not direct.
  const bool refused =
      error_of([&] { ps::DirectFile{ps::PosixIo{}, path, DirectReads::always}; }).has_value();
  REQUIRE(dropped.is_direct() == (share < 0.5 && !refused));
  Room room{bytes.size()};
  REQUIRE(reads_right(dropped, bytes, room, 0, bytes.size(), 0));
  REQUIRE(reads_right(dropped, bytes, room, 3, bytes.size() - 3, 0));
  if (dropped.is_direct()) {
    REQUIRE(cached_share(path, bytes.size()) < 0.5); // direct reads leave nothing there
  }
  std::cout << "After dropping " << share << " of the file is in the cache, and it is read "
            << (dropped.is_direct() ? "directly.\n" : "through the cache.\n");
}

TEST_CASE("the share of a file that is in the page cache is told for its whole length") {
  const TempDir dir;
  const std::string path = dir.write("a", "");
  std::filesystem::resize_file(path, 8 * mib);
  REQUIRE(cached_share(path, 8 * mib) == 0); // a hole, which nobody has read
  const auto bytes = some_bytes(4 * mib);
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  REQUIRE(fd >= 0);
  REQUIRE(::pwrite(fd, bytes.data(), bytes.size(), 4 * mib) == 4 * mib);
  ::close(fd);
  REQUIRE(cached_share(path, 8 * mib) == 0.5);
  REQUIRE(cached_share(path, 4 * mib) == 0);
}

TEST_CASE("reads of the alignment that the system names are taken") {
  const TempDir dir;
  const std::string path = dir.write("a", some_bytes(mib));
  const ps::PosixIo io;
  const int fd = io.open_direct(path.c_str());
  const std::int64_t alignment = fd < 0 ? -1 : io.direct_alignment(fd);
  if (alignment < 0) {
    REQUIRE(errno == EINVAL); // the file system has no direct reads
  } else {
    const auto bytes = static_cast<std::size_t>(alignment);
    CAPTURE(bytes);
    REQUIRE((bytes & (bytes - 1)) == 0);
    Room room{bytes};
    const std::span<std::byte> into = room.at(bytes % 4096, bytes);
    REQUIRE(io.read(fd, into.data(), bytes, bytes) == alignment);
  }
  io.close(fd);
}

TEST_CASE("where direct reads are refused the cache is read, or it is said with the cure") {
  const TempDir dir;
  const auto bytes = some_bytes(mib + 3);
  const std::string path = dir.write("a", bytes);
  for (const char* call : {"open_direct", "direct_alignment", "read_direct"}) {
    CAPTURE(call);
    IoFaults faults =
        IoFaults::fail([call](const IoCall& c) { return c.name == call ? EINVAL : 0; });
    faults.direct_alignment = 4096;
    faults.cached = 0;
    const FaultyIo<> io{faults};
    const auto e = error_of([&] { ps::DirectFile{io, path, DirectReads::always}; });
    REQUIRE(e);
    REQUIRE(e->file() == path);
    REQUIRE(says(*e, "penstock: cannot read " + path + " directly, past the page cache: "));
    REQUIRE(says(*e, "take DirectReads::automatic"));
    REQUIRE(io.open_now() == 0);
    {
      const ps::DirectFile file{io, path, DirectReads::automatic};
      REQUIRE(!file.is_direct());
      REQUIRE(io.open_now() == 1);
      Room room{bytes.size()};
      REQUIRE(reads_right(file, bytes, room, 0, bytes.size(), 0));
    }
    REQUIRE(io.open_now() == 0);
  }
  for (const std::size_t alignment : {std::size_t{1} << 16, std::size_t{1} << 17}) {
    IoFaults faults = aligned_to(alignment);
    faults.cached = 0;
    const ps::DirectFile file{FaultyIo<>{faults}, path, DirectReads::automatic};
    REQUIRE(file.is_direct() == (alignment == std::size_t{1} << 16));
  }
  // Whether the file is cached cannot be told: it is read through the cache.
  IoFaults blind = IoFaults::fail([](const IoCall& c) { return c.name == "cached" ? EPERM : 0; });
  blind.direct_alignment = 4096;
  REQUIRE(!ps::DirectFile{FaultyIo<>{blind}, path, DirectReads::automatic}.is_direct());
}

TEST_CASE("short direct reads are gone on with, wherever they stop") {
  const TempDir dir;
  const auto bytes = some_bytes(20 * 512 + 33);
  Room room{bytes.size()};
  for (const std::size_t most : {1, 7, 511, 512, 513, 1000, 4096}) {
    CAPTURE(most);
    IoFaults faults = aligned_to(512);
    faults.most_bytes = most;
    const ps::DirectFile file{FaultyIo<>{faults}, dir.write("a", bytes), DirectReads::always};
    for (const std::size_t past : {0, 1}) {
      REQUIRE(reads_right(file, bytes, room, 0, bytes.size(), past));
      REQUIRE(reads_right(file, bytes, room, 700, 9000, past));
      REQUIRE(reads_right(file, bytes, room, 700, 9000, 700 % 512 + past));
    }
  }
}

TEST_CASE("a direct read that is refused after all goes through the cache") {
  const TempDir dir;
  const auto bytes = some_bytes(10 * 4096);
  std::atomic<bool> refuses{false};
  IoFaults faults = IoFaults::fail(
      [&](const IoCall& c) { return refuses && c.name == "read_direct" ? EINVAL : 0; });
  faults.direct_alignment = 4096;
  const FaultyIo<> io{faults};
  const ps::DirectFile file{io, dir.write("a", bytes), DirectReads::always};
  refuses = true;
  Room room{bytes.size()};
  REQUIRE(reads_right(file, bytes, room, 0, bytes.size(), 0));
  REQUIRE(reads_right(file, bytes, room, 1, bytes.size() - 1, 0));
  REQUIRE(io.failures() == 2); // it is not tried again and again
}

TEST_CASE("a direct read that fails, and a file that shrinks, name the file and the byte") {
  const TempDir dir;
  const auto bytes = some_bytes(10 * 4096);
  const std::string path = dir.write("a", bytes);
  Room room{bytes.size()};
  SECTION("it fails") {
    std::atomic<bool> fails{false};
    IoFaults faults =
        IoFaults::fail([&](const IoCall& c) { return fails && c.name == "read_direct" ? EIO : 0; });
    faults.direct_alignment = 4096;
    const ps::DirectFile file{FaultyIo<>{faults}, path, DirectReads::always};
    fails = true;
    for (const std::size_t past : {0, 1}) {
      const auto e = error_of([&] { ps::read_full(file, 4096, room.at(past, 5 * 4096)); });
      REQUIRE(e);
      REQUIRE(e->file() == path);
      REQUIRE(e->offset() == 4096);
      REQUIRE(says(*e, "penstock: cannot read byte 4096 of " + path + ": Input/output error."));
    }
  }
  SECTION("it shrinks") {
    for (const std::uint64_t left : {0, 1, 4095, 4096, 5000, 8192}) {
      for (const std::size_t past : {0, 1}) {
        CAPTURE(left, past);
        dir.write("a", bytes);
        const ps::DirectFile file{FaultyIo<>{aligned_to(4096)}, path, DirectReads::always};
        REQUIRE(::truncate(path.c_str(), static_cast<off_t>(left)) == 0);
        for (const std::uint64_t from : {0, 5000, 12288}) {
          const auto e = error_of([&] { ps::read_full(file, from, room.at(past, 5 * 4096)); });
          REQUIRE(e);
          REQUIRE(e->offset() == std::max(left, from));
          REQUIRE(says(*e, path + " shrank while it was read: it had 40960 bytes"));
        }
      }
    }
  }
}

TEST_CASE("direct files are closed, and read when closed") {
  const TempDir dir;
  const auto bytes = some_bytes(10 * 4096 + 9);
  const std::string path = dir.write("a", bytes);
  const FaultyIo<> io{aligned_to(4096)};
  Room room{bytes.size()};
  {
    ps::DirectFile opened{io, path, DirectReads::always};
    REQUIRE(io.open_now() == 2);
    ps::DirectFile file{std::move(opened)};
    REQUIRE(io.open_now() == 2);
    file.close();
    REQUIRE(io.open_now() == 0);
    REQUIRE(file.is_direct());
    const long direct = io.direct_reads();
    REQUIRE(reads_right(file, bytes, room, 0, bytes.size(), 0));
    REQUIRE(io.direct_reads() == direct + 1);
    REQUIRE(io.open_now() == 0);
    const long opens = io.opens();
    REQUIRE(reads_right(file, bytes, room, 7, 0, 0));
    REQUIRE(io.opens() == opens); // an empty read opens nothing
    std::filesystem::remove(path);
    const auto e = error_of([&] { ps::read_full(file, 5, room.at(0, 10)); });
    REQUIRE(e);
    REQUIRE(e->offset() == 5);
    REQUIRE(says(*e, "cannot open " + path + ": No such file"));
  }
  REQUIRE(io.open_now() == 0);
}

TEST_CASE("what is opened again for direct reads is what was opened first") {
  const TempDir dir;
  const auto bytes = some_bytes(mib + 9);
  const std::string path = dir.write("a", bytes);
  const auto replaced = [&](const auto& e) {
    REQUIRE(e);
    REQUIRE(e->file() == path);
    REQUIRE(says(*e, path + " changed while it was read: another file has its name now"));
  };
  SECTION("the second time, when it is opened") {
    for (const DirectReads reads : {DirectReads::always, DirectReads::automatic}) {
      dir.write("b", some_bytes(mib + 9));
      IoFaults faults = IoFaults::fail([&](const IoCall& c) {
        if (c.name == "open_direct") {
          std::filesystem::rename(dir / "b", path);
        }
        return 0;
      });
      faults.direct_alignment = 4096;
      faults.cached = 0;
      const FaultyIo<> io{faults};
      replaced(error_of([&] { ps::DirectFile{io, path, reads}; }));
      REQUIRE(io.open_now() == 0);
    }
  }
  SECTION("later, when it is read") {
    const FaultyIo<> io{aligned_to(4096)};
    ps::DirectFile file{io, path, DirectReads::always};
    file.close();
    Room room{bytes.size()};
    REQUIRE(reads_right(file, bytes, room, 4096, 8192, 0));
    dir.write("b", some_bytes(mib + 9));
    std::filesystem::rename(dir / "b", path);
    const long reads = io.reads();
    replaced(error_of([&] { ps::read_full(file, 4096, room.at(0, 8192)); }));
    replaced(error_of([&] { ps::read_full(file, mib + 1, room.at(0, 5)); })); // through the cache
    REQUIRE(io.reads() == reads);
    REQUIRE(io.open_now() == 0);
  }
}

TEST_CASE("records are read directly, from many files and by many threads") {
  const TempDir dir;
  constexpr std::size_t record = 700;
  std::vector<std::byte> expected;
  std::vector<std::string> paths;
  for (int k = 0; k < 150; ++k) {
    const auto bytes = some_bytes(100 + record * static_cast<std::size_t>(k % 40));
    paths.push_back(dir.write(std::to_string(k), bytes));
    expected.insert(expected.end(), bytes.begin() + 100, bytes.end());
  }
  IoFaults faults = IoFaults::fail([](const IoCall& c) { return c.number % 5 == 0 ? EINTR : 0; });
  faults.direct_alignment = 512;
  faults.most_bytes = 5000;
  const FaultyIo<> io{faults};
  {
    auto source = ps::records<std::byte>(
        paths, {.offset = 100, .record_bytes = record, .direct = DirectReads::always}, io);
    source.open();
    REQUIRE(source.direct_files() == 146); // the other files have no records
    REQUIRE(io.open_now() == 256);         // two for each file
    REQUIRE(source.size() == expected.size() / record);
    std::vector<std::byte> into(expected.size());
    std::atomic<std::uint64_t> next{0};
    std::atomic<int> failures{0};
    {
      std::vector<std::jthread> threads;
      for (int t = 0; t < 3; ++t) {
        threads.emplace_back([&] {
          try {
            for (std::uint64_t first; (first = next.fetch_add(9)) < source.size();) {
              const std::uint64_t n = std::min<std::uint64_t>(9, source.size() - first);
              source.read(
                  ps::Batch<std::byte, ps::Pinned>{into.data() + first * record, n, first, record});
            }
          } catch (...) {
            ++failures;
          }
        });
      }
    }
    REQUIRE(failures == 0);
    REQUIRE(std::memcmp(into.data(), expected.data(), into.size()) == 0);
    REQUIRE(io.direct_reads() > 146);
  }
  REQUIRE(io.open_now() == 0);

  auto cached = ps::records<std::byte>(paths, {.offset = 100, .record_bytes = record});
  cached.open();
  REQUIRE(cached.direct_files() == 0);
}

TEST_CASE("files that fit into half of the memory that is free are left to the page cache") {
  const TempDir dir;
  const std::vector<std::string> paths{dir.write("a", some_bytes(mib)),
                                       dir.write("b", some_bytes(mib + 8))};
  const auto direct_files = [&](std::uint64_t memory, DirectReads reads) {
    IoFaults faults = aligned_to(4096);
    faults.cached = 0;
    faults.memory = memory;
    auto source = ps::records<std::byte>(paths, {.direct = reads}, FaultyIo<>{faults});
    source.open();
    return source.direct_files();
  };
  REQUIRE(direct_files(2 * (2 * mib + 8), DirectReads::automatic) == 0);
  REQUIRE(direct_files(2 * (2 * mib + 8) - 1, DirectReads::automatic) == 2);
  REQUIRE(direct_files(0, DirectReads::automatic) == 2); // the memory is not known
  REQUIRE(direct_files(100 * mib, DirectReads::always) == 2);
  REQUIRE(direct_files(0, DirectReads::none) == 0);
  REQUIRE(ps::PosixIo{}.available_memory() > 64 * mib);
}

TEST_CASE("whichever call fails, direct reads are right or the error says why, and all is closed") {
  const TempDir dir;
  const auto bytes = some_bytes(mib + 40);
  const std::string path = dir.write("a", bytes);
  Room room{bytes.size()};
  int fired = 0;
  for (const DirectReads reads : {DirectReads::always, DirectReads::automatic}) {
    for (const int error : {EIO, EINTR, EAGAIN, EINVAL}) {
      for (const bool persistent : {false, true}) {
        for (long k = 1;; ++k) {
          CAPTURE(static_cast<int>(reads), error, persistent, k);
          IoFaults faults =
              persistent ? IoFaults::fail_from(k, error) : IoFaults::fail_once(k, error);
          faults.direct_alignment = 4096;
          faults.cached = 0;
          faults.most_bytes = mib / 3;
          const FaultyIo<> io{faults};
          bool right = false;
          const auto e = error_of([&] {
            ps::DirectFile file{io, path, reads};
            const bool opened = reads_right(file, bytes, room, 0, bytes.size(), 0);
            file.close();
            right = reads_right(file, bytes, room, 9, 10'000, 0) && opened;
          });
          REQUIRE(right != e.has_value());
          REQUIRE(io.open_now() == 0);
          const bool passing = !persistent && (error == EINTR || error == EAGAIN);
          REQUIRE(!(e && passing));
          if (e) {
            REQUIRE(e->file() == path);
            REQUIRE(says(*e, std::generic_category().message(error)));
          }
          if (io.failures() == 0) {
            REQUIRE(k > 15);
            break;
          }
          ++fired;
        }
      }
    }
  }
  std::cout << "Direct reads: " << fired << " failing calls tried.\n";
}
