// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Shuffled small records by io_uring are those that pread gives, with the same errors, where it is
// forbidden, interrupted, cut short, forked or shared; and it gives back all that it takes.

#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/temp_dir.hpp"

#include <penstock/io/uring.hpp>
#include <penstock/order/permutation.hpp>
#include <penstock/penstock.hpp>
#include <penstock/sources/concat.hpp>
#include <penstock/sources/slice.hpp>
#include <penstock/sources/where.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

namespace ps = penstock;
namespace tests = penstock::tests;
using tests::has;
using Bytes = std::vector<std::byte>;
using Numbers = std::vector<std::uint64_t>;

bool asked() {
  const int file = ::open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  int error = 0;
  std::byte bytes[4]{};
  ps::FileRead read{0, 0, bytes};
  if (const auto ring =
          ps::detail::UringRing<ps::UringCalls>::made(ps::UringCalls{}, {&file, 1}, error)) {
    ring->put(read);
    error = ring->run();
  }
  ::close(file);
  if (error != 0) {
    std::cout << "io_uring is not to be had here: " << std::strerror(error) << '\n';
  }
  return error == 0 && read.got == sizeof bytes;
}

/// Whether this system lets this process read by a ring. Where it does not, all must come out right
/// too, by pread.
bool to_be_had() {
  static const bool had = asked();
  return had;
}

/// What befalls a test's calls.
struct Faults {
  std::function<int(unsigned entries, io_uring_params& params)> setup{}; ///< In place of the call.
  std::function<int(unsigned what)> change{};                            ///< Returns an errno.
  std::function<int(long number)> before_enter{};                        ///< Returns an errno.
  std::function<int(long number)> after_enter{};                         ///< Returns an errno.
  std::function<int(int file)> open_again{};                             ///< In place of the call.
  unsigned most_submitted = ~0U;
  bool in_place = true; ///< What reads_in_place() says.
};

/// Calls that fail as told, and are counted; where reads by a ring fail, none is made. Copies share
/// their counts.
class TestCalls : public ps::UringCalls {
 public:
  explicit TestCalls(Faults faults = {}) : shared_{std::make_shared<Shared>(std::move(faults))} {}

  long rings() const { return shared_->rings; }
  long enters() const { return shared_->enters; }
  long entries() const { return shared_->entries; } ///< That enter() was to hand over.

  int setup(unsigned entries, io_uring_params& params) const {
    if (!faults().setup && !to_be_had()) {
      errno = EPERM;
      return -1;
    }
    const int ring =
        faults().setup ? faults().setup(entries, params) : UringCalls::setup(entries, params);
    shared_->rings += ring >= 0 ? 1 : 0;
    return ring;
  }
  int change(int ring, unsigned what, const void* to, unsigned count) const {
    return fails(faults().change, what) ? -1 : UringCalls::change(ring, what, to, count);
  }
  int enter(int ring, unsigned submit, unsigned complete) const {
    const long number = ++shared_->enters;
    if (fails(faults().before_enter, number)) {
      return -1;
    }
    // The kernel does not wait when it has taken a part.
    const unsigned some = std::min(submit, faults().most_submitted);
    const int result = UringCalls::enter(ring, some, some < submit ? 0 : complete);
    shared_->entries += std::max(result, 0);
    return fails(faults().after_enter, number) ? -1 : result;
  }
  int open_again(int fd) const {
    return faults().open_again ? faults().open_again(fd) : UringCalls::open_again(fd);
  }
  bool reads_in_place(int /*fd*/) const noexcept { return faults().in_place; }

 private:
  struct Shared {
    explicit Shared(Faults f) : faults{std::move(f)} {}
    const Faults faults;
    std::atomic<long> rings{0}, enters{0}, entries{0};
  };

  const Faults& faults() const noexcept { return shared_->faults; }
  template <class F, class Of> static bool fails(const F& f, Of of) {
    const int error = f ? f(of) : 0;
    errno = error != 0 ? error : errno;
    return error != 0;
  }

  std::shared_ptr<Shared> shared_;
};
using TestIo = ps::BasicUringIo<TestCalls>;

