// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Several threads find and open many files: what that calls, which error comes out, and what
// prepare() tells meanwhile.

#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/faulty_io.hpp"
#include "support/temp_dir.hpp"

#include <penstock/penstock.hpp>
#include <penstock/sources/zip.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <pthread.h>

namespace ps = penstock;
using ps::tests::caught;
using ps::tests::FaultyIo;
using ps::tests::has;
using ps::tests::IoCall;
using ps::tests::IoFaults;
using ps::tests::TempDir;
using ps::tests::thrown_by;

namespace {

constexpr std::chrono::milliseconds always{0};

bool late(std::chrono::steady_clock::time_point start) {
  return std::chrono::steady_clock::now() - start > std::chrono::seconds{20};
}

// Waits until another thread has come too, but not for ever.
class Meeting {
 public:
  void come() {
    const auto start = std::chrono::steady_clock::now();
    for (++here_; here_ < 2 && !met_ && !late(start);) {
      std::this_thread::yield();
    }
    met_ = met_ || here_ >= 2;
    --here_;
  }
  bool met() const { return met_; }

 private:
  std::atomic<int> here_{0};
  std::atomic<bool> met_{false};
};

std::string name_of(std::size_t i) {
  return "file-" + std::to_string(1000 + i);
}

// Files of three bytes each, in a folder.
struct Files {
  explicit Files(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      paths.push_back(dir.write(name_of(i), "abc"));
    }
  }
  TempDir dir;
  std::vector<std::string> paths;
};

// What `progress` was told, and on which threads.
struct Told {
  std::vector<ps::Preparation> all;
  std::vector<std::thread::id> threads;

  ps::PrepareOptions options(std::chrono::milliseconds every = always) {
    return {.progress =
                [this](const ps::Preparation& now) {
                  all.push_back(now);
                  threads.push_back(std::this_thread::get_id());
                },
            .every = every};
  }
  std::vector<std::pair<std::uint64_t, std::uint64_t>> pairs() const {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> made;
    for (const ps::Preparation& now : all) {
      made.emplace_back(now.files, now.files_in_all);
    }
    return made;
  }
};

using Pairs = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

auto over(const std::string& path) {
  return ps::Reader{ps::records<char>(path, {.record_bytes = 3})} |
         ps::Consumer{[](ps::Batch<const char, ps::Pageable>) {}};
}

// A user's source that says how far it is.
struct Counting {
  using schema = char;
  std::uint64_t size() const { return 0; }
  template <class Where> std::size_t read(ps::Batch<char, Where>) const { return 0; }
  void open(const ps::PrepareOptions& options) const {
    if (options.progress) {
      options.progress({.files = 7, .files_in_all = 9});
    }
  }
};
// A user's source that does not.
struct Silent {
  using schema = char;
  int* opened;
  std::uint64_t size() const { return 0; }
  template <class Where> std::size_t read(ps::Batch<char, Where>) const { return 0; }
  void open() const { ++*opened; }
};

struct Pair : ps::Columns<ps::Field<"a", std::array<char, 3>>, ps::Field<"b", char, 3>> {};

} // namespace

TEST_CASE("calls are made once each, by several threads") {
  std::vector<std::atomic<int>> calls(5000);
  Meeting meeting;
  const auto here = std::this_thread::get_id();
  int own = 0;
  int looks = 0;
  const auto failure = ps::detail::for_all(
      calls.size(),
      [&](std::size_t i) {
        if (i < 2) {
          meeting.come();
        }
        ++calls[i];
        if (std::this_thread::get_id() == here) {
          ++own;
        }
      },
      [&] { ++looks; });
  CHECK(!failure.error);
  CHECK(meeting.met());
  CHECK(looks == own);
  CHECK(looks < 5000);
  CHECK(std::all_of(calls.begin(), calls.end(), [](const auto& n) { return n == 1; }));
  // A few are not worth a thread.
  ps::detail::for_all(20, [&](std::size_t) { CHECK(std::this_thread::get_id() == here); }, [] {});
  ps::detail::for_all(0, [](std::size_t) { CHECK(false); }, [] { CHECK(false); });
}

