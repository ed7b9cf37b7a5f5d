// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Looking at a run while it goes on: report() from any thread, and RunOptions::progress.

#include "suite/through.hpp"
#include "support/catch.hpp"
#include "support/outcome.hpp"
#include "support/watchdog.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <thread>
#include <tuple>

using namespace suite;
using tests::Came;
using tests::Outcome;
using tests::outcome_of;
using namespace std::chrono_literals;

namespace {

using OnDevice = ps::Batch<const std::byte, ps::Device>;
using OnHost = ps::Batch<const std::byte, ps::Pageable>;

constexpr std::size_t slot = 10'000;
constexpr std::uint64_t slots = 300;

const std::atomic<unsigned> nobody_looks{1};

// A source that takes its time for each slot, some tens of milliseconds in all. The last slot waits
// until `looks` is not 0, so that a run is seen in its middle however busy the machine is.
auto slow_source(std::uint64_t count, const std::atomic<unsigned>& looks = nobody_looks) {
  return ps::generate<std::byte>(
      count * slot, [count, &looks](std::span<std::byte> out, std::uint64_t first) {
        do {
          std::this_thread::sleep_for(100us);
        } while (first == (count - 1) * slot && looks == 0);
        std::memset(out.data(), static_cast<int>(first / slot), out.size());
      });
}
ps::ReaderOptions reading(std::uint64_t epochs = 1) {
  return {.workers = 2, .depth = 4, .epochs = epochs, .batch = slot};
}
auto to_device(ps::HostDevice& device, const std::atomic<unsigned>& looks = nobody_looks) {
  return ps::Reader{slow_source(slots, looks), reading()} | ps::PinnedStager{{.depth = 4}} |
         ps::AsyncCopier{device, {.batch = slot}} |
         ps::Consumer{[](OnDevice, ps::HostStream& stream) { stream.enqueue([] {}); }};
}
// A source that waits in its second slot until it is told to go on.
struct Gate {
  std::atomic<bool> open{false};

  void operator()(std::span<std::byte> out, std::uint64_t first) const {
    while (first != 0 && !open) {
      std::this_thread::sleep_for(50us);
    }
    std::memset(out.data(), 1, out.size());
  }
};

// Returns whether `later` is of the same run as `earlier`, and further on.
bool goes_on(const ps::Report& earlier, const ps::Report& later) {
  bool right = later.seconds >= earlier.seconds && later.records >= earlier.records &&
               later.bytes >= earlier.bytes && later.skipped >= earlier.skipped &&
               later.skips.size() >= earlier.skips.size() &&
               later.stages.size() == earlier.stages.size() &&
               later.records_in_all == earlier.records_in_all && later.device == earlier.device;
  for (std::size_t i = 0; right && i < later.stages.size(); ++i) {
    const ps::StageReport& a = earlier.stages[i];
    const ps::StageReport& b = later.stages[i];
    right = a.name == b.name && a.workers == b.workers && a.depth == b.depth &&
            b.records >= a.records && b.bytes >= a.bytes && b.skipped >= a.skipped &&
            b.retries >= a.retries && b.starved_s >= a.starved_s && b.blocked_s >= a.blocked_s &&
            b.busy_s >= a.busy_s;
  }
  return right;
}
bool same(const ps::Report& a, const ps::Report& b) {
  return goes_on(a, b) && goes_on(b, a) && a.dropped == b.dropped && a.stopped == b.stopped &&
         a.limiting_stage == b.limiting_stage;
}

// Nobody was busy, or waited, for longer than the run.
bool adds_up(const ps::Report& now) {
  const double most = now.seconds + 1e-6; // sums of doubles
  return now.waited_s <= most &&
         std::all_of(now.stages.begin(), now.stages.end(), [most](const ps::StageReport& stage) {
           return stage.busy_s + stage.starved_s + stage.blocked_s <= most;
         });
}

} // namespace

TEST_CASE(
    "before it is prepared a pipeline has an empty report, and after that one of no records") {
  ps::HostDevice device;
  auto pipeline = to_device(device);
  CHECK(pipeline.report().stages.empty());
  CHECK(pipeline.report().device.empty());
  CHECK(pipeline.report().records_in_all == 0);
  pipeline.stop(); // nothing runs
  pipeline.prepare();
  const ps::Report report = pipeline.report();
  REQUIRE(report.stages.size() == 4);
  CHECK(report.stages[3].name == "Consumer");
  CHECK(report.device == device.name());
  CHECK(report.records == 0);
  CHECK(report.records_in_all == slots * slot);
  CHECK(report.seconds == 0);
}

