// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// One chain that feeds several host devices: the suite, where copies are late and a bus is slow;
// and what only a host device can tell.

#include <penstock/host/device.hpp>
#include <penstock/pipeline/fan_out.hpp>

#include <cstddef>
#include <deque>

using TestDevice = penstock::HostDevice;

// The first is quick, and copies to the others are late, or go over a slow bus.
inline std::deque<TestDevice> make_devices(std::size_t count) {
  std::deque<TestDevice> devices;
  for (std::size_t i = 0; i != count; ++i) {
    devices.emplace_back(i == 0   ? penstock::HostOptions{}
                         : i == 1 ? penstock::HostOptions{.late_seed = 3}
                                  : penstock::HostOptions{.to_device_bytes_per_s = 200e6});
  }
  return devices;
}

#include "suite/fan_out_suite.hpp"
#include "support/failing_device.hpp"
#include "support/test_devices.hpp"

#include <penstock/diagnose/verdict.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <numeric>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace suite;

// Its text takes long, so that another error comes before it is read.
struct Slow : std::exception {
  const char* what() const noexcept override {
    std::this_thread::sleep_for(std::chrono::milliseconds{50});
    return "slow";
  }
};

// Records no use of a stream that it is told.
struct RefusesUse : ps::HostDevice {
  void record(ps::HostEvent& event, ps::HostStream& stream) {
    if (&stream == refused) {
      throw ps::DeviceError{"penstock: host: refused", "record", 1, false};
    }
    HostDevice::record(event, stream);
  }
  std::atomic<const ps::HostStream*> refused{}; // a copier asks meanwhile
};

// A number, and as many letters as it tells.
struct Text : ps::Columns<ps::Field<"number", Number>, ps::Field<"text", ps::Ragged<char>>> {};

} // namespace

TEST_CASE("nothing is left on any device, however the run ends") {
  const tests::Watchdog watchdog{"nothing is left"};
  auto devices = make_devices(3);
  for (const std::uint64_t refused : {ps::unknown_size, std::uint64_t{0}, std::uint64_t{7000}}) {
    auto sides = sides_of(devices);
    FanOut fan{chain(1, refused), devices, {.batch = a_batch}};
    loops(fan, sides);
    CHECK((sides[2].error != nullptr) == (refused != ps::unknown_size));
  }
  for (const auto& device : devices) {
    tests::check_nothing_lives(device);
  }
}