TEST_CASE("of calls that throw the first in order is told, whichever thread comes first") {
  for (int run = 0; run < 50; ++run) {
    std::atomic<std::size_t> calls{0};
    std::atomic<bool> later_failed{false};
    const auto failure = ps::detail::for_all(
        1000,
        [&](std::size_t i) {
          ++calls;
          if (i == 100) {
            // The other call has failed by then, unless no other thread works yet.
            for (int tries = 0; tries < 10'000 && !later_failed; ++tries) {
              std::this_thread::yield();
            }
            throw std::runtime_error{"100"};
          }
          if (i > 100) {
            later_failed = true;
            throw std::runtime_error{"later"};
          }
        },
        [] {});
    REQUIRE(failure.at == 100);
    CHECK(std::string{"100"} ==
          penstock::tests::caught<std::runtime_error>([&] { failure.rethrow_at(100); }).what());
    REQUIRE_NOTHROW(failure.rethrow_at(99));
    REQUIRE(calls >= 101);
    REQUIRE(calls <= 101 + ps::detail::opening_threads(1000)); // none is begun after
  }
}

TEST_CASE("threads that open files leave signals to the program's own") {
  const auto here = std::this_thread::get_id();
  std::atomic<int> others{0};
  std::atomic<int> disturbed{0};
  const auto call = [&](std::size_t) {
    sigset_t blocked;
    ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    if (std::this_thread::get_id() != here) {
      ++others;
      disturbed += ::sigismember(&blocked, SIGINT) == 0 || ::sigismember(&blocked, SIGSEGV) != 0;
    } else {
      disturbed += ::sigismember(&blocked, SIGINT) != 0;
      std::this_thread::sleep_for(std::chrono::milliseconds{1}); // the others get their share
    }
  };
  ps::detail::for_all(1000, call, [] {});
  CHECK(others > 0);
  CHECK(disturbed == 0);
}

TEST_CASE("what look throws comes out when all threads rest") {
  constexpr std::size_t count = 1'000'000; // all of them would take half a minute
  for (int run = 0; run < 50; ++run) {
    const auto here = std::this_thread::get_id();
    std::atomic<int> inside{0};
    std::atomic<std::size_t> calls{0};
    const auto call = [&](std::size_t) {
      ++inside;
      ++calls;
      if (std::this_thread::get_id() != here) {
        std::this_thread::sleep_for(std::chrono::milliseconds{1});
      }
      --inside;
    };
    const auto enough = penstock::tests::caught<std::runtime_error>(
        [&] { ps::detail::for_all(count, call, [] { throw std::runtime_error{"enough"}; }); });
    CHECK(std::string{"enough"} == enough.what());
    CHECK(inside == 0);
    CHECK(calls < count);
  }
}

TEST_CASE("files are looked at and opened by several threads, with four calls each") {
  const Files files{400};
  Meeting looking;
  Meeting opening;
  std::mutex mutex;
  std::map<std::string, int, std::less<>> calls;
  IoFaults faults = IoFaults::fail([&](const IoCall& call) {
    {
      const std::scoped_lock lock{mutex};
      ++calls[std::string{call.name}];
    }
    if (call.path == files.paths[0] || call.path == files.paths[1]) {
      (call.name == "open" ? opening : looking).come();
    }
    return 0;
  });
  faults.memory = std::uint64_t{1} << 30;
  const FaultyIo<> io{faults};
  auto source = ps::records<char>(files.dir.path(), {.record_bytes = 3}, io);
  source.open();
  CHECK(looking.met());
  CHECK(opening.met());
  CHECK(source.size() == 400);
  CHECK(calls["status"] == 1 + 2 * 400); // once for the folder, twice a file: by name and open
  CHECK(calls["open"] == 400);
  CHECK(calls["close"] == 400 - 256);
  CHECK(calls["read"] == 256); // how each begins, but of the files that do not stay open
  CHECK(io.open_now() == 256);
}