Bytes some_bytes(std::size_t count, unsigned seed) {
  Bytes bytes(count);
  std::mt19937 random{seed};
  std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<std::byte>(random()); });
  return bytes;
}
/// Files of so many records each, behind `offset` bytes.
std::vector<std::string> files(const tests::TempDir& dir, const std::vector<std::size_t>& records,
                               std::size_t bytes, std::size_t offset = 0) {
  std::vector<std::string> paths;
  for (const std::size_t count : records) {
    const std::string name = "file" + std::to_string(paths.size());
    paths.push_back(
        dir.write(name, some_bytes(offset + count * bytes, static_cast<unsigned>(paths.size()))));
  }
  return paths;
}
ps::RecordsOptions of(std::size_t bytes, std::size_t offset = 0) {
  return {.offset = offset, .record_bytes = bytes, .direct = ps::DirectReads::none};
}
template <class Io> auto opened(const std::vector<std::string>& paths, std::size_t bytes, Io io) {
  auto source = ps::records<std::byte>(paths, of(bytes), std::move(io));
  source.open();
  return source;
}
template <class S> std::string note_of(const S& source) {
  std::string note;
  source.note(note);
  return note;
}

/// Reads the records of these numbers as a Reader does. Any thread.
template <class S>
Bytes read(const S& source, const Numbers& numbers) {
  const std::size_t bytes = source.record_bytes();
  Bytes into(numbers.size() * bytes);
  const ps::Batch<std::byte, ps::Pageable> batch{into.data(), numbers.size(), 0, bytes};
  const ps::Filled got = ps::detail::read_numbered(source, numbers, batch, ps::Patience{});
  into.resize(got.count * bytes);
  return into;
}
/// All numbers below n, shuffled, as many at a time as a Reader takes; with some that follow each
/// other, and some twice.
std::vector<Numbers> shuffled(std::uint64_t n) {
  const ps::Permutation order{n, 7, 1};
  std::vector<Numbers> all;
  for (std::uint64_t i = 0; i < n; i += 256) {
    Numbers& some = all.emplace_back();
    for (std::uint64_t k = i; k != std::min(n, i + 256); ++k) {
      some.push_back(order(k));
      if (k % 5 == 0) {
        some.push_back(std::min(order(k) + 1, n - 1));
      }
    }
  }
  return all;
}
/// Returns how many batches of records of the one source are not as those of the other.
template <class S, class Other>
int differences(const S& source, const Other& other, int rounds = 1) {
  int different = 0;
  for (int round = 0; round != rounds; ++round) {
    for (const Numbers& numbers : shuffled(source.size())) {
      different += read(source, numbers) == read(other, numbers) ? 0 : 1;
    }
  }
  return different;
}

/// What a Reader gives that shuffles these files for two epochs, and its note.
template <class Io>
std::pair<Bytes, std::string> run(const std::vector<std::string>& paths,
                                  const ps::RecordsOptions& options, std::uint64_t records,
                                  unsigned workers, Io io) {
  Bytes all(2 * records * options.record_bytes);
  auto pipeline = ps::Reader{ps::records<std::byte>(paths, options, std::move(io)),
                             {.workers = workers, .epochs = 2, .order = {.shuffle = 5}}} |
                  ps::Consumer{[&](ps::Batch<const std::byte, ps::Pageable> batch) {
                    std::memcpy(all.data() + batch.index() * options.record_bytes, batch.data(),
                                batch.size_bytes());
                  }};
  pipeline.run();
  return {all, pipeline.report().stages[0].note};
}

const std::string by_rings = "small records by io_uring, a ring a thread";
/// Descriptors that this process has open, and rings that are mapped.
std::pair<long, long> taken() {
  const std::filesystem::directory_iterator open{"/proc/self/fd"};
  const long descriptors = std::distance(begin(open), end(open));
  std::ifstream maps{"/proc/self/maps"};
  long rings = 0;
  for (std::string line; std::getline(maps, line);) {
    rings += line.find("[io_uring]") != std::string::npos ? 1 : 0;
  }
  return {descriptors, rings};
}

/// Returns where a ring is mapped; null if none is.
void* ring_address() {
  std::ifstream maps{"/proc/self/maps"};
  for (std::string line; std::getline(maps, line);) {
    if (line.find("[io_uring]") != std::string::npos) {
      return reinterpret_cast<void*>(std::stoull(line, nullptr, 16));
    }
  }
  return nullptr;
}

