// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// One chain that feeds several devices, on every kind of device. To be included after TestDevice
// and make_devices(n), which returns a deque of n of them, are there.

#include "suite/kept.hpp"
#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/outcome.hpp"
#include "support/watchdog.hpp"

#include <penstock/penstock.hpp>
#include <penstock/pipeline/fan_out.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <numeric>
#include <optional>
#include <span>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace suite {

using D = TestDevice;
using Number = std::uint64_t;
using FanOut = ps::FanOut<Number, D>;

constexpr std::size_t number_count = 10'007;
constexpr std::size_t a_batch = 100;

// Each number is its place; the first that read() is asked for may be refused.
inline auto numbers(std::size_t count = number_count, std::uint64_t refused = ps::unknown_size) {
  return ps::generate<Number>(count, [refused](std::span<Number> out, std::uint64_t first) {
    if (first <= refused && refused < first + out.size()) {
      throw ps::SourceError{"penstock: bad sector", "disk", 42, refused};
    }
    std::iota(out.begin(), out.end(), first);
  });
}
inline auto chain(std::uint64_t epochs = 1, std::uint64_t refused = ps::unknown_size) {
  return ps::Reader{numbers(number_count, refused),
                    ps::to_pinned,
                    {.workers = 2, .depth = 6, .epochs = epochs, .batch = 64}};
}

/// One device's loop, and what it was given.
struct Side {
  explicit Side(D& on) : device{on}, stream{on.stream()}, kept{on, 1 << 20} {}

  D& device;
  D::stream_type stream;
  Keeper<Number, D> kept;
  std::exception_ptr error{};
  std::uint64_t got{};
  bool in_order{true};
};
using Sides = std::deque<Side>;

template <class Devices> Sides sides_of(Devices& devices) {
  Sides sides;
  for (auto& device : devices) {
    sides.emplace_back(ps::detail::device_at(device));
  }
  return sides;
}