TEST_CASE("which files stay open does not depend on threads, and empty ones do not count") {
  const Files files{300};
  const TempDir other;
  std::vector<std::string> paths;
  for (std::size_t i = 0; i < 300; ++i) {
    paths.push_back(other.write(name_of(i), ""));
    paths.push_back(files.paths[i]);
  }
  for (int run = 0; run < 5; ++run) {
    const FaultyIo<> io;
    auto source = ps::records<char>(paths, {.record_bytes = 3}, io);
    source.open();
    REQUIRE(io.open_now() == 256);
    const auto opens_for = [&](std::uint64_t record) {
      const long before = io.opens();
      char into[3];
      source.read(ps::Batch<char, ps::Pageable>{into, 1, record, 3});
      return io.opens() - before;
    };
    for (std::uint64_t record = 0; record < 300; ++record) {
      REQUIRE(opens_for(record) == (record < 256 ? 0 : 1));
    }
  }
}

TEST_CASE("of several files that cannot be read the first in order is named, run after run") {
  const Files files{300};
  const auto named = [&](const std::vector<std::string>& paths, const IoFaults& faults) {
    std::string first;
    for (int run = 0; run < 10; ++run) {
      const FaultyIo<> io{faults};
      const auto e = thrown_by<ps::SourceError>(
          [&] { ps::records<char>(paths, {.record_bytes = 3}, io).open(); });
      REQUIRE(e);
      REQUIRE(io.open_now() == 0);
      REQUIRE((run == 0 || e->file() == first));
      first = e->file();
    }
    return first;
  };
  const auto fail_open = [&](const std::string& slow) {
    return IoFaults::fail([&, slow](const IoCall& call) {
      if (call.name != "open" || call.path < files.paths[50]) {
        return 0;
      }
      if (call.path == slow) {
        std::this_thread::sleep_for(std::chrono::milliseconds{2}); // so that others fail first
      }
      return EACCES;
    });
  };
  CHECK(named(files.paths, fail_open(files.paths[50])) == files.paths[50]);
  CHECK(named({files.dir.path()}, fail_open(files.paths[50])) == files.paths[50]);

  // A file that opens well, but holds no whole number of records, before those that fail.
  std::vector<std::string> paths = files.paths;
  const TempDir other;
  paths[40] = other.write("partial", "abcd");
  CHECK(named(paths, fail_open("")) == paths[40]);
  // A missing file is noticed before any file is opened.
  paths[200] = other / "none";
  paths[210] = other / "none either";
  CHECK(named(paths, fail_open("")) == paths[200]);
  // The error names the folder's first file by name, not a path that was given after the folder.
  std::filesystem::create_directory(other / "folder");
  for (const char* name : {"b", "a", "c"}) {
    std::filesystem::create_symlink("nowhere", other / "folder/" + name);
  }
  for (std::size_t i = 0; i < 100; ++i) {
    other.write("folder/" + name_of(i), "abc");
  }
  CHECK(named({files.paths[0], other / "folder", other / "none"}, {}) == other / "folder/a");
}

TEST_CASE("prepare tells how many files are found and opened, one after the other") {
  const Files files{5};
  Told told;
  auto pipeline = over(files.dir.path());
  pipeline.prepare(told.options());
  CHECK(told.pairs() == Pairs{{0, 0}, // the folder was looked at
                              {0, 1},
                              {0, 2},
                              {0, 3},
                              {0, 4},
                              {0, 5}, // its files were found
                              {1, 5},
                              {2, 5},
                              {3, 5},
                              {4, 5},
                              {5, 5},   // opened
                              {5, 5}}); // all of them
  CHECK(pipeline.run().records == 5);
  told.all.clear();
  pipeline.prepare(told.options());
  CHECK(told.all.empty()); // it was prepared already
  // Told rarely: only when the last file is open.
  auto rarely = over(files.dir.path());
  rarely.prepare(told.options(std::chrono::hours{1}));
  CHECK(told.pairs() == Pairs{{5, 5}});
}

