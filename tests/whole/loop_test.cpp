// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The suite of loops on the host device, and tests that need a device that fails when told to.

#include "support/caught.hpp"

#include <penstock/penstock.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using TestDevice = penstock::HostDevice;

template <class D = TestDevice, class F> void for_each_device(F f) {
  for (const std::uint64_t seed : {2, 3}) {
    D device{{.late_seed = seed}};
    f(device);
  }
}

inline void delay(penstock::HostStream& stream, std::chrono::microseconds time) {
  stream.enqueue([time] { std::this_thread::sleep_for(time); });
}

inline bool all_given_back(const TestDevice& device) {
  const penstock::HostCounts now = device.counts();
  return now.live_allocations == 0 && now.live_pinned == 0 && now.live_streams == 0 &&
         now.live_events == 0;
}

#include "suite/loop_suite.hpp"
#include "suite/next_suite.hpp"

using namespace suite;

TEST_CASE("any device call of a loop may fail: one StageError, and the next run delivers all") {
  tests::Watchdog watchdog{"failing calls of a loop"};
  ps::HostDevice device;
  auto pipeline = to_device(device);
  auto stream = device.stream();
  auto other = device.stream();
  pipeline.prepare();
  std::uint64_t failures = 0;
  for (std::uint64_t k = 1;; ++k) {
    CAPTURE(k);
    watchdog.progress(k);
    REQUIRE(k < 1000);
    device.fail_call(k);
    const Outcome out = outcome_of([&] {
      for (auto batch : pipeline.on(stream)) {
        batch.used_on(other);
      }
    });
    const bool fired = device.fault_fired();
    device.fail_call(0);
    if (!fired) {
      CHECK(out.came == Came::nothing);
      break;
    }
    ++failures;
    CAPTURE(out);
    CHECK(out.came == Came::stage_error);
    CHECK(out.cause == Came::device_error);
    CHECK((out.stage == "loop" || out.stage == "AsyncCopier"));
    CHECK(delivers_all(pipeline, device, ten_batches()));
  }
  CHECK(failures > 2 * batch_count);
}

TEST_CASE("a loop on a device that is lost ends, and says so at every later run") {
  const tests::Watchdog watchdog{"a lost device"};
  ps::HostDevice device;
  {
    auto pipeline = to_device(device);
    auto stream = device.stream();
    std::vector<Lease<Bytes>> held;
    const auto walk = [&] {
      for (auto batch : pipeline.on(stream)) {
        if (batch.index() == 2 * batch_size) {
          stream.enqueue([] { throw std::runtime_error{"a trap"}; });
        }
        if (batch.index() == batch_size) {
          held.push_back(std::move(batch));
        }
      }
    };
    for (int run = 0; run < 2; ++run) {
      const Outcome out = outcome_of(walk);
      CAPTURE(out);
      CHECK(out.came == Came::stage_error);
      CHECK(out.sticky);
    }
    CHECK(held.size() == 1);
  }
  CHECK(all_given_back(device));
}

TEST_CASE(
    "a lease whose giving back fails after the loop is in use until the next run has waited") {
  ps::HostDevice device;
  auto pipeline = to_device(device);
  auto stream = device.stream();
  Lease<Bytes> kept;
  for (auto batch : pipeline.on(stream)) {
    kept = std::move(batch);
    break;
  }
  std::atomic<bool> used{false};
  stream.enqueue([&] {
    std::this_thread::sleep_for(20ms);
    used = true;
  });
  device.fail_call(1);
  kept.release();
  CHECK(device.fault_fired());
  bool first = true;
  auto other = device.stream();
  for (auto batch : pipeline.on(other)) {
    CHECK((!first || used));
    first = false;
  }
  CHECK_FALSE(first);
}

TEST_CASE("a pipeline that is running is not run again within its own loop") {
  ps::HostDevice device;
  auto pipeline = to_device(device);
  auto stream = device.stream();
  std::size_t batches = 0;
  for (auto batch : pipeline.on(stream)) {
    const auto refused = tests::caught<ps::Error>([&] {
      for (auto inner : pipeline.on(stream)) {
        batches += inner.size();
      }
    });
    CHECK(tests::has(refused, "running already"));
    ++batches;
  }
  CHECK(batches > 1);
  CHECK(pipeline.report().stages.back().records == pipeline.report().records_in_all);
}

