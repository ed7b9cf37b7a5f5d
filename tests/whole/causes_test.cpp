// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Each cause that a pretended machine can have, planted in a pipeline that runs: the verdict names
// the stage and the cause. bench/verdict_bench.cu does so on a GPU.

#include "../../bench/support/planted.hpp"
#include "support/catch.hpp"
#include "support/sleeping.hpp"
#include "support/temp_dir.hpp"
#include "support/watchdog.hpp"

#include <penstock/diagnose/verdict.hpp>
#include <penstock/penstock.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace ps = penstock;
using namespace penstock_bench;
using ps::Cause;
using ps::tests::Watchdog;

namespace {

struct Pretended {
  static constexpr std::size_t bytes = 1 << 20;

  explicit Pretended(ps::HostOptions options) : device{options}, memory{device.allocate(bytes)} {}
  Pretended(const Pretended&) = delete;
  Pretended& operator=(const Pretended&) = delete;
  ~Pretended() { device.deallocate(memory, bytes); }

  void launch(double /*seconds*/, ps::HostStream& stream) {
    stream.enqueue([] {});
  }
  void wait(ps::HostStream& stream) { stream.sync(); }
  void allocate() {
    for (int i = 0; i != 100; ++i) {
      device.deallocate(device.allocate(bytes), bytes); // filled with 0xCD, which takes its time
    }
  }
  void copy_pageable(std::size_t count, ps::HostStream& stream) {
    device.copy_to_device(memory, pageable.data(), count, stream);
  }

  ps::HostDevice device;
  void* memory;
  std::vector<char> pageable = std::vector<char>(bytes);
};

ps::Report run(const ps::HostOptions& machine, const Costs& costs, const Settings& settings) {
  Pretended pretended{machine};
  return run_planted(pretended, costs, settings);
}

// Runs it until the verdict is right, since the machine may be busy with something else; fails
// after five times.
void check(const char* stage, Cause cause, const std::function<ps::Report()>& run_once) {
  for (int tries = 0; tries != 5; ++tries) {
    const ps::Report report = run_once();
    const ps::Verdict verdict = ps::judge(report);
    if (verdict.stage == stage && verdict.cause == cause && verdict.or_cause == Cause::nothing) {
      CHECK(report.limiting_stage == stage);
      CHECK_FALSE(verdict.evidence.empty());
      return;
    }
    UNSCOPED_INFO(report << verdict);
  }
  FAIL_CHECK("none of five verdicts names " << stage << " and " << ps::name_of(cause));
}

} // namespace