TEST_CASE("report() from other threads grows as the run does, and ends as what run() returns") {
  const tests::Watchdog watchdog{"reports while it runs"};
  ps::HostDevice device{{.late_seed = 1}};
  std::atomic<unsigned> amid{0}; // reports from the middle of the run
  auto pipeline = to_device(device, amid);
  for (int run = 0; run < 2; ++run) {
    CAPTURE(run);
    std::atomic<bool> over{false};
    std::atomic<unsigned> wrong{0};
    amid = 0;
    const auto look = [&] {
      ps::Report last;
      while (!over) {
        ps::Report now = pipeline.report();
        // The report of the last run stays until this one has begun.
        const bool of_this_run = now.records < slots * slot;
        if (of_this_run && !last.stages.empty()) {
          wrong += !goes_on(last, now);
          wrong += !adds_up(now);
          wrong += now.stopped || now.records_in_all != slots * slot;
          amid += now.records > 0 && now.seconds > 0;
        }
        last = of_this_run && !now.stages.empty() ? std::move(now) : ps::Report{};
        std::this_thread::sleep_for(100us);
      }
    };
    std::thread a{look};
    std::thread b{look};
    const ps::Report& returned = pipeline.run();
    over = true;
    a.join();
    b.join();
    CHECK(wrong == 0);
    CHECK(amid > 0);
    CHECK(returned.records == slots * slot);
    CHECK(same(returned, pipeline.report()));
  }
}

TEST_CASE("progress is called as the run goes on, one call at a time, and not after it") {
  const tests::Watchdog watchdog{"progress"};
  ps::HostDevice device;
  std::atomic<unsigned> calls{0};
  auto closed = to_device(device, calls);
  auto open = ps::Reader{slow_source(slots, calls), ps::to_pinned, reading()} |
              ps::AsyncCopier{device, {.batch = slot}};
  auto on_host = ps::Pipeline{std::tuple{ps::Reader{slow_source(slots, calls), reading()}}};
  auto stream = device.stream();
  const auto check = [&](auto& pipeline, auto run) {
    std::atomic<bool> over{false};
    std::atomic<int> inside{0};
    calls = 0;
    unsigned wrong = 0;
    ps::Report last;
    const auto caller = std::this_thread::get_id();
    run(ps::RunOptions{.progress =
                           [&](const ps::Report& now) {
                             wrong += inside++ != 0 || over;
                             wrong += std::this_thread::get_id() == caller;
                             wrong += calls != 0 && !goes_on(last, now);
                             last = now;
                             ++calls;
                             --inside;
                           },
                       .every = 2ms});
    over = true;
    const unsigned called = calls;
    std::this_thread::sleep_for(10ms);
    CHECK(calls == called);
    CHECK(calls > 0);
    CHECK(wrong == 0);
    const ps::Report report = pipeline.report();
    CHECK(goes_on(last, report));
    CHECK(report.records == slots * slot);
  };
  for (int run = 0; run < 2; ++run) {
    CAPTURE(run);
    check(closed, [&](const ps::RunOptions& options) { closed.run(options); });
    check(open, [&](const ps::RunOptions& options) {
      for (auto batch : open.on(stream, options)) {
        static_cast<void>(batch.size());
      }
    });
    check(on_host, [&](const ps::RunOptions& options) {
      for (auto batch : on_host.batches(options)) {
        static_cast<void>(batch.size());
      }
    });
  }
  // Nobody is called any more in a run without `progress`.
  closed.run();
}

TEST_CASE("progress may stop the run") {
  const tests::Watchdog watchdog{"progress stops"};
  ps::HostDevice device;
  Gate gate;
  auto pipeline =
      ps::Reader{ps::generate<std::byte>(slots * slot, std::ref(gate)), ps::to_pinned, reading()} |
      ps::AsyncCopier{device, {.batch = slot}} | ps::Consumer{[](OnDevice, ps::HostStream&) {}};
  const ps::Report& report = pipeline.run({.progress =
                                               [&](const ps::Report& now) {
                                                 if (now.records == slot) {
                                                   pipeline.stop();
                                                   gate.open = true;
                                                 }
                                               },
                                           .every = 1ms});
  CHECK(report.stopped);
  CHECK(report.records == slot);
  CHECK(report.dropped == report.stages[0].records - slot);
  CHECK(pipeline.run().records == slots * slot);
}

