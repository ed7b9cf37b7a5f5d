// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/spin_only.hpp"

#include <penstock/parking.hpp>
#include <penstock/ring/ring.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

namespace ps = penstock;
using Doorbell = ps::Ring<int>::Doorbell;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

namespace {

struct Spinning : ps::RingPolicy {
  using Parking = ps::tests::SpinOnly;
};

static_assert(ps::SpinThenFutex::sleeps && !ps::tests::SpinOnly::sleeps);
static_assert(
    std::is_same_v<ps::SpinThenFutex::Word, ps::RingPolicy::Atomics::Atomic<std::uint32_t>>);
static_assert(noexcept(std::declval<Doorbell&>().ring()) &&
              noexcept(std::declval<Doorbell&>().count()));

constexpr milliseconds for_ever{-1};
constexpr milliseconds moment{20};

template <class F> Clock::duration time_of(F f) {
  const auto began = Clock::now();
  f();
  return Clock::now() - began;
}

} // namespace

TEST_CASE("nobody sleeps on a word that has changed") {
  ps::SpinThenFutex::Word word{1};
  CHECK(time_of([&] { ps::SpinThenFutex::sleep(word, 2); }) < std::chrono::seconds{30});
}

TEST_CASE("a sleep ends when its limit has passed") {
  ps::SpinThenFutex::Word word{1};
  // More than a second, so that both parts of the kernel's time are used. One wait may return
  // early.
  constexpr milliseconds limit{1100};
  const auto end = Clock::now() + limit;
  int sleeps = 0;
  for (; Clock::now() < end; ++sleeps) {
    ps::SpinThenFutex::sleep(word, 1, limit);
  }
  CHECK(sleeps <= 3);
  CHECK(Clock::now() - end < std::chrono::seconds{30});
  CHECK(time_of([&] { ps::SpinThenFutex::sleep(word, 1, milliseconds{0}); }) <
        std::chrono::seconds{30});
}

TEST_CASE("a wake-up reaches everyone who sleeps on the word") {
  ps::SpinThenFutex::Word word{0};
  std::atomic<int> awake{0};
  std::vector<std::thread> sleepers;
  for (int i = 0; i < 4; ++i) {
    sleepers.emplace_back([&] {
      while (word.load() == 0) {
        ps::SpinThenFutex::sleep(word, 0);
      }
      ++awake;
    });
  }
  std::this_thread::sleep_for(moment);
  CHECK(awake == 0);
  word.store(1);
  ps::SpinThenFutex::wake(word);
  for (std::thread& sleeper : sleepers) {
    sleeper.join();
  }
  CHECK(awake == 4);
}

TEST_CASE("a bell counts its rings, and waiting does not") {
  Doorbell bell;
  const std::uint32_t before = bell.count();
  CHECK(bell.count() == before);
  bell.ring();
  const std::uint32_t after = bell.count();
  CHECK(after != before);
  bell.wait(after, milliseconds{1});
  CHECK(bell.count() == after);
  bell.ring();
  CHECK(bell.count() != after);
}

TEST_CASE("a bell's count is the same while somebody waits for it") {
  Doorbell bell;
  const std::uint32_t before = bell.count();
  std::thread waiting{[&] { bell.wait(before, for_ever); }};
  std::this_thread::sleep_for(moment);
  const std::uint32_t meanwhile = bell.count();
  bell.ring();
  waiting.join();
  CHECK(meanwhile == before);
  CHECK(bell.count() != before);
}

TEST_CASE("who waits for a bell that has rung does not sleep") {
  Doorbell bell;
  const std::uint32_t before = bell.count();
  bell.ring();
  CHECK(time_of([&] { bell.wait(before, for_ever); }) < std::chrono::seconds{30});
}

TEST_CASE("a wait for a bell that does not ring ends at its limit, each time") {
  Doorbell bell;
  for (int i = 0; i < 3; ++i) {
    const auto end = Clock::now() + moment;
    int waits = 0;
    for (; Clock::now() < end; ++waits) {
      bell.wait(bell.count(), moment);
    }
    CAPTURE(i);
    // Spurious wake-ups are allowed, a busy loop is not.
    CHECK(waits < 100);
  }
}

TEST_CASE("a bell wakes its sleeper, however often and by however many it is rung") {
  Doorbell bell;
  constexpr int ringers = 3;
  constexpr int rings = 2000;
  std::atomic<int> rung{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < ringers; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < rings; ++k) {
        rung.fetch_add(1, std::memory_order_relaxed);
        bell.ring();
        if (k % 64 == 0) {
          std::this_thread::sleep_for(std::chrono::microseconds{100});
        }
      }
    });
  }
  for (;;) {
    const std::uint32_t count = bell.count();
    if (rung.load(std::memory_order_relaxed) == ringers * rings) {
      break;
    }
    bell.wait(count, for_ever);
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(rung == ringers * rings);
}

TEST_CASE("a bell for threads that spin returns from a wait at once") {
  ps::Ring<int, Spinning>::Doorbell bell;
  const std::uint32_t before = bell.count();
  bell.wait(before, for_ever);
  CHECK(bell.count() == before);
  bell.ring();
  CHECK(bell.count() != before);
}
