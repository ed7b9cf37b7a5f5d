// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Progress and stalls: by a clock of the test's own, and in whole runs.

#include "support/catch.hpp"

#include <penstock/penstock.hpp>
#include <penstock/pipeline/pipeline.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

namespace ps = penstock;
using ps::detail::Observer;
using std::chrono::milliseconds;

namespace {

ps::Report report_of(std::vector<ps::StageReport> stages) {
  ps::Report report;
  report.stages = std::move(stages);
  return report;
}
ps::StageReport stage(const char* name, std::uint64_t records, unsigned busy, unsigned starved,
                      unsigned blocked) {
  ps::StageReport stage;
  stage.name = name;
  stage.records = records;
  stage.busy_now = busy;
  stage.starved_now = starved;
  stage.blocked_now = blocked;
  return stage;
}

} // namespace

TEST_CASE("progress comes once a period") {
  int calls = 0;
  const Observer::Clock::time_point start{};
  Observer observer{{.progress = [&](const ps::Report&) { ++calls; }, .every = milliseconds{100}},
                    start};
  CHECK(observer.period() == milliseconds{100});
  for (int ms = 0; ms <= 1000; ms += 10) {
    observer.look(report_of({stage("Reader", 1, 1, 0, 0)}), start + milliseconds{ms});
  }
  CHECK(calls == 10);
}

TEST_CASE("a time that is for ever has no end") {
  int calls = 0;
  const Observer::Clock::time_point start = Observer::Clock::now();
  Observer observer{{.progress = [&](const ps::Report&) { ++calls; },
                     .every = milliseconds::max(),
                     .stalled = [&](const ps::Stall&) { ++calls; },
                     .stall_limit = milliseconds::max()},
                    start};
  observer.look(report_of({stage("Reader", 1, 1, 0, 0)}), start);
  observer.look(report_of({stage("Reader", 1, 1, 0, 0)}), start + std::chrono::hours{24});
  CHECK(calls == 0);
  CHECK(observer.period() > std::chrono::hours{24});
}

TEST_CASE("a stall is told once when its limit is reached, and again only after a move") {
  std::vector<ps::Stall> stalls;
  const Observer::Clock::time_point start{};
  Observer observer{{.stalled = [&](const ps::Stall& s) { stalls.push_back(s); },
                     .stall_limit = milliseconds{1000}},
                    start};
  std::uint64_t records = 1;
  const auto look = [&](int from, int to) {
    for (int ms = from; ms < to; ms += 10) {
      observer.look(report_of({stage("Reader", records, 0, 0, 2), stage("Decoder", 0, 1, 0, 1),
                               stage("Consumer", 0, 0, 1, 0)}),
                    start + milliseconds{ms});
    }
  };
  look(0, 1000);
  CHECK(stalls.empty());
  look(1000, 5000);
  REQUIRE(stalls.size() == 1);
  CHECK(stalls[0].stage == "Decoder");
  CHECK(stalls[0].seconds >= 1);
  CHECK(stalls[0].seconds < 1.02);
  ++records;
  look(5000, 5990);
  CHECK(stalls.size() == 1);
  look(5990, 7000);
  CHECK(stalls.size() == 2);
}

TEST_CASE("a stall names the stage at work that is furthest on, else the one that waits for room") {
  std::vector<std::string> named;
  const Observer::Clock::time_point start{};
  const auto name = [&](const std::vector<ps::StageReport>& stages) {
    Observer observer{{.stalled = [&](const ps::Stall& s) { named.push_back(s.stage); },
                       .stall_limit = milliseconds{10}},
                      start};
    observer.look(report_of(stages), start + milliseconds{1});
    observer.look(report_of(stages), start + milliseconds{100});
  };
  name({stage("Reader", 1, 1, 0, 0), stage("AsyncCopier", 1, 0, 1, 0), stage("loop", 1, 0, 1, 0)});
  name({stage("Reader", 1, 0, 0, 2), stage("AsyncCopier", 1, 1, 0, 0), stage("loop", 1, 1, 0, 0)});
  name({stage("Reader", 1, 0, 0, 2), stage("AsyncCopier", 1, 0, 0, 1), stage("loop", 1, 0, 1, 0)});
  name({stage("Reader", 1, 0, 1, 0), stage("loop", 1, 0, 1, 0)});
  CHECK(named == std::vector<std::string>{"Reader", "loop", "AsyncCopier", "Reader"});
}

namespace {

struct Told {
  std::string stage;
  std::string reason;
};

// Runs a pipeline that `held` holds up until a stall is told, and returns the first one.
Told first_stall(const std::string& held) {
  const std::vector<std::uint32_t> values(2'000'000, 7);
  ps::HostDevice device;
  std::atomic<bool> let_go{false};
  std::atomic<bool> held_once{false};
  const auto hold = [&](const std::string& here) {
    while (here == held && !let_go) {
      held_once = true;
      std::this_thread::sleep_for(milliseconds{1});
    }
  };
  auto pipeline = ps::Reader{ps::memory(values), {.workers = 2, .depth = 2}} |
                  ps::Decoder{[&](ps::Batch<const std::uint32_t, ps::Pageable> in,
                                  ps::Batch<std::uint32_t, ps::Pinned> out) {
                                hold("Decoder");
                                std::copy_n(in.data(), in.size(), out.data());
                              },
                              {.workers = 2, .depth = 2}} |
                  ps::AsyncCopier{device, {.batch = 100'000}} |
                  ps::Consumer{[&](ps::Batch<const std::uint32_t, ps::Device>, ps::HostStream&) {
                    hold("Consumer");
                  }};
  Told told;
  const auto stalled = [&](const ps::Stall& stall) {
    if (!let_go) {
      told = {stall.stage, stall.reason};
      std::printf("stall of %s told after %.0f ms, limit 200 ms\n", stall.stage.c_str(),
                  stall.seconds * 1e3);
      let_go = true;
    }
  };
  const ps::Report& report = pipeline.run({.stalled = stalled, .stall_limit = milliseconds{200}});
  CHECK(held_once);
  CHECK(report.records == values.size());
  return told;
}

} // namespace

TEST_CASE("a callable that does not return is named while it holds the pipeline up") {
  for (const std::string held : {"Decoder", "Consumer"}) {
    CAPTURE(held);
    Told told;
    // A busy machine may hold another thread up for as long, and then that one is named.
    for (int run = 0; run != 5 && told.stage != held; ++run) {
      told = first_stall(held);
    }
    CHECK(told.stage == held);
    CHECK(told.reason.find("at work") != std::string::npos);
  }
}