TEST_CASE("what progress throws ends the run, as an error of its own") {
  const tests::Watchdog watchdog{"progress throws"};
  ps::HostDevice device;
  Gate gate;
  const auto source = ps::generate<std::byte>(slots * slot, std::ref(gate));
  const ps::RunOptions throws{.progress =
                                  [&](const ps::Report&) {
                                    gate.open = true;
                                    throw std::runtime_error{"no more room to log"};
                                  },
                              .every = 1ms};
  const auto check = [&](auto run, auto again) {
    gate.open = false;
    for (int tries = 0; tries < 2; ++tries) {
      const Outcome out = outcome_of(run);
      CAPTURE(out);
      CHECK(out.came == Came::stage_error);
      CHECK(out.stage == "progress");
      CHECK(out.says("no more room to log"));
      CHECK(out.cause == Came::other);
      gate.open = false;
    }
    gate.open = true;
    CHECK(again() == slots * slot);
  };
  auto pipeline = ps::Reader{source, reading()} | ps::Consumer{[](OnHost) {}};
  check([&] { pipeline.run(throws); }, [&] { return pipeline.run().records; });

  auto open =
      ps::Reader{source, ps::to_pinned, reading()} | ps::AsyncCopier{device, {.batch = slot}};
  auto stream = device.stream();
  const auto walk = [&](const ps::RunOptions& options) {
    for (auto batch : open.on(stream, options)) {
      static_cast<void>(batch.size());
    }
    return open.report().records;
  };
  check([&] { walk(throws); }, [&] { return walk({}); });
}

TEST_CASE("progress of a second run never tells of the first") {
  const tests::Watchdog watchdog{"progress from the start"};
  Gate gate;
  gate.open = true;
  auto pipeline = ps::Reader{ps::generate<std::byte>(slots * slot, std::ref(gate)), reading()} |
                  ps::Consumer{[](OnHost) {}};
  pipeline.run();
  unsigned wrong = 0;
  for (int run = 0; run < 50; ++run) {
    gate.open = false;
    unsigned calls = 0;
    pipeline.run({.progress =
                      [&](const ps::Report& now) {
                        wrong += !gate.open && now.records > slot;
                        gate.open = ++calls > 3;
                      },
                  .every = 0ms});
  }
  CHECK(wrong == 0);
}

TEST_CASE("records_in_all counts the epochs, and is unknown where the source does not know") {
  auto known = ps::Reader{slow_source(3), reading(7)} | ps::Consumer{[](OnHost) {}};
  known.prepare();
  CHECK(known.report().records_in_all == 21 * slot);
  CHECK(known.run().records_in_all == 21 * slot);
  auto unknown =
      ps::Reader{ps::generate<std::byte>([](std::span<std::byte> out, std::uint64_t first) {
                   std::memset(out.data(), 1, out.size());
                   return first < 3 * slot ? out.size() : 0;
                 }),
                 reading()} |
      ps::Consumer{[](OnHost) {}};
  CHECK(unknown.run().records_in_all == ps::unknown_size);
  CHECK(unknown.report().records == 3 * slot);
}

TEST_CASE("what is left out and tried again is seen while the run goes on") {
  const tests::Watchdog watchdog{"skips while it runs"};
  std::atomic<bool> seen{false};
  const auto source =
      ps::generate<std::byte>(5 * slot, [&](std::span<std::byte> out, std::uint64_t first) {
        if (first == slot) {
          throw std::runtime_error{"bad"};
        }
        while (first > slot && !seen) {
          std::this_thread::sleep_for(50us);
        }
        std::memset(out.data(), 1, out.size());
      });
  auto pipeline =
      ps::Reader{
          source,
          {.workers = 1, .depth = 4, .batch = slot, .on_error = {.retries = 2, .skips = 1}}} |
      ps::Consumer{[](OnHost) {}};
  ps::Report amid;
  const ps::Report& report = pipeline.run({.progress =
                                               [&](const ps::Report& now) {
                                                 if (now.skips.size() == 1 && now.skipped != 0) {
                                                   amid = now;
                                                   seen = true;
                                                 }
                                               },
                                           .every = 1ms});
  CHECK(amid.skipped == slot);
  REQUIRE(amid.skips.size() == 1);
  CHECK(amid.skips[0].record == slot);
  CHECK(amid.skips[0].reason == "bad");
  CHECK(amid.stages[0].retries == 2);
  CHECK(amid.stages[0].skipped == slot);
  CHECK(report.records == 4 * slot);
  CHECK(report.skipped == slot);
  CHECK(report.dropped == 0);
}

TEST_CASE("a report survives its pipeline's move, and that of a failed run stays") {
  auto pipeline = ps::Reader{slow_source(10), reading()} | ps::Consumer{[](OnHost batch) {
                    if (batch.index() == 4 * slot) {
                      throw std::runtime_error{"boom"};
                    }
                  }};
  CHECK_THROWS_AS(pipeline.run(), ps::StageError);
  const ps::Report failed = pipeline.report();
  CHECK(failed.records == 4 * slot);
  CHECK(failed.dropped == failed.stages[0].records - failed.records);
  CHECK_FALSE(failed.stopped);
  const auto moved = std::move(pipeline);
  CHECK(same(moved.report(), failed));
  CHECK(pipeline.report().stages.empty());
}
