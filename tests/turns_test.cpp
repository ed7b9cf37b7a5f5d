// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// What counts the records that several workers deliver, alone.

#include "support/catch.hpp"
#include "support/watchdog.hpp"

#include <penstock/detail/turns.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

namespace ps = penstock;
namespace tests = ps::tests;
using namespace std::chrono_literals;

namespace {

std::uint64_t records_of(std::uint64_t ticket) {
  return ticket % 5; // 0 among them, as of a slot left out
}

// As many threads as there are processors, and more: some spin, some sleep.
constexpr unsigned threads = 6;
constexpr std::uint64_t tickets = 20'000;

} // namespace

TEST_CASE("each turn learns what came before it, however the threads come") {
  const tests::Watchdog watchdog{"turns in order"};
  ps::detail::Turns turns;
  for (int run = 0; run < 2; ++run) {
    CAPTURE(run);
    turns.reset();
    std::atomic<std::uint64_t> next{0};
    std::vector<std::uint64_t> before(tickets, ~std::uint64_t{0});
    std::atomic<unsigned> refused{0};
    std::vector<std::thread> workers;
    for (unsigned worker = 0; worker < threads; ++worker) {
      workers.emplace_back([&, worker] {
        std::mt19937 random{worker};
        for (std::uint64_t ticket = next++; ticket < tickets; ticket = next++) {
          if (random() % 256 == 0) {
            std::this_thread::sleep_for(50us); // the others come before it
          }
          refused += !turns.take(ticket, records_of(ticket), before[ticket]);
        }
      });
    }
    for (std::thread& worker : workers) {
      worker.join();
    }
    CHECK(refused == 0);
    std::uint64_t sum = 0;
    std::uint64_t wrong = 0;
    for (std::uint64_t ticket = 0; ticket < tickets; ++ticket) {
      wrong += before[ticket] != sum;
      sum += records_of(ticket);
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("a turn orders what was written before it with what comes after it") {
  // ThreadSanitizer would see it if not.
  const tests::Watchdog watchdog{"turns as an order"};
  ps::detail::Turns turns;
  std::vector<std::uint64_t> log; // of whose turn it was, without a lock
  std::uint64_t before = 0;
  std::vector<std::thread> workers;
  log.reserve(threads);
  for (std::uint64_t ticket = 0; ticket < threads; ++ticket) {
    workers.emplace_back([&, ticket] {
      std::this_thread::sleep_for(1ms * (threads - ticket));
      std::uint64_t mine = 0;
      if (turns.take(2 * ticket, 1, mine)) {
        log.push_back(ticket);
        before = mine;
        turns.take(2 * ticket + 1, 1, mine);
      }
    });
  }
  for (std::thread& worker : workers) {
    worker.join();
  }
  CHECK(before == 2 * (threads - 1));
  REQUIRE(log.size() == threads);
  for (std::uint64_t ticket = 0; ticket < threads; ++ticket) {
    CHECK(log[ticket] == ticket);
  }
}

TEST_CASE("end() wakes all who wait for their turn, and turns away who comes") {
  const tests::Watchdog watchdog{"turns at their end"};
  for (int round = 0; round < 20; ++round) {
    CAPTURE(round);
    ps::detail::Turns turns;
    std::uint64_t before = 99;
    CHECK(turns.take(0, 7, before));
    CHECK(before == 0);
    std::atomic<unsigned> waiting{0};
    std::atomic<unsigned> refused{0};
    std::vector<std::thread> workers;
    // Nobody has the turn before theirs.
    for (unsigned worker = 0; worker < threads; ++worker) {
      workers.emplace_back([&, worker] {
        std::uint64_t mine = 0;
        ++waiting;
        refused += !turns.take(2 + worker, 1, mine);
      });
    }
    while (waiting != threads) {
      std::this_thread::yield();
    }
    if (round % 2 == 0) {
      std::this_thread::sleep_for(2ms); // they sleep
    }
    CHECK(refused == 0);
    turns.end();
    for (std::thread& worker : workers) {
      worker.join();
    }
    CHECK(refused == threads);
    CHECK_FALSE(turns.take(1, 1, before));

    turns.reset();
    CHECK(turns.take(0, 3, before));
    CHECK(before == 0);
    CHECK(turns.take(1, 3, before));
    CHECK(before == 3);
  }
}
