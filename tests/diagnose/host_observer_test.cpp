// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// What was taken away from a process, as the kernel shows it, laid out in a folder.

#include "support/catch.hpp"
#include "support/temp_dir.hpp"

#include <penstock/diagnose/host_observer.hpp>
#include <penstock/penstock.hpp>

#include <chrono>
#include <filesystem>
#include <span>
#include <string>
#include <thread>

#include <unistd.h>

namespace ps = penstock;
using ps::detail::stolen_seconds;
using ps::detail::throttled_seconds;

namespace {

class Machine {
 public:
  Machine& write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path{dir_ / path}.parent_path());
    dir_.write(path, text);
    return *this;
  }
  std::string root() const { return dir_.path(); }

 private:
  ps::tests::TempDir dir_;
};

} // namespace

TEST_CASE("stolen time is the eighth figure of all processors, in ticks") {
  const auto ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  Machine machine;
  CHECK(stolen_seconds(machine.root()) == 0); // no /proc
  machine.write("/proc/stat", "cpu  1 2 3 4 5 6 7 250 9 10\ncpu0 1 1 1 1 1 1 1 99 1 1\n");
  CHECK(stolen_seconds(machine.root()) == Approx(250 / ticks));
  machine.write("/proc/stat", "cpu  1 2 3 4\n"); // a kernel too old to tell
  CHECK(stolen_seconds(machine.root()) == 0);
}

TEST_CASE("throttled time is that of the group held longest, in either version") {
  Machine machine;
  CHECK(throttled_seconds(machine.root()) == 0);
  machine.write("/proc/self/cgroup", "0::/a/b\n")
      .write("/proc/self/mountinfo", "25 30 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
      .write("/sys/fs/cgroup/a/cpu.stat", "usage_usec 5\nthrottled_usec 2500000\n")
      .write("/sys/fs/cgroup/a/b/cpu.stat", "usage_usec 5\nthrottled_usec 1000000\n");
  CHECK(throttled_seconds(machine.root()) == Approx(2.5));
  Machine old;
  old.write("/proc/self/cgroup", "3:cpu,cpuacct:/a\n")
      .write("/proc/self/mountinfo", "31 23 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n")
      .write("/sys/fs/cgroup/cpu/a/cpu.stat", "nr_periods 7\nthrottled_time 3500000000\n");
  CHECK(throttled_seconds(old.root()) == Approx(3.5));
}

TEST_CASE("a run that is observed says so, and one that is not does not") {
  ps::HostDevice device;
  auto pipeline = ps::Reader{ps::generate<int>(100, [](std::span<int>, std::uint64_t) {})} |
                  ps::Consumer{[](ps::Batch<const int, ps::Pageable>) {}};
  ps::HostObserver observer;
  const ps::Report seen = pipeline.run({.observe = &observer});
  CHECK(seen.observed);
  CHECK(seen.stolen_s >= 0);
  CHECK(seen.throttled_s >= 0);
  CHECK_FALSE(seen.gpu);
  CHECK_FALSE(pipeline.run().observed);
}

namespace {

struct Counting final : ps::RunObserver {
  void begin() override {
    if (refuses) {
      throw ps::Error{"no"};
    }
    ++begun;
  }
  void end(ps::Report& report) noexcept override {
    ++ended;
    records = report.records;
  }
  bool refuses{};
  int begun{};
  int ended{};
  std::uint64_t records{};
};

} // namespace

TEST_CASE("an observer's end follows its beginning, also of a run that fails or is left") {
  auto pipeline = ps::Reader{ps::generate<int>(100, [](std::span<int>, std::uint64_t) {})} |
                  ps::Consumer{[](ps::Batch<const int, ps::Pageable>) {}};
  Counting counting;
  pipeline.run({.observe = &counting});
  CHECK(counting.begun == 1);
  CHECK(counting.ended == 1);
  CHECK(counting.records == 100);

  auto failing = ps::Reader{ps::generate<int>(100, [](std::span<int>, std::uint64_t) {})} |
                 ps::Consumer{[](ps::Batch<const int, ps::Pageable>) { throw ps::Error{"bad"}; }};
  CHECK_THROWS_AS(failing.run({.observe = &counting}), ps::StageError);
  CHECK(counting.begun == 2);
  CHECK(counting.ended == 2);

  counting.refuses = true;
  CHECK_THROWS_AS(pipeline.run({.observe = &counting}), ps::Error);
  CHECK(counting.ended == 2);
  counting.refuses = false;
  CHECK(pipeline.run({.observe = &counting}).records == 100); // the refused run left nothing behind
  CHECK(counting.ended == 3);
}

TEST_CASE("the time that an observer takes to begin is none of the run's") {
  struct Slow final : ps::RunObserver {
    void begin() override { std::this_thread::sleep_for(taken); }
    void end(ps::Report&) noexcept override {}
    std::chrono::seconds taken{2};
  } slow;
  auto pipeline = ps::Reader{ps::generate<int>(100, [](std::span<int>, std::uint64_t) {})} |
                  ps::Consumer{[](ps::Batch<const int, ps::Pageable>) {}};
  pipeline.prepare();
  CHECK(pipeline.run({.observe = &slow}).seconds < 2);
  // Nor is it a stall, or progress.
  slow.taken = std::chrono::seconds{1};
  int stalls = 0;
  int looks = 0;
  pipeline.run({.progress = [&](const ps::Report&) { ++looks; },
                .every = std::chrono::milliseconds{600},
                .stalled = [&](const ps::Stall&) { ++stalls; },
                .stall_limit = std::chrono::milliseconds{600},
                .observe = &slow});
  CHECK(stalls == 0);
  CHECK(looks == 0);
}
