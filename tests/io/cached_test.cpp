// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// What comes through a cache on disk is what the Io below has, whoever is killed, whatever is
// damaged, full, evicted or changed; and what was read once is not asked for again.

#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/faulty_io.hpp"
#include "support/temp_dir.hpp"

#include <penstock/detail/base/splitmix.hpp>
#include <penstock/io/cached.hpp>
#include <penstock/io/file.hpp>
#include <penstock/penstock.hpp>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

namespace {

namespace ps = penstock;
namespace tests = penstock::tests;
using tests::has;

bool says(const std::string& text, const char* part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

constexpr std::size_t block = 4096;
constexpr std::size_t a_set = 16;
// What a cache of so many blocks takes.
constexpr std::uint64_t room_for(std::uint64_t blocks) {
  return 3 * 4096 + blocks * (block + 64);
}

std::byte byte_at(std::uint64_t version, std::uint64_t offset) {
  return static_cast<std::byte>(ps::detail::splitmix(version, offset / 8) >> offset % 8 * 8);
}

/// Files whose bytes are made as they are read. Their names say how many they have.
class MadeIo : public ps::PosixIo {
 public:
  explicit MadeIo(std::uint64_t version = 1) : version_{version} {}

  int open(const char* path) const {
    const std::string_view text = path;
    return std::stoi(std::string{text.substr(text.rfind('/') + 1)});
  }
  int close(int) const noexcept { return 0; }
  int status(const char* path, ps::FileStatus& status) const {
    return this->status(open(path), status);
  }
  int status(int fd, ps::FileStatus& status) const {
    status = {ps::FileKind::regular, static_cast<std::uint64_t>(fd), 7, version_, 0};
    return 0;
  }
  std::int64_t read(int fd, std::byte* into, std::size_t bytes, std::uint64_t offset) const {
    ++*reads_;
    const std::uint64_t there = static_cast<std::uint64_t>(fd) - offset;
    const std::size_t some = std::min<std::size_t>(bytes, there);
    for (std::size_t i = 0; i != some; ++i) {
      into[i] = byte_at(version_, offset + i);
    }
    return static_cast<std::int64_t>(some);
  }
  std::string note() const { return "made"; }
  long reads() const { return *reads_; }

 private:
  std::uint64_t version_;
  std::shared_ptr<std::atomic<long>> reads_ = std::make_shared<std::atomic<long>>(0);
};

template <class Calls = ps::CacheCalls>
ps::CachedIo<MadeIo, Calls> cached(const std::string& folder, std::uint64_t blocks,
                                   const MadeIo& io = MadeIo{}, Calls calls = {}) {
  return {io, {.cache = folder, .bytes = room_for(blocks), .block_bytes = block}, calls};
}

// Whether bytes of a file are those of its version.
template <class Io>
bool reads_right(const ps::File<Io>& file, std::uint64_t offset, std::size_t size,
                 std::uint64_t version = 1) {
  std::vector<std::byte> into(size);
  ps::read_full(file, offset, into);
  for (std::size_t i = 0; i != size; ++i) {
    if (into[i] != byte_at(version, offset + i)) {
      return false;
    }
  }
  return true;
}

// Reads of all sizes at random places, all of them right.
template <class Io>
bool read_at_random(const Io& io, const char* name, unsigned seed, int reads,
                    std::uint64_t version = 1) {
  const ps::File<Io> file{io, name};
  std::mt19937_64 random{seed};
  bool right = true;
  for (int i = 0; i != reads; ++i) {
    const std::uint64_t offset = random() % file.size();
    const std::size_t most = random() % 4 == 0 ? 5 * block : 300;
    const auto size = static_cast<std::size_t>(
        std::min<std::uint64_t>(random() % most + 1, file.size() - offset));
    right = reads_right(file, offset, size, version) && right;
  }
  return right;
}

// Runs f() in a child. Returns its process number.
template <class F> pid_t forked(F f) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    int code = 1;
    try {
      code = f() ? 0 : 2;
    } catch (...) {
    }
    ::_exit(code);
  }
  return child;
}
int status_of(pid_t child) {
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return status;
}

