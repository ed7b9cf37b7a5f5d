// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Writers: the contents of the file, when it appears, and what is left if it does not.

#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/faulty_io.hpp"
#include "support/temp_dir.hpp"

#include <penstock/penstock.hpp>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <functional>
#include <iterator>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <sys/resource.h>

namespace ps = penstock;
using ps::tests::caught;
using ps::tests::content_of;
using ps::tests::FaultyIo;
using ps::tests::has;
using ps::tests::IoCall;
using ps::tests::IoFaults;
using ps::tests::TempDir;

namespace {

using Number = std::uint32_t;

constexpr std::size_t slot = 1000;
constexpr std::size_t total = 20'300; // the last slot is short

std::vector<Number> numbers(std::size_t count = total) {
  std::vector<Number> made(count);
  std::iota(made.begin(), made.end(), Number{7});
  return made;
}
std::string bytes_of(const std::vector<Number>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number)};
}
// Compares here, so that a failed check does not print the bytes.
bool holds(const std::string& path, const std::string& bytes) {
  return content_of(path) == bytes;
}
std::size_t files_in(const TempDir& dir) {
  const std::filesystem::directory_iterator files{dir.path()};
  return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}
ps::ReaderOptions reading(std::uint64_t epochs = 1) {
  return {.workers = 2, .depth = 4, .epochs = epochs, .batch = slot};
}

// Every third slot takes longer, so that workers overtake each other.
struct Uneven {
  void operator()(ps::Batch<const Number, ps::Pageable> in,
                  ps::Batch<Number, ps::Pageable> out) const {
    if (in.index() / slot % 3 == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
    }
    for (std::size_t i = 0; i < in.size(); ++i) {
      out.data()[i] = in.data()[i] + 1;
    }
  }
};
struct Tripled {
  Number values[3];
};

} // namespace

TEST_CASE("what a Writer writes is all records in order, however many workers there are") {
  const TempDir dir;
  const std::vector<Number> given = numbers();
  std::vector<Number> expected = given;
  for (Number& number : expected) {
    ++number;
  }
  for (const unsigned workers : {0U, 1U, 4U}) {
    auto pipeline = ps::Reader{ps::memory(given), reading()} |
                    ps::Decoder{Uneven{}, {.workers = 3}} |
                    ps::Writer{dir / "out", {.workers = workers, .durable = workers == 1}};
    for (int run = 0; run < 2; ++run) {
      const ps::Report& report = pipeline.run();
      CHECK(holds(dir / "out", bytes_of(expected)));
      CHECK(files_in(dir) == 1);
      CHECK(report.stages.back().name == "Writer");
      CHECK(report.stages.back().records == total);
      CHECK(report.stages.back().bytes == total * sizeof(Number));
    }
  }
}

