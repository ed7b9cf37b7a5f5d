// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The list that tells from which place in an order an output comes, alone.

#include "support/catch.hpp"

#include <penstock/order/detail/origins.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>

using penstock::detail::OutputLog;

namespace {

/// Place p makes p % 7 outputs.
std::uint64_t made_before(std::uint64_t place) {
  const std::uint64_t rest = place % 7;
  return place / 7 * 21 + rest * (rest - 1) / 2;
}
void note(OutputLog<>& log, std::uint64_t place) {
  log.note(made_before(place), place);
}
/// Whether what it tells is true: the outputs made before the place and those after are as many.
bool right(const OutputLog<>& log, std::uint64_t outputs) {
  const auto origin = log.origin(outputs);
  return made_before(origin.place) + origin.made == outputs;
}

} // namespace

TEST_CASE("a place is told by the last one noted before it") {
  OutputLog<> log;
  CHECK(log.origin(0).place == 0);
  CHECK(log.origin(5).made == 5);
  log.note(10, 3);
  CHECK(log.origin(9).place == 0);
  CHECK(log.origin(9).made == 9);
  CHECK(log.origin(10).place == 3);
  CHECK(log.origin(10).made == 0);
  CHECK(log.origin(12).made == 2);
  log.note(10, 8); // from 3 to before 8 nothing was made
  CHECK(log.origin(10).place == 8);
  log.reset(4);
  CHECK(log.origin(0).place == 0);
  CHECK(log.origin(0).made == 4); // an earlier run has given them
  CHECK(log.origin(6).made == 6);
}

TEST_CASE("its memory is fixed, and what it tells stays true") {
  OutputLog<> log{64};
  constexpr std::uint64_t places = 10'000;
  for (std::uint64_t place = 0; place != places; ++place) {
    note(log, place);
    if (place % 97 == 0) {
      for (std::uint64_t outputs = 0; outputs < made_before(place); outputs += 1 + outputs / 50) {
        REQUIRE(right(log, outputs));
      }
    }
  }
  // Of what was just made it still knows all.
  for (std::uint64_t place = places - 20; place != places; ++place) {
    if (place % 7 != 0) {
      CHECK(log.origin(made_before(place)).place == place);
    }
  }
}

TEST_CASE("any thread may ask while one notes") {
  OutputLog<> log{64};
  std::atomic<std::uint64_t> noted{0};
  constexpr std::uint64_t places = 200'000;
  std::thread other{[&] {
    for (std::uint64_t place = 0; place != places; ++place) {
      note(log, place);
      noted.store(place, std::memory_order_relaxed);
    }
  }};
  std::uint64_t wrong = 0;
  for (std::uint64_t place = 0; place + 1 < places;) {
    place = noted.load(std::memory_order_relaxed);
    for (std::uint64_t back = 0; back < 100 && back <= place; back += 9) {
      wrong += right(log, made_before(place - back)) ? 0 : 1;
    }
  }
  other.join();
  CHECK(wrong == 0);
}
