// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"

#include <penstock/detail/measure/meter.hpp>

#include <atomic>
#include <cstdint>
#include <thread>

namespace ps = penstock;
using ps::detail::WaitClock;

TEST_CASE("a WaitClock adds up waits, and one that goes on counts up to now") {
  WaitClock clock;
  CHECK(clock.at(1'000) == 0);
  clock.begin(1'000);
  CHECK(clock.at(1'000) == 0);
  CHECK(clock.at(1'250) == 250);
  clock.end(1'300);
  CHECK(clock.at(1'300) == 300);
  CHECK(clock.at(9'000) == 300);
  clock.begin(10'000);
  CHECK(clock.at(10'001) == 301);
  clock.end(10'100);
  CHECK(clock.at(20'000) == 400);
  clock.reset();
  CHECK(clock.at(20'000) == 0);
  // A reader that was held up for longer than all waits together.
  clock.begin(30'000);
  CHECK(clock.at(29'000) == 0);
}

TEST_CASE("a WaitClock holds times of the steady clock, up to 146 years after it began") {
  constexpr std::uint64_t late = std::uint64_t{1} << 62U;
  WaitClock clock;
  clock.begin(late);
  CHECK(clock.at(late + 7) == 7);
  clock.end(late + 9);
  CHECK(clock.at(late + 100) == 9);
}

TEST_CASE("threads that read a WaitClock never see a sum that is neither before nor after") {
  WaitClock clock;
  std::atomic<bool> over{false};
  std::atomic<std::uint64_t> now{1};
  std::atomic<std::uint64_t> wrong{0};
  std::atomic<std::uint64_t> reads{0};
  std::thread reader{[&] {
    while (!over) {
      // Waits begin at odd times and end at even ones: half of the time, give or take what the
      // writer does meanwhile.
      const std::uint64_t before = now;
      const std::uint64_t waited = clock.at(before);
      const std::uint64_t after = now;
      wrong += waited + 2 + (after - before) < before / 2 || waited > after / 2 + 2 ? 1U : 0U;
      ++reads;
    }
  }};
  while (now < 200'000 || reads < 100) {
    clock.begin(now);
    ++now;
    clock.end(now);
    ++now;
  }
  over = true;
  reader.join();
  CHECK(wrong == 0);
}