/// Calls `f` in a forked child. Returns whether it returned true there.
template <class F> bool in_child(F f) {
  std::cout.flush();
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    bool good = false;
    try {
      good = f();
    } catch (...) {
    }
    ::_exit(good ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return status == 0;
}
/// Has the system refuse a call to this process from now on. Returns whether it does.
bool forbid(unsigned call, unsigned error) {
  sock_filter filter[] = {
      {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
      {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, call},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | error},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
  };
  const sock_fprog program{static_cast<unsigned short>(std::size(filter)), filter};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/// Interrupts this process again and again.
class Signals {
 public:
  Signals() {
    struct sigaction action{};
    action.sa_handler = [](int) { ++handled; }; // without SA_RESTART
    ::sigaction(SIGALRM, &action, &before_);
    set(200);
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  ~Signals() {
    set(0);
    ::sigaction(SIGALRM, &before_, nullptr);
  }
  static inline std::atomic<long> handled{0};

 private:
  static void set(long us) {
    const itimerval every{{0, us}, {0, us}};
    ::setitimer(ITIMER_REAL, &every, nullptr);
  }
  struct sigaction before_{};
};

} // namespace

TEST_CASE("A shuffled run gives what it gives by pread, for any size, offset and workers") {
  const tests::TempDir dir;
  const bool had = to_be_had();
  for (const std::size_t bytes : {1U, 7U, 512U, 1000U, 4096U, 65536U, 65537U}) {
    for (const std::size_t offset : {std::size_t{0}, std::size_t{129}}) {
      const std::size_t some = bytes > 4096 ? 40 : 700;
      const auto paths = files(dir, {some, 1, 0, some / 3}, bytes, offset);
      const std::uint64_t records = some + 1 + some / 3;
      const auto expected = run(paths, of(bytes, offset), records, 1, ps::PosixIo{}).first;
      for (const unsigned workers : {1U, 3U, 8U}) {
        CAPTURE(bytes, offset, workers);
        const TestIo io{TestCalls{}};
        const auto [all, note] = run(paths, of(bytes, offset), records, workers, io);
        CHECK(all == expected);
        CHECK((io.calls().enters() != 0) == (had && bytes <= 65536));
        CHECK((note.find(by_rings) != std::string::npos) == (had && bytes <= 65536));
        CHECK(run(paths, of(bytes, offset), records, workers, ps::UringIo{}).first == expected);
      }
    }
  }
}

TEST_CASE("Many records take one call, and neighbours one read") {
  const tests::TempDir dir;
  const TestIo io{TestCalls{}};
  const bool had = to_be_had();
  const auto paths = files(dir, {500, 500}, 64);
  const auto source = opened(paths, 64, io);
  const auto other = opened(paths, 64, ps::PosixIo{});
  Numbers far;
  for (std::uint64_t i = 0; i != 100; ++i) {
    far.push_back(i * 7 % 1000);
  }
  CHECK(read(source, far) == read(other, far));
  CHECK(io.calls().enters() == (had ? 1 : 0));
  CHECK(io.calls().entries() == (had ? 100 : 0));
  // 0 to 2, 499 and 500, which lie in two files, 990 to 999, 2.
  const Numbers near{0, 1, 2, 499, 500, 990, 991, 992, 993, 994, 995, 996, 997, 998, 999, 2};
  CHECK(read(source, near) == read(other, near));
  CHECK(io.calls().entries() == (had ? 105 : 0));
  const Numbers run{3, 4, 5, 6};
  CHECK(read(source, run) == read(other, run));
  CHECK(io.calls().enters() == (had ? 2 : 0)); // one read needs no ring
  const Numbers two{3, 9};
  CHECK(read(source, two) == read(other, two));
  CHECK(io.calls().rings() == (had ? 1 : 0));
}

TEST_CASE("Sources over sources hand the batches on") {
  const tests::TempDir dir;
  const bool had = to_be_had();
  const auto paths = files(dir, {300, 200}, 16);
  const auto check = [&](const auto& make) {
    const TestIo io{TestCalls{}};
    auto source = make(ps::records<std::byte>(paths, of(16), io));
    auto other = make(ps::records<std::byte>(paths, of(16)));
    source.open();
    other.open();
    CHECK(differences(source, other) == 0);
    CHECK((io.calls().enters() != 0) == had);
    CHECK((note_of(source).find(by_rings) == 0) == had);
  };
  check([](auto source) { return ps::take(source, 400); });
  check([](auto source) { return ps::drop(source, 100); });
  check([](auto source) { return ps::where(source, {4, 400, 2, 2, 3, 499, 0}); });
  check([](auto source) { return ps::concat(source, ps::take(source, 100)); });
}

TEST_CASE("Only small records that are read through the page cache are read many at once") {
  const tests::TempDir dir;
  const auto reads_at = [](auto source) {
    source.open();
    return ps::detail::abilities_of(source).read_at;
  };
  const auto paths = files(dir, {100}, 70'000);
  const TestIo io{TestCalls{}};
  CHECK(reads_at(ps::records<std::byte>(paths, of(1000), io)));
  CHECK(reads_at(ps::records<std::byte>(paths, of(50'000), io)));
  CHECK(!reads_at(ps::records<std::byte>(paths, of(70'000), io)));
  CHECK(!reads_at(ps::records<std::byte>(paths, of(1000), ps::PosixIo{})));
  struct Direct : TestIo {
    explicit Direct(const TestIo& is) : TestIo{is} {}
    std::int64_t direct_alignment(int /*fd*/) const noexcept { return 8; }
    int open_direct(const char* path) const noexcept { return open(path); }
  };
  CHECK(!reads_at(ps::records<std::byte>(
      paths, {.record_bytes = 1000, .direct = ps::DirectReads::always}, Direct{io})));
  // Such as a file system in memory.
  const TestIo slow{TestCalls{{.in_place = false}}};
  auto source = opened(paths, 1000, slow);
  CHECK(!ps::detail::abilities_of(source).read_at);
  CHECK(note_of(source) == "small records not by io_uring, which is slow on this file system");
  CHECK(differences(source, opened(paths, 1000, ps::PosixIo{})) == 0);
  CHECK(slow.calls().rings() == 0);
}

TEST_CASE("Of very many files those that stay open are read many at once") {
  const tests::TempDir dir;
  const TestIo io{TestCalls{}};
  const auto paths = files(dir, std::vector<std::size_t>(300, 5), 8);
  const auto before = taken();
  {
    const auto source = opened(paths, 8, io);
    const auto opened_now = taken();
    CHECK(differences(source, opened(paths, 8, ps::PosixIo{})) == 0);
    CHECK(io.calls().enters() >= (to_be_had() ? 6 : 0));
    CHECK(taken().first - opened_now.first == io.calls().rings()); // a ring takes one
  }
  CHECK(taken().first == before.first);
  CHECK(taken().second == before.second);
}

TEST_CASE("A file that is cut in the middle of a run is the error that it is by pread") {
  const tests::TempDir dir;
  for (const std::size_t left :
       {std::size_t{0}, std::size_t{40 * 100}, std::size_t{40 * 100 + 7}}) {
    const auto paths = files(dir, {50, 400}, 40);
    const auto source = opened(paths, 40, ps::UringIo{});
    const auto other = opened(paths, 40, ps::PosixIo{});
    auto half = ps::drop(ps::records<std::byte>(paths, of(40), ps::UringIo{}), 20);
    half.open();
    REQUIRE(differences(source, other) == 0);
    std::filesystem::resize_file(paths[1], left);
    int failed = 0;
    for (const Numbers& numbers : shuffled(source.size())) {
      CAPTURE(left, numbers[0]);
      const auto e = tests::thrown_by<ps::SourceError>([&] { read(source, numbers); });
      const auto expected = tests::thrown_by<ps::SourceError>([&] { read(other, numbers); });
      REQUIRE(e.has_value() == expected.has_value());
      if (e) {
        ++failed;
        CHECK(std::string{e->what()} == expected->what());
        CHECK(e->file() == expected->file());
        CHECK(e->offset() == expected->offset());
        CHECK(e->record() == expected->record());
      }
    }
    CHECK(failed > 0);
    const auto e = tests::caught<ps::SourceError>([&] { read(half, {3, 420, 1}); });
    CHECK(e.record() == 420);
  }
}

TEST_CASE("Where io_uring is refused records are read by pread, and the note says so") {
  const tests::TempDir dir;
  const auto paths = files(dir, {3000, 100}, 24);
  const auto expected = run(paths, of(24), 3100, 1, ps::PosixIo{}).first;
  const auto check = [&](Faults faults, int error) {
    const TestIo io{TestCalls{std::move(faults)}};
    const auto [all, note] = run(paths, of(24), 3100, 2, io);
    CHECK(all == expected);
    const std::string words =
        "io_uring is not to be had here: " + std::generic_category().message(error);
    CAPTURE(note, words);
    CHECK(note.find(words) == 0);
    CHECK(note.find("; small records by a descriptor a thread") != std::string::npos);
    CHECK(io.calls().enters() == 0);
    CHECK(io.calls().rings() <= 2); // it is not tried again and again
  };
  const auto before = taken();
  for (const int error : {EPERM, ENOSYS, ENOMEM, EMFILE, EACCES}) {
    check({.setup = [=](unsigned, io_uring_params&) { return errno = error, -1; }}, error);
  }
  if (to_be_had()) {
    for (const unsigned at : {IORING_REGISTER_FILES, IORING_REGISTER_FILES_UPDATE}) {
      check({.change = [=](unsigned what) { return what == at ? ENOMEM : 0; }}, ENOMEM);
    }
    // A system that is too old to read.
    check({.setup =
               [](unsigned entries, io_uring_params& params) {
                 const int ring = ps::UringCalls{}.setup(entries, params);
                 params.features &= ~unsigned{IORING_FEAT_RW_CUR_POS};
                 return ring;
               }},
          ENOSYS);
    // One that does not let the ring be mapped.
    check({.setup =
               [](unsigned entries, io_uring_params& params) {
                 ::close(ps::UringCalls{}.setup(entries, params));
                 return ::open("/dev/null", O_RDWR | O_CLOEXEC);
               }},
          ENODEV);
  }
  CHECK(taken().first == before.first);
  CHECK(taken().second == before.second);
}

TEST_CASE("A ring that fails in a run leaves no read under way, and none undone") {
  const tests::TempDir dir;
  if (!to_be_had()) {
    SUCCEED("there is no ring that could fail");
    return;
  }
  const auto paths = files(dir, {2000}, 24);
  const auto other = opened(paths, 24, ps::PosixIo{});
  const auto before = taken();
  for (const bool after : {false, true}) {
    for (const unsigned most_submitted : {~0U, 100U, 1U}) {
      for (const long at : {1L, 2L, 5L}) {
        CAPTURE(after, most_submitted, at);
        const auto fails = [at](long number) { return number == at ? ENOMEM : 0; };
        Faults faults{.most_submitted = most_submitted};
        (after ? faults.after_enter : faults.before_enter) = fails;
        const TestIo io{TestCalls{faults}};
        const auto source = opened(paths, 24, io);
        CHECK(differences(source, other) == 0);
        CHECK(note_of(source).find("small records by io_uring, until it failed: ") == 0);
        CHECK(io.calls().enters() <= at + 1);
        CHECK(taken().second == before.second); // the ring is gone
      }
    }
  }
}

TEST_CASE("A call that fails is over when no read is under way") {
  const tests::TempDir dir;
  if (!to_be_had()) {
    SUCCEED("there is no ring that could fail");
    return;
  }
  constexpr unsigned count = 100, bytes = 64;
  const Bytes content = some_bytes(count * bytes, 3);
  const int file = ::open(dir.write("file", content).c_str(), O_RDONLY | O_CLOEXEC);
  for (const unsigned most_submitted : {~0U, 30U}) {
    // For a while it does not even work to wait.
    Faults faults{.most_submitted = most_submitted};
    faults.after_enter = [](long number) { return number < 4 ? EIO : 0; };
    int error = 0;
    auto ring = ps::detail::UringRing<TestCalls>::made(TestCalls{faults}, {&file, 1}, error);
    REQUIRE(ring);
    Bytes into(content.size());
    std::vector<ps::FileRead> reads;
    for (unsigned i = 0; i != count; ++i) {
      reads.push_back({0, i * bytes, std::span{into}.subspan(i * bytes, bytes)});
    }
    for (ps::FileRead& read : reads) {
      ring->put(read);
    }
    CHECK(ring->run() == EIO);
    const std::size_t taken = std::min(count, most_submitted);
    CHECK(std::all_of(reads.begin(), reads.begin() + static_cast<std::ptrdiff_t>(taken),
                      [&](auto& read) { return read.got == bytes; }));
    CHECK(std::equal(into.begin(), into.begin() + static_cast<std::ptrdiff_t>(taken * bytes),
                     content.begin()));
    CHECK(std::all_of(into.begin() + static_cast<std::ptrdiff_t>(taken * bytes), into.end(),
                      [](std::byte byte) { return byte == std::byte{}; }));
  }
  ::close(file);
}

TEST_CASE("Interrupted calls, and entries that are taken in parts, lose no read") {
  const tests::TempDir dir;
  const bool had = to_be_had();
  const auto paths = files(dir, {700, 500}, 100);
  const auto other = opened(paths, 100, ps::PosixIo{});
  const auto every = [](long n) {
    return [n](long number) { return number % n == 0 ? EINTR : 0; };
  };
  for (const unsigned most : {~0U, 1U, 50U}) {
    for (const long n : {2L, 3L}) {
      const TestIo io{TestCalls{
          {.before_enter = every(n), .after_enter = every(n + 1), .most_submitted = most}}};
      const auto source = opened(paths, 100, io);
      CHECK(differences(source, other, 2) == 0);
      CHECK(note_of(source) == (had ? by_rings : note_of(source)));
    }
  }
}

TEST_CASE("Signals interrupt reads from the disk, and lose none") {
  const tests::TempDir dir;
  const std::size_t bytes = 512;
  const auto paths = files(dir, {20'000}, bytes);
  const auto expected = run(paths, of(bytes), 20'000, 1, ps::PosixIo{}).first;
  const int file = ::open(paths[0].c_str(), O_RDONLY | O_CLOEXEC);
  ::fsync(file); // what is not on the disk stays in the cache
  const Signals signals;
  const TestIo io{TestCalls{}};
  for (int round = 0; round != 5; ++round) {
    ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    CHECK(run(paths, of(bytes), 20'000, 2, io).first == expected);
  }
  ::close(file);
  CHECK(Signals::handled > 10);
}

TEST_CASE("What a ring reads in part, or cannot read, is read by pread") {
  const tests::TempDir dir;
  const bool had = to_be_had();
  const auto paths = files(dir, {600}, 30);
  const auto other = opened(paths, 30, ps::PosixIo{});
  Bytes some(300 * 30 + 11);
  other.read_bytes(0, some);
  const std::string part = dir.write("part", some);
  const auto check = [&](std::function<int(int)> open_again) {
    const TestIo io{TestCalls{{.open_again = std::move(open_again)}}};
    const auto source = opened(paths, 30, io);
    const auto before = taken();
    CHECK(differences(source, other, 2) == 0);
    CHECK((io.calls().entries() != 0) == had);
    CHECK(note_of(source).find(by_rings) == (had ? 0 : std::string::npos));
    CHECK(taken().first <= before.first + 3); // a ring, and one more of each source
  };
  check([&](int) { return ::open(part.c_str(), O_RDONLY | O_CLOEXEC); }); // it ends too early
  check([&](int) { return ::open(part.c_str(), O_WRONLY | O_CLOEXEC); });
  check([&](int) { return ::open(dir.path().c_str(), O_RDONLY | O_CLOEXEC); });
  check([](int) { return errno = EMFILE, -1; });
}

TEST_CASE("read_at() serves files without a ring, and no more than a batch holds") {
  const tests::TempDir dir;
  const auto paths = files(dir, {600'000}, 8); // large enough to be read directly
  const auto direct =
      ps::records<std::uint64_t>(paths, {.direct = ps::DirectReads::always}, ps::UringIo{});
  auto source = direct;
  try {
    source.open();
  } catch (const ps::SourceError&) {
    SUCCEED("this file system reads nothing directly");
    return;
  }
  std::vector<std::uint64_t> all(4), some(4);
  const std::uint64_t numbers[] = {1, 599'999, 5, 5};
  const auto batch = [](std::vector<std::uint64_t>& of) {
    ps::detail::BatchView<std::uint64_t> view;
    view.parts[0] = of.data();
    view.sizes[0] = sizeof of[0];
    view.size = of.size();
    return ps::Batch<std::uint64_t, ps::Pageable>{view};
  };
  CHECK(source.read_at(numbers, batch(some)) == 4);
  for (std::size_t i = 0; i != 4; ++i) {
    source.read_bytes(numbers[i] * 8, std::as_writable_bytes(std::span{&all[i], 1}));
  }
  CHECK(some == all);
  std::vector<std::uint64_t> three(3);
  CHECK_THROWS_AS(source.read_at(numbers, batch(three)), ps::SourceError);
}

static_assert([]<int BLOCK_SIZE>() { return BLOCK_SIZE; }.operator()<3>() == 3);

TEST_CASE("A forked child leaves its parent's ring alone, and reads by its own") {
  const tests::TempDir dir;
  const auto paths = files(dir, {900}, 48);
  const auto other = opened(paths, 48, ps::PosixIo{});
  const TestIo io{TestCalls{}};
  auto source = std::optional{opened(paths, 48, io)};
  CHECK(differences(*source, other) == 0);
  const long rings = io.calls().rings();
  const auto both = [&] {
    const bool right = differences(*source, other) == 0 && io.calls().rings() == 2 * rings;
    source.reset();
    return right && taken().second == 0;
  };
  CHECK(in_child(both));
  void* const ring = ring_address();
  CHECK(in_child([&] {
    // What the child has mapped there is its own.
    constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    void* const mine = ring ? ::mmap(ring, 4096, PROT_READ, flags, -1, 0) : ring;
    source.reset(); // unused
    unsigned char in_memory = 0;
    return mine == ring && (!ring || ::mincore(ring, 4096, &in_memory) == 0);
  }));
  CHECK(differences(*source, other) == 0);
  CHECK(io.calls().rings() == rings);
}

TEST_CASE("Where a filter of system calls forbids io_uring records are read by pread") {
  const tests::TempDir dir;
  const auto paths = files(dir, {900}, 48);
  const auto other = opened(paths, 48, ps::PosixIo{});
  for (const unsigned call : {__NR_io_uring_setup, __NR_io_uring_register, __NR_io_uring_enter}) {
    for (const unsigned error : {EPERM, ENOSYS}) {
      CAPTURE(call, error);
      CHECK(in_child([&] {
        const auto source = opened(paths, 48, ps::UringIo{});
        return forbid(call, error) && differences(source, other, 2) == 0 &&
               note_of(source).find(by_rings) == std::string::npos;
      }));
    }
  }
}

TEST_CASE("Threads and pipelines that share a source read at once") {
  const tests::TempDir dir;
  const auto paths = files(dir, {500, 500, 500}, 32);
  const auto before = taken();
  {
    const auto other = opened(paths, 32, ps::PosixIo{});
    const TestIo io{TestCalls{}};
    const auto source = opened(paths, 32, io);
    std::vector<int> different(40, 1); // more than there may be rings
    std::vector<std::thread> threads;
    for (int& of_thread : different) {
      threads.emplace_back([&] { of_thread = differences(source, other, 3); });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    CHECK(different == std::vector<int>(40, 0));
    CHECK(io.calls().rings() <= 16);
  }
  CHECK(taken().first == before.first);
  CHECK(taken().second == before.second);
  const auto expected = run(paths, of(32), 1500, 1, ps::PosixIo{}).first;
  std::vector<std::thread> runs;
  std::atomic<int> right{0};
  for (int i = 0; i != 2; ++i) {
    runs.emplace_back([&] {
      for (int round = 0; round != 10; ++round) {
        right += run(paths, of(32), 1500, 4, ps::UringIo{}).first == expected ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : runs) {
    thread.join();
  }
  CHECK(right == 20);
  CHECK(taken().first == before.first);
  CHECK(taken().second == before.second);
}

TEST_CASE("Numbers that a source has not, and batches of another size, are refused") {
  const tests::TempDir dir;
  const auto source = opened(files(dir, {10}, 32), 32, ps::UringIo{});
  Bytes into(64);
  const auto at = [&](const Numbers& numbers, std::size_t bytes) {
    source.read_at(numbers, ps::Batch<std::byte, ps::Pageable>{into.data(), 2, 0, bytes});
  };
  const auto e = tests::caught<ps::SourceError>([&] { at({3, 10}, 32); });
  CHECK(has(e, "records: asked for record 10, but the source has 10"));
  CHECK(has(tests::caught<ps::SourceError>([&] { at({3, 4}, 16); }), "asked for records of 16"));
  at({3, 3}, 32);
  CHECK(std::equal(into.begin(), into.begin() + 32, into.begin() + 32));
}