/// Changes bytes of the cache's file from `from` on; returns how many there were.
template <class Change> std::size_t change(const tests::TempDir& dir, std::size_t from, Change f) {
  const std::string path = dir / "penstock.cache";
  std::string bytes = tests::content_of(path);
  for (std::size_t i = from; i < bytes.size(); ++i) {
    bytes[i] = f(i, bytes[i]);
  }
  std::fstream{path, std::ios::binary | std::ios::in | std::ios::out}.write(
      bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return bytes.size();
}

} // namespace

TEST_CASE("what was read once comes from the cache, in whatever parts it is read") {
  const tests::TempDir dir;
  const MadeIo made;
  const auto io = cached(dir.path(), 64, made);
  const ps::File file{io, "200001"};
  REQUIRE(file.size() == 200'001);
  REQUIRE(reads_right(file, 0, 200'001));
  const long reads = made.reads();
  REQUIRE(reads == 49); // blocks
  REQUIRE(read_at_random(io, "200001", 1, 500));
  REQUIRE(made.reads() == reads);
  REQUIRE(io.counts().missed_bytes == 200'001);
  REQUIRE(io.counts().evicted == 0);
  REQUIRE(io.note() == "from the cache 1 MB, past it 0 MB, made");

  SECTION("also by another process, or later") {
    const MadeIo later;
    const auto other = cached(dir.path(), 64, later);
    REQUIRE(reads_right(ps::File{other, "200001"}, 0, 200'001));
    REQUIRE(later.reads() == 0);
    REQUIRE(other.counts().hit_bytes == 200'001);
  }
  SECTION("but not of another version, name or length") {
    const MadeIo changed{2};
    const auto other = cached(dir.path(), 128, changed);
    REQUIRE(reads_right(ps::File{other, "200001"}, 0, 200'001, 2));
    REQUIRE(changed.reads() == 49);
    REQUIRE(reads_right(ps::File{other, "200000"}, 0, 200'000, 2));
    REQUIRE(changed.reads() == 98);
  }
  SECTION("and what has no version is not kept") {
    const MadeIo nameless{0};
    const auto other = cached(dir.path(), 64, nameless);
    const ps::File unknown{other, "9000"};
    REQUIRE(reads_right(unknown, 0, 9000, 0));
    REQUIRE(reads_right(unknown, 0, 9000, 0));
    REQUIRE(nameless.reads() == 2);
  }
}

TEST_CASE("sources read through a cache, and the Report says so") {
  const tests::TempDir dir;
  const tests::TempDir folder;
  const MadeIo made;
  const auto io = cached(folder.path(), 64, made);
  std::uint64_t wrong = 0;
  auto pipeline = ps::Reader{ps::records<std::uint64_t>({"80000", "64000"}, {}, io)} |
                  ps::Consumer{[&](ps::Batch<const std::uint64_t, ps::Pageable> batch) {
                    for (std::size_t i = 0; i != batch.size(); ++i) {
                      const std::uint64_t number = batch.index() + i;
                      const std::uint64_t in_file = number < 10'000 ? number : number - 10'000;
                      wrong += batch.data()[i] == ps::detail::splitmix(1, in_file) ? 0U : 1U;
                    }
                  }};
  pipeline.run();
  const long reads = made.reads();
  const ps::Report report = pipeline.run();
  REQUIRE(wrong == 0);
  REQUIRE(made.reads() == reads);
  REQUIRE(says(report.stages[0].note, "from the cache"));
}

TEST_CASE("a file that is written anew is read anew") {
  const tests::TempDir dir;
  const tests::TempDir folder;
  const std::string path = dir.write("a", std::string(10'000, 'a'));
  const ps::CachedIo io{ps::PosixIo{},
                        {.cache = folder.path(), .bytes = room_for(64), .block_bytes = block}};
  std::string bytes(10'000, ' ');
  const auto read = [&] {
    ps::read_full(ps::File{io, path}, 0, std::as_writable_bytes(std::span{bytes}));
    return bytes;
  };
  REQUIRE(read() == std::string(10'000, 'a'));
  REQUIRE(read() == std::string(10'000, 'a'));
  REQUIRE(io.counts().hit_bytes == 10'000);
  dir.write("a", std::string(10'000, 'b'));
  std::filesystem::last_write_time(path, std::filesystem::last_write_time(path) +
                                             std::chrono::seconds{1});
  REQUIRE(read() == std::string(10'000, 'b'));
  REQUIRE(io.counts().missed_bytes == 20'000);
}

TEST_CASE("a cache takes no more bytes than it may, and what was used the longest ago goes") {
  const tests::TempDir dir;
  const MadeIo made;
  SECTION("of one set the least recently used") {
    const auto io = cached(dir.path(), a_set, made);
    const ps::File file{io, "1000000"};
    const auto read = [&](std::uint64_t number) {
      const long before = made.reads();
      REQUIRE(reads_right(file, number * block + 5, 10));
      return made.reads() == before;
    };
    for (std::uint64_t i = 0; i != a_set; ++i) {
      REQUIRE(!read(i));
    }
    REQUIRE(read(0));
    REQUIRE(!read(a_set)); // takes the place of 1
    REQUIRE(read(0));
    REQUIRE(read(2));
    REQUIRE(!read(1));
    REQUIRE(io.counts().evicted == 2);
  }
  SECTION("with many more blocks than places") {
    const auto io = cached(dir.path(), 100, made);
    for (unsigned seed = 0; seed != 4; ++seed) {
      REQUIRE(read_at_random(io, "3000000", seed, 300));
    }
    REQUIRE(io.counts().evicted > 100);
    REQUIRE(std::filesystem::file_size(dir / "penstock.cache") <= room_for(100));
  }
  SECTION("a file as large as the cache fits in whole") {
    const auto io = cached(dir.path(), 128, made);
    const std::string name = std::to_string(128 * block);
    REQUIRE(reads_right(ps::File{io, name}, 0, 128 * block));
    REQUIRE(reads_right(ps::File{io, name}, 0, 128 * block));
    REQUIRE(made.reads() == 128);
  }
}

TEST_CASE("of a damaged cache no byte is given") {
  const tests::TempDir dir;
  REQUIRE(reads_right(ps::File{cached(dir.path(), 64), "200000"}, 0, 200'000));
  const std::size_t blocks_at = 4096 + 4096; // behind the shape and 64 places
  MadeIo made;

  SECTION("one bit in each block") {
    change(dir, blocks_at,
           [](std::size_t i, char c) { return i % block == 1000 ? static_cast<char>(c ^ 1) : c; });
    const auto io = cached(dir.path(), 64, made);
    REQUIRE(reads_right(ps::File{io, "200000"}, 100, 199'900));
    REQUIRE(io.counts().damaged == 49);
    REQUIRE(made.reads() == 49);
    REQUIRE(says(io.note(), "49 damaged blocks of it not used"));
    REQUIRE(reads_right(ps::File{io, "200000"}, 0, 200'000)); // mended
    REQUIRE(made.reads() == 49);
  }
  SECTION("blocks that a power failure left empty") {
    change(dir, blocks_at, [](std::size_t, char) { return '\0'; });
    const auto io = cached(dir.path(), 64, made);
    REQUIRE(read_at_random(io, "200000", 1, 300));
    REQUIRE(io.counts().damaged > 40);
  }
  SECTION("any bytes where it says which blocks it has") {
    std::mt19937 random{1};
    for (int i = 0; i != 20; ++i) {
      change(dir, 4096, [&](std::size_t at, char c) {
        return at < blocks_at && random() % 8 == 0 ? static_cast<char>(random()) : c;
      });
      REQUIRE(read_at_random(cached(dir.path(), 64, made), "200000", 1, 100));
    }
  }
  SECTION("a shorter file, an empty one, or one of another shape") {
    std::filesystem::resize_file(dir / "penstock.cache", 5000);
    REQUIRE(read_at_random(cached(dir.path(), 64, made), "200000", 1, 300));
    std::filesystem::resize_file(dir / "penstock.cache", 0);
    REQUIRE(read_at_random(cached(dir.path(), 64, made), "200000", 1, 300));
    const auto io = cached(dir.path(), 32, made);
    REQUIRE(read_at_random(io, "200000", 1, 300));
    REQUIRE(std::filesystem::file_size(dir / "penstock.cache") <= room_for(32));
  }
}

/// A disk that is full after some writes.
struct FullCalls : ps::CacheCalls {
  std::int64_t write(int fd, const std::byte* from, std::size_t bytes, std::uint64_t offset) const {
    if (--*left < 0) {
      errno = ENOSPC;
      return -1;
    }
    return CacheCalls::write(fd, from, bytes, offset);
  }
  std::shared_ptr<std::atomic<int>> left = std::make_shared<std::atomic<int>>(0);
};

TEST_CASE("where the disk is full, reads go on, and the note says so once") {
  const int writes = GENERATE(0, 1, 5, 20);
  const tests::TempDir dir;
  FullCalls calls;
  *calls.left = writes;
  const MadeIo made;
  const auto io = cached(dir.path(), 64, made, calls);
  REQUIRE(read_at_random(io, "200000", 1, 300));
  REQUIRE(io.counts().error == ENOSPC);
  const std::string note = io.note();
  REQUIRE(says(note, "nothing more is kept in the cache: No space left on device"));
  const std::size_t at = note.find("nothing more");
  REQUIRE(note.find("nothing more", at + 1) == std::string::npos);

  const auto later = cached(dir.path(), 64, made); // there is room again
  REQUIRE(read_at_random(later, "200000", 1, 300));
  REQUIRE(later.counts().error == 0);
}

TEST_CASE("a failure of the Io below is passed on, and leaves nothing behind") {
  const tests::TempDir dir;
  const tests::TempDir folder;
  const std::string path = dir.write("a", std::string(100'000, 'a'));
  const auto faults = tests::IoFaults::fail([](const tests::IoCall& call) {
    return call.name == "read" && call.number % 3 == 0 ? EIO : 0;
  });
  const tests::FaultyIo<> below{faults};
  const ps::CachedIo io{below,
                        {.cache = folder.path(), .bytes = room_for(64), .block_bytes = block}};
  int failures = 0;
  std::string bytes(100'000, ' ');
  for (int i = 0; i != 60; ++i) {
    try {
      ps::read_full(ps::File{io, path}, 0, std::as_writable_bytes(std::span{bytes}));
      REQUIRE(bytes == std::string(100'000, 'a'));
    } catch (const ps::SourceError& e) {
      REQUIRE(has(e, "Input/output error"));
      ++failures;
    }
  }
  REQUIRE(failures > 5);
  REQUIRE(failures < 60); // in the end all of it was kept
  REQUIRE(below.open_now() == 0);
}

TEST_CASE("threads read right while blocks come and go") {
  const tests::TempDir dir;
  const auto io = cached(dir.path(), 48);
  std::atomic<int> right{0};
  {
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i != 6; ++i) {
      threads.emplace_back([&, i] { right += read_at_random(io, "400000", i, 300) ? 1 : 0; });
    }
  }
  REQUIRE(right == 6);
  REQUIRE(io.counts().evicted != 0);
}

TEST_CASE("processes that share a cache read right while blocks come and go") {
  const tests::TempDir dir;
  std::vector<pid_t> children;
  for (unsigned i = 0; i != 4; ++i) {
    children.push_back(forked([&] {
      return read_at_random(cached(dir.path(), 48), "400000", i, 600) &&
             read_at_random(cached(dir.path(), 48, MadeIo{2}), "400000", i, 600, 2);
    }));
  }
  for (const pid_t child : children) {
    REQUIRE(status_of(child) == 0);
  }
  const MadeIo made;
  REQUIRE(read_at_random(cached(dir.path(), 48, made), "400000", 9, 600));
}

TEST_CASE("a forked child reads right, and writes nothing") {
  const tests::TempDir dir;
  const MadeIo made;
  const auto io = cached(dir.path(), 64, made);
  REQUIRE(reads_right(ps::File{io, "100000"}, 0, 50'000));
  REQUIRE(status_of(forked(
              [&] { return read_at_random(io, "100000", 1, 100) && made.reads() > 13; })) == 0);
  REQUIRE(reads_right(ps::File{io, "100000"}, 50'000, 50'000));
  REQUIRE(made.reads() == 25);
}

/// Kills its process in the middle of a write.
struct DeadlyCalls : ps::CacheCalls {
  explicit DeadlyCalls(long which) : left{std::make_shared<std::atomic<long>>(which)} {}
  std::int64_t write(int fd, const std::byte* from, std::size_t bytes, std::uint64_t offset) const {
    if (--*left == 0) {
      CacheCalls::write(fd, from, bytes / 2, offset);
      std::raise(SIGKILL);
    }
    return CacheCalls::write(fd, from, bytes, offset);
  }
  std::shared_ptr<std::atomic<long>> left;
};

TEST_CASE("after 24 kills no byte is wrong, and nobody waits for who was killed") {
  const tests::TempDir dir;
  const auto check = [&](unsigned seed) {
    const MadeIo made;
    const auto io = cached(dir.path(), 64, made);
    REQUIRE(read_at_random(io, "400000", seed, 200));
    return io.counts();
  };
  for (unsigned i = 0; i != 12; ++i) {
    INFO("in the middle of write " << 1 + 3 * i);
    const pid_t child = forked([&] {
      const DeadlyCalls calls{1 + 3 * static_cast<long>(i)};
      return read_at_random(cached(dir.path(), 64, MadeIo{3 + i}, calls), "400000", i, 5000, 3 + i);
    });
    const int status = status_of(child);
    REQUIRE(WIFSIGNALED(status));
    REQUIRE(WTERMSIG(status) == SIGKILL);
    check(i);
  }
  for (unsigned i = 0; i != 12; ++i) {
    INFO("after " << i << " ms");
    const pid_t child = forked([&] {
      const auto io = cached(dir.path(), 64, MadeIo{1 + i % 2});
      for (unsigned seed = 0;; ++seed) {
        if (!read_at_random(io, "400000", seed, 100, 1 + i % 2)) {
          return false;
        }
      }
    });
    std::this_thread::sleep_for(std::chrono::milliseconds{20 + i});
    check(i); // while it runs
    REQUIRE(::kill(child, SIGKILL) == 0);
    REQUIRE(WIFSIGNALED(status_of(child))); // it did not end by itself, with a wrong byte
    check(i);
  }
  const MadeIo made;
  const auto io = cached(dir.path(), 128, made);
  REQUIRE(reads_right(ps::File{io, "400000"}, 0, 400'000));
  const long reads = made.reads();
  REQUIRE(reads_right(ps::File{io, "400000"}, 0, 400'000));
  REQUIRE(made.reads() == reads); // all places can be had again
}

struct NetworkCalls : ps::CacheCalls {
  bool on_network(int) const noexcept { return true; }
};

TEST_CASE("options and folders that cannot work are refused") {
  const tests::TempDir dir;
  const auto refused = [&](const ps::CacheOptions& options) {
    return tests::caught<ps::OptionError>([&] { ps::CachedIo{MadeIo{}, options}; });
  };
  REQUIRE(has(refused({.cache = dir.path(), .block_bytes = 5000}),
              ".block_bytes is 5000: give a power of two"));
  REQUIRE(has(refused({.cache = dir.path(), .block_bytes = 2048}), ".block_bytes is 2048"));
  REQUIRE(has(refused({.cache = dir.path(), .block_bytes = std::size_t{1} << 21}), "to 1048576"));
  REQUIRE(has(refused({.cache = dir.path(), .bytes = 4096}), ".bytes is 4096: give at least"));
  REQUIRE(has(refused({.cache = dir.path(), .bytes = ~std::uint64_t{0}}), "at most"));
  REQUIRE(has(refused({.cache = dir / "no/such"}), "cannot make the folder"));
  REQUIRE(has(refused({}), "cannot make the folder"));
  REQUIRE(has(refused({.cache = dir.write("file", std::string{"x"})}), "Not a directory"));
  REQUIRE(has(tests::caught<ps::OptionError>([&] {
                ps::CachedIo<MadeIo, NetworkCalls>{
                    MadeIo{}, {.cache = dir.path(), .bytes = 1 << 20, .block_bytes = block}};
              }),
              "lies on a disk of the network"));
  REQUIRE(std::filesystem::is_empty(dir.path()) == false);
}

TEST_CASE("many files are open at once, and their numbers come back") {
  const tests::TempDir dir;
  const auto io = cached(dir.path(), 64);
  int most = 0;
  for (int round = 0; round != 3; ++round) {
    std::vector<ps::File<std::remove_const_t<decltype(io)>>> files;
    for (int i = 0; i != 2500; ++i) {
      files.emplace_back(io, std::to_string(5000 + i));
      most = std::max(most, files.back().descriptor().number());
    }
    for (std::size_t i = 0; i != files.size(); i += 50) {
      REQUIRE(files[i].size() == 5000 + i);
      REQUIRE(reads_right(files[i], 0, 5000 + i));
    }
  }
  REQUIRE(most == 2499);
}