TEST_CASE("prepare tells of many files on the thread that called it, and never less than before") {
  const Files files{700};
  Told told;
  auto pipeline = over(files.dir.path());
  pipeline.prepare(told.options());
  REQUIRE(told.all.size() >= 2); // the folder, and all
  for (std::size_t i = 0; i < told.all.size(); ++i) {
    CHECK(told.threads[i] == std::this_thread::get_id());
    CHECK(told.all[i].files <= told.all[i].files_in_all);
    if (i != 0) {
      CHECK(told.all[i].files >= told.all[i - 1].files);
      CHECK(told.all[i].files_in_all >= told.all[i - 1].files_in_all);
    }
  }
  CHECK(told.pairs().back() == std::pair<std::uint64_t, std::uint64_t>{700, 700});
  CHECK(pipeline.run().records == 700);
}

TEST_CASE("what progress throws ends prepare, which is then as if it had not been called") {
  for (const std::size_t count : {3, 700}) {
    const Files files{count};
    const FaultyIo<> io;
    auto pipeline = ps::Reader{ps::records<char>(files.dir.path(), {.record_bytes = 3}, io)} |
                    ps::Consumer{[](ps::Batch<const char, ps::Pageable>) {}};
    int ended = 0;
    for (int last = 1; last <= 8; ++last) {
      CAPTURE(count, last);
      int calls = 0;
      const auto e = thrown_by<std::runtime_error>([&] {
        pipeline.prepare({.progress =
                              [&](const ps::Preparation& now) {
                                if (++calls == last || now.files == count) {
                                  throw std::runtime_error{"enough"};
                                }
                              },
                          .every = always});
      });
      REQUIRE(e);
      REQUIRE(std::string{e->what()} == "enough");
      REQUIRE(calls <= last);
      REQUIRE(io.open_now() == 0);
      REQUIRE(pipeline.report().stages.empty());
      ++ended;
    }
    CHECK(ended == 8);
    CHECK(pipeline.run().records == count);
  }
}

TEST_CASE("zip counts the files of all its sources together") {
  const Files files{3};
  const TempDir other;
  const std::string one = other.write("one", "123456789");
  auto source = ps::zip<Pair>(ps::records<std::array<char, 3>>(files.paths),
                              ps::records<char>(one, {.record_bytes = 3}));
  Told told;
  source.open(told.options());
  CHECK(told.pairs() ==
        Pairs{{0, 1}, {0, 2}, {0, 3}, {1, 3}, {2, 3}, {3, 3}, {3, 3}, {3, 4}, {4, 4}, {4, 4}});
  CHECK(source.size() == 3);
  source = ps::zip<Pair>(ps::records<std::array<char, 3>>(files.paths),
                         ps::records<char>(one, {.record_bytes = 3}));
  source.open();
  CHECK(source.size() == 3);
}

TEST_CASE("a source of one's own may tell too, and need not; AnyBatches hands progress on") {
  Told told;
  auto counting = ps::Reader{Counting{}} | ps::Consumer{[](ps::Batch<const char, ps::Pageable>) {}};
  counting.prepare(told.options());
  CHECK(told.pairs() == Pairs{{7, 9}});
  told.all.clear();
  int opened = 0;
  auto silent =
      ps::Reader{Silent{&opened}} | ps::Consumer{[](ps::Batch<const char, ps::Pageable>) {}};
  silent.prepare(told.options());
  CHECK(opened == 1);
  CHECK(told.all.empty());

  const Files files{2};
  ps::HostDevice device;
  ps::AnyBatches<ps::Batch<const char, ps::Pinned>> data{
      ps::Reader{ps::records<char>(files.paths, {.record_bytes = 3})} | ps::PinnedStager{device}};
  data.prepare(told.options());
  CHECK(told.pairs() == Pairs{{0, 1}, {0, 2}, {1, 2}, {2, 2}, {2, 2}});
  std::size_t records = 0;
  for (auto batch : data.batches()) {
    records += batch.size();
  }
  CHECK(records == 2);
}