TEST_CASE("the verdict names too few workers, too few units and a ring that is too small") {
  const Watchdog watchdog{"workers, units, depth"};
  const ps::HostOptions machine{.to_device_bytes_per_s = 2e9, .kernel_s = 0.5e-3};
  check("Reader", Cause::too_few_workers, [&] {
    return run(machine, {.read_s = 3e-3},
               {.pages = 3'200, .readers = 1, .slot = 64, .decoders = 2});
  });
  check("Decoder", Cause::too_few_workers, [&] {
    return run(machine, {.decode_s = 3e-3 / 64},
               {.pages = 3'200, .readers = 1, .slot = 64, .decoders = 1});
  });
  check("Decoder", Cause::too_few_units, [&] {
    return run(machine, {.decode_s = 8e-3 / 64},
               {.pages = 3'200, .readers = 1, .read_depth = 2, .slot = 64, .decoders = 8});
  });
  check("Reader", Cause::depth, [] {
    return run_planted_on_host(
        {.read_s = 2e-3, .burst = 12, .decode_s = 2.2e-3 / 64},
        {.pages = 64 * 96, .readers = 1, .read_depth = 2, .slot = 64, .decoders = 1});
  });
}

TEST_CASE("the verdict names what a callable does that keeps its thread") {
  const Watchdog watchdog{"callables"};
  check("Consumer", Cause::small_batches,
        [] { return run({.launch_s = 100e-6}, {}, {.pages = 2'000, .slot = 64, .batch = 1}); });
  check("Consumer", Cause::launches,
        [] { return run({.launch_s = 100e-6}, {.launches = 40}, {.pages = 3'200, .slot = 64}); });
  check("Consumer", Cause::pageable_memory, [] {
    return run({.to_device_bytes_per_s = 2e9, .kernel_s = 0.5e-3}, {.pageable_bytes = 1 << 20},
               {.pages = 3'200, .slot = 64});
  });
  check("Consumer", Cause::allocations,
        [] { return run({}, {.allocates = true}, {.pages = 1'280, .slot = 64}); });
  // The wait is long, and the kernel short: what waits is the thread, for what it launched.
  check("Consumer", Cause::waits, [] {
    return run({.launch_s = 0.8e-3, .kernel_s = 1.2e-3}, {.waits = true},
               {.pages = 3'200, .slot = 64});
  });
}

TEST_CASE("the verdict names the bus, the kernel and the writer, and then nothing is to gain") {
  const Watchdog watchdog{"bus, kernel, writer"};
  check("AsyncCopier", Cause::bus, [] {
    return run({.to_device_bytes_per_s = 8e7, .kernel_s = 0.5e-3}, {},
               {.pages = 12'800, .slot = 64});
  });
  // A callable that waits for its batch's work waits for the copy, and holds up none.
  check("AsyncCopier", Cause::bus, [] {
    return run({.to_device_bytes_per_s = 3e7, .kernel_s = 0.5e-3}, {.waits = true},
               {.pages = 6'400, .slot = 64});
  });
  check("Consumer", Cause::kernel, [] {
    const ps::Report report =
        run({.to_device_bytes_per_s = 2e9, .kernel_s = 5e-3}, {}, {.pages = 6'400, .slot = 64});
    const ps::Verdict verdict = ps::judge(report);
    CHECK((verdict.cause != Cause::kernel || !verdict.worth_it));
    return report;
  });
  // Its stream holds 128 pieces of work: the calls of a callable that launches many wait for room.
  check("Consumer", Cause::kernel,
        [] { return run({.kernel_s = 0.1e-3}, {.launches = 40}, {.pages = 6'400, .slot = 64}); });
  check("Writer", Cause::writer, [] {
    const ps::tests::TempDir dir;
    ps::HostDevice device;
    ps::tests::SleepingDisk disk{{.bytes_per_s = 5e7}};
    auto pipeline = ps::Reader{PlantedSource{{}, 6'400}, ps::to_pinned, {.batch = 64}} |
                    ps::AsyncCopier{device, {.batch = 64}} |
                    ps::Kernel{[](ps::Batch<Page, ps::Device>, ps::HostStream& stream) {
                      stream.enqueue([] {});
                    }} |
                    ps::AsyncCopier{ps::to_host} |
                    ps::Writer{dir / "pages", {}, ps::tests::SleepingIo<>{disk}};
    return pipeline.run();
  });
}

TEST_CASE("each step that the verdict advises makes a run faster, until the kernel binds") {
  const Watchdog watchdog{"steps"};
  Pretended machine{{.to_device_bytes_per_s = 2e9, .kernel_s = 2e-3}};
  const Costs costs{.read_s = 6e-3, .decode_s = 4e-3 / 64};
  Settings settings{.pages = 6'400, .readers = 1, .slot = 64, .decoders = 1};
  double before = 0;
  int steps = 0;
  for (; steps != 8; ++steps) {
    ps::Report report = run_planted(machine, costs, settings);
    // A busy machine may make a run slower, and never makes one faster.
    for (int tries = 1; tries != 5 && before != 0 && report.seconds >= 1.3 * before; ++tries) {
      report = run_planted(machine, costs, settings);
    }
    const ps::Verdict verdict = ps::judge(report);
    INFO(report << verdict);
    CHECK((before == 0 || report.seconds < 1.3 * before));
    before = report.seconds;
    if (!verdict.worth_it) {
      CHECK(verdict.cause == Cause::kernel);
      break;
    }
    REQUIRE_FALSE(verdict.advice.empty());
    REQUIRE(follow(verdict.advice.front().change, settings));
  }
  CHECK(steps >= 2);
  CHECK(steps < 8);
  CHECK(settings.readers >= 3);
  CHECK(settings.decoders >= 2);
}
