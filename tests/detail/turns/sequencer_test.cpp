// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The sequencer that has the slots of several workers counted in order, alone.

#include "support/catch.hpp"
#include "support/watchdog.hpp"

#include <penstock/detail/turns/sequencer.hpp>

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
using Places = std::vector<std::size_t>;

namespace {

// More threads than a small machine has processors.
constexpr unsigned threads = 6;
constexpr std::size_t places = 8;
constexpr std::uint64_t tickets = 20'000;

} // namespace

TEST_CASE("who comes too early goes on, and who was missed does his and theirs") {
  ps::detail::Sequencer turns{4};
  Places done;
  const auto bring = [&](std::uint64_t ticket) {
    done.clear();
    turns.bring(ticket, [&](std::size_t place) { done.push_back(place); });
    return done;
  };
  for (int run = 0; run < 2; ++run) {
    CAPTURE(run);
    CHECK(bring(0) == Places{0});
    CHECK(bring(3).empty());
    CHECK(bring(2).empty());
    CHECK(bring(1) == Places{1, 2, 3});
    CHECK(bring(5).empty()); // in the next lap
    CHECK(bring(7).empty());
    CHECK(bring(6).empty());
    CHECK(bring(4) == Places{0, 1, 2, 3});
    CHECK(bring(9).empty()); // and is forgotten
    turns.reset();
  }
}

TEST_CASE("a ticket may come again in its place while those after it are still done") {
  ps::detail::Sequencer turns{2};
  Places done;
  std::uint64_t next = 2;
  const auto see = [&](std::size_t place) { done.push_back(place); };
  turns.bring(1, see);
  CHECK(done.empty());
  turns.bring(0, [&](std::size_t place) {
    see(place);
    if (next < 7) { // as another thread may that is given the slot
      turns.bring(next++, see);
    }
  });
  CHECK(done == Places{0, 1, 0, 1, 0, 1, 0});
}

TEST_CASE("each turn sees what those before it did, however the threads come") {
  const tests::Watchdog watchdog{"turns in order"};
  ps::detail::Sequencer turns{places};
  for (int run = 0; run < 2; ++run) {
    CAPTURE(run);
    turns.reset();
    // A ticket may come when the ticket before it in its place is done.
    std::vector<std::atomic<std::uint64_t>> laps(places);
    std::atomic<std::uint64_t> next{0};
    Places log; // without a lock: ThreadSanitizer sees a race if turns order nothing
    log.reserve(tickets);
    std::vector<std::thread> workers;
    for (unsigned worker = 0; worker < threads; ++worker) {
      workers.emplace_back([&, worker] {
        std::mt19937 random{worker};
        for (std::uint64_t ticket = next++; ticket < tickets; ticket = next++) {
          while (laps[ticket % places] != ticket / places) {
            std::this_thread::yield();
          }
          if (random() % 256 == 0) {
            std::this_thread::sleep_for(50us); // the others come before it
          }
          turns.bring(ticket, [&](std::size_t place) {
            log.push_back(place);
            ++laps[place];
          });
        }
      });
    }
    for (std::thread& worker : workers) {
      worker.join();
    }
    REQUIRE(log.size() == tickets);
    std::uint64_t wrong = 0;
    for (std::uint64_t ticket = 0; ticket < tickets; ++ticket) {
      wrong += log[ticket] != ticket % places;
    }
    CHECK(wrong == 0);
  }
}