TEST_CASE("a Writer takes pinned memory, records of any type, and none at all") {
  const TempDir dir;
  std::vector<Tripled> given(total);
  for (std::size_t i = 0; i < total; ++i) {
    given[i] = {{Number(i), Number(2 * i), Number(3 * i)}};
  }
  ps::HostDevice device;
  auto pinned =
      ps::Reader{ps::memory(given), reading()} | ps::PinnedStager{device} | ps::Writer{dir / "out"};
  pinned.run();
  CHECK(holds(dir / "out",
              std::string(reinterpret_cast<const char*>(given.data()), total * sizeof(Tripled))));

  const std::string in = dir.write("in", std::string(10'007, 'x') + "y");
  auto bytes = ps::Reader{ps::records<char>(in, {.record_bytes = 4})} | ps::Writer{dir / "out"};
  bytes.run();
  CHECK(holds(dir / "out", content_of(in)));

  auto none = ps::Reader{ps::memory(std::span<const Number>{})} | ps::Writer{dir / "none"};
  none.run();
  CHECK(std::filesystem::file_size(dir / "none") == 0);
}

TEST_CASE("a Writer's records lie back to back over epochs and over those that were left out") {
  const TempDir dir;
  const std::vector<Number> given = numbers();
  auto twice = ps::Reader{ps::memory(given), reading(2)} | ps::Writer{dir / "out", {.workers = 3}};
  twice.run();
  CHECK(holds(dir / "out", bytes_of(given) + bytes_of(given)));

  auto some = ps::Reader{ps::memory(given), reading()} |
              ps::Decoder{[](const Number& in, Number& out) {
                            if (in % 100 == 0) {
                              throw std::runtime_error{"bad"};
                            }
                            out = in;
                          },
                          {.workers = 3, .on_error = {.skips = total}}} |
              ps::Writer{dir / "out", {.workers = 3}};
  const ps::Report& report = some.run();
  std::vector<Number> kept;
  for (const Number number : given) {
    if (number % 100 != 0) {
      kept.push_back(number);
    }
  }
  CHECK(report.skipped == total - kept.size());
  CHECK(holds(dir / "out", bytes_of(kept)));
}

TEST_CASE("a Writer's file appears when the run has ended, and takes the place of the one before") {
  const TempDir dir;
  const std::string out = dir.write("out", std::string{"before"});
  const std::vector<Number> given = numbers();
  std::atomic<std::size_t> looked{0};
  std::atomic<bool> as_before{true};
  auto pipeline = ps::Reader{ps::memory(given), reading()} |
                  ps::Decoder{[&](ps::Batch<const Number, ps::Pageable> in,
                                  ps::Batch<Number, ps::Pageable> made) {
                    std::copy_n(in.data(), in.size(), made.data());
                    as_before = as_before && holds(out, "before");
                    ++looked;
                  }} |
                  ps::Writer{out};
  pipeline.prepare();
  CHECK(files_in(dir) == 1);
  pipeline.run();
  CHECK(as_before);
  CHECK(looked == (total + slot - 1) / slot);
  CHECK(holds(out, bytes_of(given)));
}

TEST_CASE("what making a Writer's file and giving it its name takes is the Writer's work") {
  const TempDir dir;
  const std::vector<Number> given = numbers();
  for (const char* slow : {"create", "sync", "rename", "sync_folder"}) {
    CAPTURE(slow);
    int slept = 0;
    IoFaults faults{[&](const IoCall& call) {
      if (call.name == slow) {
        ++slept;
        std::this_thread::sleep_for(std::chrono::milliseconds{200});
      }
      return 0;
    }};
    auto pipeline = ps::Reader{ps::memory(given), reading()} |
                    ps::Writer{dir / "out", {.durable = true}, FaultyIo{faults}};
    pipeline.prepare();
    const ps::Report report = pipeline.run();
    INFO(report);
    const ps::StageReport& writer = report.stages.back();
    CHECK(slept == 1);
    CHECK(writer.busy_s >= 0.2);
    CHECK(writer.starved_s <= report.seconds - 0.2);
    CHECK(writer.units == total / slot + 1);
    CHECK(report.limiting_stage == "Writer");
  }
}

TEST_CASE("a run that fails or is stopped leaves the file that was there, and nothing else") {
  const TempDir dir;
  const std::string out = dir.write("out", std::string{"before"});
  const std::vector<Number> given = numbers();
  std::atomic<bool> fails{true};
  auto pipeline = ps::Reader{ps::memory(given), reading()} |
                  ps::Decoder{[&](const Number& in, Number& made) {
                    if (fails && in == 15'007) {
                      throw std::runtime_error{"no more"};
                    }
                    made = in;
                  }} |
                  ps::Writer{out, {.workers = 2}};
  const auto error = caught<ps::StageError>([&] { pipeline.run(); });
  CHECK(error.stage() == "Decoder");
  CHECK(holds(out, "before"));
  CHECK(files_in(dir) == 1);

  std::stop_source stop;
  auto stopped =
      ps::Reader{ps::generate<Number>(total,
                                      [&](std::span<Number> numbers, std::uint64_t first) {
                                        std::fill(numbers.begin(), numbers.end(), Number{1});
                                        if (first >= total / 2) {
                                          stop.request_stop();
                                        }
                                      }),
                 reading()} |
      ps::Writer{out};
  CHECK(stopped.run(stop.get_token()).stopped);
  CHECK(holds(out, "before"));
  CHECK(files_in(dir) == 1);

  fails = false;
  pipeline.run();
  CHECK(holds(out, bytes_of(given)));
  CHECK(files_in(dir) == 1);
}

TEST_CASE("a stop counts until a Writer's file gets its name, and comes too late then") {
  const TempDir dir;
  const std::vector<Number> given = numbers();
  for (const bool durable : {false, true}) {
    for (const char* at : {"write", "sync", "close", "rename", "sync_folder"}) {
      if (!durable && std::string{at}.starts_with("sync")) {
        continue;
      }
      CAPTURE(durable, at);
      const std::string out = dir.write("out", std::string{"before"});
      std::function<void()> stop;
      std::atomic<int> stops{0};
      const FaultyIo<> io{IoFaults::fail([&](const IoCall& call) {
        if (call.name == at) {
          ++stops;
          stop();
        }
        return 0;
      })};
      auto pipeline = ps::Reader{ps::memory(given), reading()} |
                      ps::Writer{out, {.workers = 2, .durable = durable}, io};
      stop = [&] { pipeline.stop(); };
      const bool too_late = std::string{at} == "rename" || std::string{at} == "sync_folder";
      const ps::Report& report = pipeline.run();
      CHECK(stops > 0);
      CHECK(report.stopped == !too_late);
      CHECK(holds(out, too_late ? bytes_of(given) : "before"));
      CHECK(files_in(dir) == 1);
      stop = [] {};
      CHECK(!pipeline.run().stopped);
      CHECK(holds(out, bytes_of(given)));
    }
  }
}

TEST_CASE("an error counts until a Writer's file gets its name, and is told even then") {
  const TempDir dir;
  const std::vector<Number> given = numbers();
  for (const char* at : {"sync", "close", "rename"}) {
    CAPTURE(at);
    const std::string out = dir.write("out", std::string{"before"});
    std::atomic<bool> there{false};
    std::atomic<int> looked{0};
    const FaultyIo<> io{IoFaults::fail([&](const IoCall& call) {
      if (call.name == at) {
        there = true;
        // A worker that looks for the second time has reported the exception of the first time.
        const auto late = std::chrono::steady_clock::now() + std::chrono::seconds{20};
        while (looked < 2 && std::chrono::steady_clock::now() < late) {
          std::this_thread::yield();
        }
      }
      return 0;
    })};
    auto pipeline =
        ps::Reader{ps::memory(given), reading()} | ps::Writer{out, {.durable = true}, io};
    const auto error = caught<ps::StageError>([&] {
      pipeline.run({.progress =
                        [&](const ps::Report&) {
                          if (there && ++looked == 1) {
                            throw std::runtime_error{"no more"};
                          }
                        },
                    .every = std::chrono::milliseconds{1}});
    });
    CHECK(looked >= 2);
    CHECK(error.stage() == "progress");
    CHECK(has(error, "no more"));
    CHECK(holds(out, std::string{at} == "rename" ? bytes_of(given) : "before"));
    CHECK(files_in(dir) == 1);
  }
}

TEST_CASE("what goes wrong with a Writer's file is one error, which names the file and the place") {
  const TempDir dir;
  const std::vector<Number> given = numbers();
  const auto failing = [&](const char* call) {
    return FaultyIo<>{IoFaults::fail([=, calls = 0](const IoCall& made) mutable {
      return made.name == call && ++calls == (std::string{call} == "write" ? 3 : 1) ? ENOSPC : 0;
    })};
  };
  for (const char* call : {"create", "write", "rename"}) {
    const std::string out = dir.write("out", std::string{"before"});
    auto pipeline =
        ps::Reader{ps::memory(given), reading()} | ps::Writer{out, {.workers = 1}, failing(call)};
    const auto error = caught<ps::StageError>([&] { pipeline.run(); });
    CHECK(error.stage() == "Writer");
    CHECK(error.file() == out);
    CHECK(has(error, "No space left on device"));
    if (std::string{call} == "write") {
      CHECK(error.offset() == 2 * slot * sizeof(Number));
      CHECK(error.record() == 2 * slot);
    }
    CHECK_THROWS_AS(std::rethrow_if_nested(error), ps::SinkError);
    CHECK(holds(out, "before"));
    CHECK(files_in(dir) == 1);
  }

  auto nowhere = ps::Reader{ps::memory(given), reading()} | ps::Writer{dir / "no/out"};
  const auto error = caught<ps::StageError>([&] { nowhere.run(); });
  CHECK(error.stage() == "Writer");
  CHECK(error.file() == dir / "no/out");
  CHECK_THROWS_AS(
      (ps::Reader{ps::memory(given)} | ps::Writer{dir / "x", {.workers = 2000}}).prepare(),
      ps::OptionError);
}

TEST_CASE("a limit on files' sizes is an error of the run and no signal, whoever writes") {
  const TempDir dir;
  const std::vector<Number> data = numbers();
  rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &limit) == 0);
  sigset_t size_signal;
  ::sigemptyset(&size_signal);
  ::sigaddset(&size_signal, SIGXFSZ);
  const auto is_pending = [] {
    sigset_t pending;
    ::sigpending(&pending);
    return sigismember(&pending, SIGXFSZ) == 1;
  };
  for (const unsigned workers : {1U, 4U}) {
    for (const bool was_pending : {false, true}) {
      CAPTURE(workers, was_pending);
      if (was_pending) {
        ::pthread_sigmask(SIG_BLOCK, &size_signal, nullptr);
        ::pthread_kill(::pthread_self(), SIGXFSZ);
      }
      auto pipeline =
          ps::Reader{ps::memory(data), reading()} | ps::Writer{dir / "out", {.workers = workers}};
      const rlimit small{10'000, limit.rlim_max};
      const int lowered = ::setrlimit(RLIMIT_FSIZE, &small);
      const auto error = caught<ps::StageError>([&] { pipeline.run(); });
      const int restored = ::setrlimit(RLIMIT_FSIZE, &limit);
      REQUIRE((lowered == 0 && restored == 0));
      CHECK(has(error, "ulimit -f"));
      CHECK(files_in(dir) == 0);
      CHECK(is_pending() == was_pending);
      if (was_pending) {
        const timespec now{};
        CHECK(::sigtimedwait(&size_signal, nullptr, &now) == SIGXFSZ);
        ::pthread_sigmask(SIG_UNBLOCK, &size_signal, nullptr);
      }
      sigset_t blocked;
      ::pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
      CHECK(sigismember(&blocked, SIGXFSZ) == 0);
      CHECK(pipeline.run().records == total);
      CHECK(holds(dir / "out", bytes_of(data)));
      std::filesystem::remove(dir / "out");
    }
  }
}