TEST_CASE("a thread that cannot be attached to the device ends the loop with an error") {
  struct Detached : ps::HostDevice {
    ps::HostAttachment attach() {
      if (fails) {
        throw ps::DeviceError{"penstock: attach failed on purpose", "attach", 1, false};
      }
      return ps::HostDevice::attach();
    }
    std::atomic<bool> fails{true};
  };
  Detached device;
  auto pipeline = to_device(device);
  auto stream = device.stream();
  std::uint64_t records = 0;
  const auto walk = [&] {
    for (auto batch : pipeline.on(stream)) {
      records += batch.size();
    }
  };
  CHECK(tests::has(tests::caught<ps::StageError>(walk), "attach failed on purpose"));
  CHECK(records == 0);
  device.fails = false;
  walk();
  CHECK(records == pipeline.report().records_in_all);
}

namespace {

// What a loop of small batches, which share events, needs besides: it says when a stream captures,
// and fails a record of its thread when told to.
struct Telling : ps::HostDevice {
  void check_not_capturing(ps::HostStream& stream) {
    if (captured == &stream) {
      throw ps::DeviceError{"penstock: this stream captures", "check", 900, false};
    }
  }
  void record(ps::HostEvent& event, ps::HostStream& stream) {
    if (std::this_thread::get_id() == caller) {
      captured_records += captured == &stream ? 1 : 0;
      if (std::exchange(fail_next, false)) {
        throw ps::DeviceError{"penstock: not recorded", "record", 719, false};
      }
    }
    HostDevice::record(event, stream);
  }

  const std::thread::id caller = std::this_thread::get_id();
  const ps::HostStream* captured{};
  int captured_records{};
  bool fail_next{};
};

struct SmallBatches {
  SmallBatches() : bytes(3000 * 4096) {}

  std::vector<std::byte> bytes;
  Telling device;
  ps::HostStream stream = device.stream();
  ps::Pipeline<ps::Reader<ps::Memory<std::byte>, ps::Pinned>, ps::AsyncCopier<Telling>> data =
      ps::Reader{ps::memory(std::span<const std::byte>{bytes}), ps::to_pinned} |
      ps::AsyncCopier{device, {.batch = 4096}};

  // Waits until all batches are on the device, so that no step has to wait.
  void fill() {
    while (data.report().stages[1].records != bytes.size()) {
      std::this_thread::yield();
    }
  }
};

} // namespace

TEST_CASE("small batches that came back are not recorded on a stream that captures") {
  SmallBatches all;
  for (int run = 0; run < 3; ++run) {
    CAPTURE(run);
    std::size_t seen = 0;
    const auto loop = [&] {
      for (auto batch : all.data.on(all.stream)) {
        if (++seen == 1) {
          all.fill();
        }
        all.device.captured = run == 1 && seen == 8 ? &all.stream : nullptr;
      }
    };
    if (run == 1) {
      CHECK_THROWS_AS(loop(), ps::StageError);
      CHECK(seen == 8);
      all.device.captured = nullptr;
    } else {
      loop();
      CHECK(seen == 3000);
    }
  }
  CHECK(all.device.captured_records == 0);
}

TEST_CASE("a record that fails for small batches is the next run's error, if their loop is left") {
  SmallBatches all;
  std::size_t seen = 0;
  for (auto batch : all.data.on(all.stream)) {
    if (++seen == 1) {
      all.fill();
      all.device.fail_next = true;
    }
    if (seen == 10) {
      break;
    }
  }
  CHECK(all.data.report().error.find("not recorded") != std::string::npos);
  const auto loop = [&] {
    for (auto batch : all.data.on(all.stream)) {
      ++seen;
    }
  };
  CHECK_THROWS_AS(loop(), ps::StageError);
  CHECK(seen == 10);
  loop();
  CHECK(seen == 3010);
}

TEST_CASE("a small batch that came back does not count among those that may be held") {
  std::vector<std::byte> bytes(400 * 300'000);
  Telling device;
  auto stream = device.stream();
  auto data = ps::Reader{ps::memory(std::span<const std::byte>{bytes}), ps::to_pinned} |
              ps::AsyncCopier{device, {.batch = 300'000, .depth = 128}};
  data.prepare();
  REQUIRE(data.report().stages[1].depth == 128);
  std::vector<ps::Lease<ps::Batch<const std::byte, ps::Device>>> held;
  for (auto batch : data.on(stream)) {
    // The first is gone, and the other 127 and the next are as many as may be held.
    if (held.empty() && batch.index() == 0) {
      continue;
    }
    held.push_back(std::move(batch));
    if (held.size() == 128) {
      break;
    }
  }
  CHECK(held.size() == 128);
}
