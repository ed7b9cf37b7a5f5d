// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Fences that share events. What threads see of each other's is in model/fence_model.cpp.

#include "support/catch.hpp"

#include <penstock/device/fence.hpp>
#include <penstock/host/device.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>

namespace ps = penstock;
using Timeline = ps::Timeline<ps::HostDevice>;

namespace {

// Work in order on a stream, done when the test says so. Each piece has a fence.
struct Work {
  Work(std::size_t events, std::size_t uses)
      : line{device, events, uses}, stream{device.stream()} {}
  ~Work() { allow(~std::uint64_t{0}); }

  std::uint64_t add(std::size_t uses = 1) {
    stream.enqueue([this, number = ++added] {
      while (allowed < number) {
        std::this_thread::yield();
      }
      done = number;
    });
    return line.record(stream, uses);
  }
  void allow(std::uint64_t number) { allowed = number; }
  void finish(std::uint64_t number) {
    allow(number);
    while (done < number) {
      std::this_thread::yield();
    }
  }
  // Waits for the stream too, which is an instant behind the work.
  bool becomes_reached(std::uint64_t serial) {
    for (int looks = 0; looks < 10'000'000 && !line.reached(serial); ++looks) {
      std::this_thread::yield();
    }
    return line.reached(serial);
  }

  ps::HostDevice device;
  std::atomic<std::uint64_t> allowed{0}, done{0};
  std::uint64_t added{};
  Timeline line;
  ps::HostStream stream;
};

} // namespace

TEST_CASE("as many events as uses: each fence is reached when its work is done") {
  Work work{4, 4};
  for (std::uint64_t lap = 0; lap < 12; lap += 4) {
    for (std::uint64_t serial = lap + 1; serial <= lap + 4; ++serial) {
      CHECK(work.add() == serial);
    }
    for (std::uint64_t serial = lap + 1; serial <= lap + 4; ++serial) {
      CHECK_FALSE(work.line.reached(serial));
      work.finish(serial);
      CHECK(work.becomes_reached(serial));
    }
  }
}

TEST_CASE("fewer events than uses: neighbours share one, and are reached when the last is done") {
  Work work{3, 9};
  CHECK(work.device.counts().live_events == 3);
  for (std::uint64_t lap = 0; lap < 36; lap += 8) {
    for (std::uint64_t serial = lap + 1; serial <= lap + 8; ++serial) {
      CHECK(work.add() == serial);
    }
    CHECK(work.line.answer(lap + 1) == work.line.answer(lap + 4));
    CHECK(work.line.answer(lap + 4) != work.line.answer(lap + 5));
    CHECK(work.line.answer(lap + 5) == work.line.answer(lap + 8));
    work.finish(lap + 3);
    CHECK_FALSE(work.line.reached(lap + 3));
    work.finish(lap + 4);
    CHECK(work.becomes_reached(lap + 1));
    CHECK(work.becomes_reached(lap + 4));
    CHECK_FALSE(work.line.reached(lap + 5));
    work.finish(lap + 8);
    CHECK(work.becomes_reached(lap + 5));
    CHECK(work.line.oldest_open() <= lap + 6);
    work.line.sync();
    CHECK(work.line.was_reached() == lap + 8);
  }
}

TEST_CASE("a fence that ends many uses has an event to itself, and so has the next") {
  Work work{3, 9};
  work.add(4);
  work.add(3);
  work.add();
  work.add();
  CHECK(work.line.answer(1) != work.line.answer(2));
  CHECK(work.line.answer(2) == work.line.answer(3));
  CHECK(work.line.answer(3) != work.line.answer(4));
  work.finish(1);
  CHECK(work.becomes_reached(1));
  CHECK_FALSE(work.line.reached(2));
}

TEST_CASE("a recording that fails leaves the event to the fences that it had") {
  Work work{3, 9};
  work.add();
  work.device.fail_call(1);
  CHECK_THROWS_AS(work.line.record(work.stream), ps::DeviceError);
  work.device.fail_call(0);
  CHECK(work.line.was_recorded() == 1);
  work.finish(1);
  CHECK(work.becomes_reached(1));
  CHECK(work.add() == 2);
  CHECK_FALSE(work.line.reached(2));
}