TEST_CASE("an error of one device ends all loops, which throw it") {
  const tests::Watchdog watchdog{"an error of a device"};
  using Failing = tests::FailingDevice;
  std::deque<Failing> devices(2);
  ps::FanOut fan{chain(), devices, {.batch = a_batch}};
  for (const std::uint64_t call : {1, 2, 9}) {
    std::deque<ps::HostStream> streams;
    std::deque<tests::Outcome> outs(2);
    for (Failing& device : devices) {
      streams.push_back(device.stream());
    }
    devices[1].fail(tests::Calls::others, call, {.code = 719});
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i != 2; ++i) {
      threads.emplace_back([&, i] {
        outs[i] = tests::outcome_of([&] {
          for (auto batch : fan.on(i, streams[i])) {
          }
        });
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    for (const tests::Outcome& out : outs) {
      CAPTURE(call, out);
      CHECK(out.came == tests::Came::stage_error);
      CHECK(out.code == 719);
    }
    CHECK(devices[1].fired());
    devices[1].mend();
  }
}

TEST_CASE("all loops throw the first error, also if others come before it is described") {
  const tests::Watchdog watchdog{"errors at once"};
  auto devices = make_devices(2);
  auto sides = sides_of(devices);
  const auto bad = ps::generate<Number>(
      number_count, [](std::span<Number> /*out*/, std::uint64_t /*first*/) { throw Slow{}; });
  FanOut fan{ps::Reader{bad, ps::to_pinned, {.workers = 2, .batch = 64}}, devices};
  for (int times = 0; times < 2; ++times) {
    loops(fan, sides);
    for (Side& side : sides) {
      REQUIRE(side.error);
      CHECK(tests::outcome_of(side.error).stage == "Reader");
      side.error = nullptr;
    }
  }
}

TEST_CASE("a device that had no loop in a stopped run gets its end, and all of the next run") {
  const tests::Watchdog watchdog{"a loop of a stopped run"};
  auto devices = make_devices(2);
  auto sides = sides_of(devices);
  FanOut fan{chain(), devices, {.batch = a_batch}};
  std::stop_source stop;
  stop.request_stop(); // before the run begins, where FanOut::stop() has no effect
  for (auto batch : fan.on(0, sides[0].stream, {.stop = stop.get_token()})) {
    FAIL("a batch of a stopped run, from record " << batch.index());
  }
  CHECK(!fan.on(1, sides[1].stream).next());
  loops(fan, sides);
  check_all(sides);
}

TEST_CASE("a device without a loop is named: in a stall, in the Report and in the verdict") {
  const tests::Watchdog watchdog{"a device without a loop"};
  auto devices = make_devices(2);
  auto sides = sides_of(devices);
  for (const std::size_t with : {0, 1}) {
    CAPTURE(with);
    const std::string without = with == 0 ? "loop 2" : "loop";
    FanOut fan{chain(4000), devices, {.batch = a_batch}}; // more than all rings hold
    std::stop_source stop;
    std::optional<ps::Stall> stall;
    const auto stalled = [&](const ps::Stall& seen) {
      if (seen.stage == without) { // on a busy machine the others may pause before
        stall = seen;
        stop.request_stop();
      }
    };
    const auto attached = devices[with].attach();
    for (auto batch : fan.on(with, sides[with].stream,
                             {.stop = stop.get_token(),
                              .stalled = stalled,
                              .stall_limit = std::chrono::milliseconds{500}})) {
      REQUIRE(batch.size() != 0);
    }
    REQUIRE(stall);
    CHECK(stall->reason == std::string{"has asked for no batch"});
    for (const ps::Report& report : {stall->report, fan.report()}) {
      INFO(report);
      const ps::Verdict verdict = ps::judge(report);
      CHECK(verdict.stage == without);
      CHECK(verdict.cause == ps::Cause::host_work);
      CHECK(verdict.evidence.starts_with("the thread that is to have it has asked for no batch"));
      CHECK(verdict.advice.empty());
    }
    // It is of the run that was stopped. Another thread may still be about to close its ring.
    std::size_t came = 0;
    for (auto batch : fan.on(1 - with, sides[1 - with].stream)) {
      came += batch.size();
    }
    CHECK(came < 4000 * number_count);
    CHECK(fan.report().stopped);
  }
}

TEST_CASE("a stopped token ends the wait for a device that never leaves the run before") {
  const tests::Watchdog watchdog{"a loop that waits its turn"};
  auto devices = make_devices(2);
  auto sides = sides_of(devices);
  FanOut fan{chain(), devices, {.batch = a_batch}};
  std::stop_source stop;
  CHECK(fan.on(0, sides[0].stream).next()); // left early: device 1 has no loop in that run
  bool any = false;
  std::thread waits{[&] {
    const auto attached = devices[0].attach();
    for (auto batch : fan.on(0, sides[0].stream, {.stop = stop.get_token()})) {
      any = any || batch.size() != 0;
    }
  }};
  std::this_thread::sleep_for(std::chrono::milliseconds{20}); // most often it waits by then
  stop.request_stop();
  waits.join();
  CHECK_FALSE(any);
  CHECK_FALSE(fan.on(0, sides[0].stream, {.stop = stop.get_token()}).next()); // stopped before

  // Neither loop was in a run: the next one of device 1 is of the run that was left early.
  CHECK_FALSE(fan.on(1, sides[1].stream).next());
  loops(fan, sides);
  check_all(sides);
}

TEST_CASE("what keeps a run from starting is thrown by each loop once, and then all may run") {
  const tests::Watchdog watchdog{"no start"};
  std::deque<RefusesUse> devices(2);
  std::deque<ps::HostStream> streams;
  for (RefusesUse& device : devices) {
    streams.push_back(device.stream());
  }
  // So many places that several uses share an event, which is recorded when a loop is left.
  ps::FanOut fan{chain(), devices, {.batch = a_batch, .depth = 256}};
  const auto came = [](auto& run) { return tests::outcome_of([&] { (void)run.next(); }).came; };
  for (const std::size_t left : {0, 1}) {
    CAPTURE(left);
    { // Nobody is there to be thrown that its batch could not be given back.
      auto first = fan.on(left, streams[left]);
      CHECK(first.next());
      devices[left].refused = &streams[left];
    }
    devices[left].refused = nullptr;
    auto last = fan.on(1 - left, streams[1 - left]);
    CHECK(came(last) == tests::Came::stage_error);
    auto one = fan.on(0, streams[0]);
    auto other = fan.on(1, streams[1]);
    CHECK(came(one) == tests::Came::stage_error);
    CHECK(came(other) == tests::Came::stage_error);
    CHECK(one.next());
    CHECK(other.next().index() == 0);
  }

  // Who tries again does not wait for the others, who then have nothing to throw.
  auto kept = fan.on(0, streams[0]).next();
  CHECK_FALSE(fan.on(1, streams[1]).next());
  auto one = fan.on(0, streams[0]);
  CHECK_THROWS_AS(one.next(), ps::Error);
  kept.release();
  CHECK(one.next().index() == 0);
  CHECK(fan.on(1, streams[1]).next().index() == 0);
}

TEST_CASE("memory that runs out on one device is told at once, and leaves nothing") {
  auto devices = make_devices(1);
  devices.emplace_back(ps::HostOptions{.memory_bytes = 1000});
  CHECK_THROWS_AS((FanOut{chain(), devices, {.batch = a_batch}}), ps::DeviceError);
  for (const auto& device : devices) {
    tests::check_nothing_lives(device);
  }
}

TEST_CASE("columns of any length go to all devices") {
  const tests::Watchdog watchdog{"columns"};
  auto devices = make_devices(2);
  const auto source = ps::generate<Number>(1000, [](std::span<Number> out, std::uint64_t first) {
    std::iota(out.begin(), out.end(), first);
  });
  ps::FanOut fan{
      ps::Reader{source, {.batch = 50}} | ps::Decoder{[](const Number& in, ps::Row<Text> out) {
        ps::get<"number">(out) = in;
        std::fill_n(ps::put<"text">(out, in % 7), in % 7, 'x');
      }} | ps::PinnedStager{},
      devices};
  std::vector<std::thread> threads;
  std::vector<std::uint64_t> wrong(2), records(2);
  for (std::size_t i = 0; i != 2; ++i) {
    threads.emplace_back([&, i] {
      auto stream = devices[i].stream();
      for (auto batch : fan.on(i, stream)) {
        devices[i].sync(stream);
        for (std::size_t k = 0; k != batch.size(); ++k) {
          const Number number = ps::get<"number">(batch)[k];
          wrong[i] += number != records[i]++ || ps::get<"text">(batch)[k].size() != number % 7;
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(wrong == std::vector<std::uint64_t>{0, 0});
  CHECK(records == std::vector<std::uint64_t>{1000, 1000});
}

TEST_CASE("a slot is given back only when no device copies from it any more") {
  const tests::Watchdog watchdog{"slots given back"};
  std::deque<tests::Poisons<ps::HostDevice>> devices; // spoil what is given back
  for (const std::uint64_t ns : {0, 100'000, 0}) {
    devices.emplace_back(ps::HostOptions{.late_seed = 5, .copy_ns_per_kib = ns});
  }
  ps::FanOut fan{chain(2), devices, {.batch = a_batch}};
  std::vector<std::uint64_t> wrong(devices.size()), records(devices.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i != devices.size(); ++i) {
    threads.emplace_back([&, i] {
      auto stream = devices[i].stream();
      for (auto batch : fan.on(i, stream)) {
        devices[i].sync(stream);
        for (std::size_t k = 0; k != batch.size(); ++k) {
          wrong[i] += batch.data()[k] != records[i]++ % number_count;
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(wrong == std::vector<std::uint64_t>(devices.size()));
  CHECK(records == std::vector<std::uint64_t>(devices.size(), 2 * number_count));
  CHECK(devices[0].poisoned > number_count * sizeof(Number));
  CHECK(devices[1].poisoned == 0);
}

TEST_CASE("if a device breaks down, what others were given is not blamed") {
  const tests::Watchdog watchdog{"blame"};
  std::atomic<bool> told{false}; // first, for what is still queued when the streams die asks it
  std::deque<ps::HostDevice> devices(2);
  ps::FanOut fan{chain(), devices, {.batch = a_batch}};
  std::deque<ps::HostStream> streams;
  for (ps::HostDevice& device : devices) {
    streams.push_back(device.stream());
  }
  std::thread other{[&] {
    const tests::Outcome out = tests::outcome_of([&] {
      for (auto batch : fan.on(0, streams[0])) {
        streams[0].enqueue([&] { // open until the error is described
          while (!told) {
            std::this_thread::yield();
          }
        });
      }
    });
    CHECK(out.came == tests::Came::stage_error);
  }};
  std::thread unblocks{[&] {
    std::this_thread::sleep_for(std::chrono::milliseconds{200});
    told = true;
  }};
  bool broken = false; // a lost device refuses more work, in the loop's body
  const tests::Outcome out = tests::outcome_of([&] {
    for (auto batch : fan.on(1, streams[1])) {
      if (!std::exchange(broken, true)) {
        streams[1].enqueue([] { throw 1; });
      }
    }
  });
  other.join();
  unblocks.join();
  CAPTURE(out);
  CHECK(out.came == tests::Came::stage_error);
  CHECK(out.sticky);
  CHECK(out.enqueued_by != "loop");
  CHECK_FALSE(out.says("what loop enqueued"));
}

TEST_CASE("if a device breaks down, what the others still do is waited for before memory goes") {
  const tests::Watchdog watchdog{"a device breaks down"};
  for (std::uint64_t call = 1; call < 100; call += call < 20 ? 1 : 9) {
    for (const std::size_t broken : {0, 1}) {
      CAPTURE(call, broken);
      std::deque<tests::FailingDevice> devices;
      devices.emplace_back(ps::HostOptions{.copy_ns_per_kib = broken == 0 ? 0U : 200'000U});
      devices.emplace_back(ps::HostOptions{.copy_ns_per_kib = broken == 0 ? 200'000U : 0U});
      std::deque<ps::HostStream> streams;
      std::atomic<std::uint64_t> sum{0};
      for (auto& device : devices) {
        streams.push_back(device.stream());
      }
      std::optional fan{ps::FanOut{chain(), devices, {.batch = a_batch}}};
      devices[broken].fail(tests::Calls::others, call, {.sticky = true, .code = 719});
      std::vector<std::thread> threads;
      for (std::size_t i = 0; i != 2; ++i) {
        threads.emplace_back([&, i] {
          (void)tests::outcome_of([&] { // a body's own call may fail too
            for (auto batch : fan->on(i, streams[i])) {
              streams[i].enqueue([&sum, data = batch.data(), size = batch.size()] {
                std::this_thread::sleep_for(std::chrono::microseconds{300});
                sum += std::accumulate(data, data + size, Number{0});
              });
            }
          });
        });
      }
      for (std::thread& thread : threads) {
        thread.join();
      }
      CHECK(devices[broken].fired());
      fan.reset();
    }
  }
}

TEST_CASE("a slow bus delays nobody else while the pinned ring has room") {
  const tests::Watchdog watchdog{"a slow bus"};
  std::deque<ps::HostDevice> devices;
  devices.emplace_back();
  devices.emplace_back(ps::HostOptions{.copy_ns_per_kib = 4'000'000}); // 2 s for the half MiB
  FanOut fan{ps::Reader{numbers(64 * 1024), ps::to_pinned, {.depth = 16, .batch = 4096}},
             devices,
             {.batch = 4096}};
  auto sides = sides_of(devices);
  auto second = fan.on(1, sides[1].stream);
  const auto start = std::chrono::steady_clock::now();
  std::uint64_t got = 0;
  for (auto batch : fan.on(0, sides[0].stream)) {
    got += batch.size();
  }
  CHECK(got == 64 * 1024);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds{1});
  CHECK(second.next().size() == 4096);
}