/// Runs f(i, side) on a thread for each side, and keeps what it throws.
template <class F> void on_threads(Sides& sides, F f) {
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i != sides.size(); ++i) {
    threads.emplace_back([&, i] {
      Side& side = sides[i];
      const auto attached = side.device.attach();
      try {
        f(i, side);
      } catch (...) {
        side.error = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}
inline void loop(FanOut& fan, std::size_t i, Side& side) {
  side.kept.clear();
  for (auto batch : fan.on(i, side.stream)) {
    side.kept(batch, side.stream);
  }
}
inline void loops(FanOut& fan, Sides& sides) {
  on_threads(sides, [&](std::size_t i, Side& side) { loop(fan, i, side); });
}
/// Whether each device has got all numbers of so many epochs, in order, and no error.
inline void check_all(const Sides& sides, std::size_t epochs = 1) {
  std::vector<Number> expected(number_count);
  std::iota(expected.begin(), expected.end(), 0);
  for (const Side& side : sides) {
    CHECK_FALSE(side.error);
    CHECK(side.kept.out_of_turn(a_batch, number_count, epochs) == "");
    CHECK(hold(side.kept.batches, expected));
  }
}

TEST_CASE("each device gets every record once and in order, by a thread for each") {
  const tests::Watchdog watchdog{"threads"};
  for (const std::size_t count : {1, 2, 3}) {
    auto devices = make_devices(count);
    auto sides = sides_of(devices);
    FanOut fan{chain(2), devices, {.batch = a_batch}};
    CHECK(fan.size() == count);
    for (int times = 0; times < 3; ++times) {
      loops(fan, sides);
      check_all(sides, 2);
      CHECK(fan.report().records == 2 * number_count);
      CHECK(fan.report().dropped == 0);
      CHECK_FALSE(fan.report().stopped);
    }
  }
}

TEST_CASE("one thread takes a batch of each device in turn") {
  const tests::Watchdog watchdog{"in turn"};
  auto devices = make_devices(3);
  auto sides = sides_of(devices);
  FanOut fan{chain(), devices, {.batch = a_batch}};
  for (int times = 0; times < 2; ++times) {
    std::vector<ps::Batches<ps::Batch<const Number, ps::Device>>> runs;
    for (std::size_t i = 0; i != fan.size(); ++i) {
      sides[i].kept.clear();
      runs.push_back(fan.on(i, sides[i].stream));
    }
    for (bool any = true; any;) {
      any = false;
      for (std::size_t i = 0; i != fan.size(); ++i) {
        const auto attached = devices[i].attach();
        if (const auto batch = runs[i].next()) {
          sides[i].kept(batch, sides[i].stream);
          any = true;
        }
      }
    }
    check_all(sides);
  }
}

TEST_CASE("a device may be there twice, and devices may be given as pointers") {
  const tests::Watchdog watchdog{"a device twice"};
  auto devices = make_devices(1);
  std::array<D*, 2> twice{&devices.front(), &devices.front()};
  auto sides = sides_of(twice);
  FanOut fan{chain(), twice, {.batch = a_batch}};
  loops(fan, sides);
  check_all(sides);
}

TEST_CASE("no device, the number of none, and a second loop of one are refused") {
  auto none = make_devices(0);
  CHECK(tests::has(tests::caught<ps::OptionError>([&] { FanOut{chain(), none}; }),
                   "there is no device: give it at least one"));
  auto devices = make_devices(1);
  std::array<D*, 2> with_null{&devices.front(), nullptr};
  CHECK(tests::has(tests::caught<ps::OptionError>([&] { FanOut{chain(), with_null}; }),
                   "the pointer to device number 1 is null"));
  auto stream = devices.front().stream();
  FanOut fan{chain(), devices};
  CHECK(tests::has(tests::caught<ps::OptionError>([&] { (void)fan.on(1, stream); }),
                   "there is no device number 1"));
  auto first = fan.on(0, stream);
  CHECK(first.next());
  CHECK(tests::has(tests::caught<ps::Error>([&] { (void)fan.on(0, stream).next(); }),
                   "this device has a loop in the run already"));
  const auto ahead = ps::Reader{numbers(), ps::to_pinned, {.ahead = 5000}};
  CHECK(tests::has(tests::caught<ps::OptionError>([&] { FanOut{ahead, devices}; }), ".ahead"));
  const FanOut taken = std::move(fan);
  CHECK(taken.size() == 1);
  CHECK(tests::has(tests::caught<ps::Error>([&] { (void)fan.on(0, stream); }), "moved away"));
}

TEST_CASE("an error of the source ends all loops, which throw it") {
  const tests::Watchdog watchdog{"an error of the source"};
  auto devices = make_devices(2);
  auto sides = sides_of(devices);
  FanOut fan{chain(1, 5000), devices, {.batch = a_batch}};
  for (int times = 0; times < 2; ++times) {
    loops(fan, sides);
    for (const Side& side : sides) {
      REQUIRE(side.error);
      const auto out = tests::outcome_of(side.error);
      CAPTURE(out);
      CHECK(out.came == tests::Came::stage_error);
      CHECK(out.stage == "Reader");
      CHECK(out.record == 5000);
    }
    CHECK_FALSE(fan.report().error.empty());
  }
}

TEST_CASE("an exception in one device's loop ends all, and is that loop's") {
  const tests::Watchdog watchdog{"an exception in a loop"};
  auto devices = make_devices(3);
  auto sides = sides_of(devices);
  FanOut fan{chain(1000), devices, {.batch = a_batch}};
  for (int times = 0; times < 2; ++times) {
    on_threads(sides, [&](std::size_t i, Side& side) {
      side.got = 0;
      for (auto batch : fan.on(i, side.stream)) {
        side.in_order = side.in_order && batch.index() == side.got;
        side.got += batch.size();
        if (i == 1 && side.got >= 1000) {
          throw std::runtime_error{"mine"};
        }
      }
    });
    CHECK_FALSE(sides[0].error);
    CHECK_FALSE(sides[2].error);
    REQUIRE(sides[1].error);
    CHECK(tests::outcome_of(sides[1].error).text == "mine");
    CHECK(fan.report().stopped);
    for (Side& side : sides) {
      CHECK(side.in_order);
      side.error = nullptr;
    }
  }
}

TEST_CASE("a stop from any thread ends all loops without an error, and the next run has all") {
  const tests::Watchdog watchdog{"a stop"};
  auto devices = make_devices(2);
  auto sides = sides_of(devices);
  FanOut fan{chain(3), devices, {.batch = a_batch}};
  fan.stop(); // has no effect
  on_threads(sides, [&](std::size_t i, Side& side) {
    for (auto batch : fan.on(i, side.stream)) {
      side.got += batch.size();
      if (i == 0 && side.got == 500) {
        std::thread{[&] { fan.stop(); }}.join();
      }
    }
  });
  CHECK(sides[0].got < 3 * number_count);
  CHECK(fan.report().stopped);
  loops(fan, sides);
  check_all(sides, 3);
}

TEST_CASE("a loop may be left, and all be destroyed, while copies are on their way") {
  const tests::Watchdog watchdog{"early ends"};
  for (const std::size_t batches : {0, 1, 2, 7}) {
    auto devices = make_devices(2);
    auto sides = sides_of(devices);
    std::optional<FanOut> fan{std::in_place, chain(1000), devices,
                              ps::CopierOptions{.batch = a_batch}};
    auto first = fan->on(0, sides[0].stream);
    auto second = fan->on(1, sides[1].stream);
    for (std::size_t i = 0; i != batches; ++i) {
      CHECK(first.next().index() == i * a_batch);
    }
    if (batches == 7) { // and the other has taken none
      CHECK(second.next().index() == 0);
    }
    fan.reset(); // the loops keep what they need
    if (batches != 0) {
      CHECK(first.next().index() == batches * a_batch);
    }
  }
}

TEST_CASE("a loop that has come to its end does not wait for one that never begins") {
  const tests::Watchdog watchdog{"a loop alone"};
  auto devices = make_devices(2);
  auto sides = sides_of(devices);
  const auto few = ps::Reader{numbers(200), ps::to_pinned, {.depth = 6, .batch = 64}};
  FanOut fan{few, devices, {.batch = a_batch}};
  std::uint64_t got = 0;
  for (auto batch : fan.on(0, sides[0].stream)) {
    got += batch.size();
  }
  CHECK(got == 200);
}

TEST_CASE(
    "a device without a loop holds up the others only when its ring and the pinned one are full") {
  const tests::Watchdog watchdog{"a late loop"};
  constexpr std::size_t many = 80'000'000 / sizeof(Number);
  constexpr std::size_t slot = 65'536;
  constexpr std::size_t in_rings = (std::size_t{36} << 20) / sizeof(Number) + 6 * slot;
  auto devices = make_devices(2);
  auto sides = sides_of(devices);
  FanOut fan{ps::Reader{numbers(many), ps::to_pinned, {.depth = 6, .batch = slot}},
             devices,
             {.batch = slot}};
  std::atomic<std::uint64_t> got{0};
  std::thread first{[&] {
    const auto attached = devices[0].attach();
    for (auto batch : fan.on(0, sides[0].stream)) {
      got += batch.size();
    }
  }};
  while (got < in_rings - slot) { // a slot may be on its way back
    std::this_thread::yield();
  }
  std::this_thread::sleep_for(std::chrono::milliseconds{50});
  CHECK(got <= in_rings + slot);
  std::uint64_t late = 0;
  for (auto batch : fan.on(1, sides[1].stream)) {
    late += batch.size();
  }
  first.join();
  CHECK(late == many);
  CHECK(got == many);
}

TEST_CASE("all devices have the same order, positions and epochs") {
  const tests::Watchdog watchdog{"orders"};
  auto devices = make_devices(2);
  auto sides = sides_of(devices);
  const auto read =
      ps::Reader{numbers(),
                 ps::to_pinned,
                 {.epochs = 2, .order = {.shuffle = 7, .ranks = {.rank = 1, .world = 3}}}};
  FanOut fan{read, devices, {.batch = a_batch}};
  auto first = fan.on(0, sides[0].stream);
  auto second = fan.on(1, sides[1].stream);
  std::uint64_t records = 0;
  ps::Position half;
  while (auto one = first.next()) {
    auto other = second.next();
    REQUIRE(other);
    REQUIRE(one.size() == other.size());
    CHECK(one.epoch() == other.epoch());
    CHECK(one.position() == other.position());
    for (const std::size_t i : {std::size_t{0}, one.size() - 1}) {
      CHECK(one.visit(i).record == other.visit(i).record);
    }
    records += one.size();
    half = one.epoch() == 0 ? one.position() : half;
  }
  CHECK_FALSE(second.next());
  CHECK(records == 2 * (number_count / 3));

  // A run from a position has the rest.
  first = fan.on(0, sides[0].stream, {.from = half});
  second = fan.on(1, sides[1].stream, {.from = half});
  std::uint64_t rest = 0;
  while (auto one = first.next()) {
    rest += one.size();
    CHECK(second.next().size() == one.size());
  }
  CHECK_FALSE(second.next());
  CHECK(rest == number_count / 3);
}

TEST_CASE("a chain may have Decoders that leave records out, and a stager") {
  const tests::Watchdog watchdog{"a longer chain"};
  auto devices = make_devices(2);
  auto sides = sides_of(devices);
  FanOut fan{ps::Reader{numbers(), {.batch = 64}} |
                 ps::Decoder{[](const Number& in, Number& out) {
                               if (in % 10 == 3) {
                                 throw std::runtime_error{"a bad record"};
                               }
                               out = in;
                             },
                             {.workers = 2, .on_error = {.skips = ps::unknown_size}}} |
                 ps::PinnedStager{},
             devices,
             {.batch = a_batch}};
  loops(fan, sides);
  std::vector<Number> expected;
  for (Number n = 0; n != number_count; ++n) {
    if (n % 10 != 3) {
      expected.push_back(n);
    }
  }
  for (const Side& side : sides) {
    CHECK_FALSE(side.error);
    std::vector<Number> got;
    for (const auto& batch : side.kept.batches) {
      CHECK(batch.index() == got.size());
      CHECK(batch.source_index() == expected[got.size()]);
      got.insert(got.end(), batch.data(), batch.data() + batch.size());
    }
    CHECK(got == expected);
  }
  CHECK(fan.report().skipped == number_count - expected.size());
}

} // namespace suite
