// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Records that threads push while a pipeline reads them.

#include "support/catch.hpp"
#include "support/outcome.hpp"
#include "support/watchdog.hpp"

#include <penstock/penstock.hpp>
#include <penstock/sources/channel.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <stop_token>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

namespace ps = penstock;
using namespace std::chrono_literals;
using ps::tests::Came;
using ps::tests::Outcome;
using ps::tests::outcome_of;
using ps::tests::Watchdog;

namespace {

// Not a power of two, so that a record cut in two shows.
struct Frame {
  std::uint32_t number;
  std::uint32_t producer;
  std::uint32_t check;
  friend bool operator==(const Frame&, const Frame&) = default;
};
Frame frame(std::uint32_t number, std::uint32_t producer = 0) {
  return {number, producer, number * 7 + producer};
}
using Frames = std::vector<Frame>;
using Box = ps::Channel<Frame>;

Frames frames(std::uint32_t first, std::uint32_t end) {
  Frames made;
  for (std::uint32_t i = first; i < end; ++i) {
    made.push_back(frame(i));
  }
  return made;
}

auto pipeline_of(const Box& box, ps::ReaderOptions options = {.depth = 4, .batch = 10}) {
  return ps::Pipeline{std::tuple{ps::Reader{box, options}}};
}
template <class P> Frames run(P& pipeline, std::size_t most = ~std::size_t{0}) {
  Frames seen;
  for (auto batch : pipeline.batches()) {
    seen.insert(seen.end(), batch.data(), batch.data() + batch.size());
    if (seen.size() >= most) {
      break;
    }
  }
  return seen;
}
// What is in the box, read without a pipeline, at most so many at a time.
Frames rest_of(const Box& box, std::size_t at_once) {
  Frames seen;
  Frames some(at_once);
  std::size_t count = 0;
  do {
    count =
        box.read(ps::Batch<Frame, ps::Pageable>{some.data(), some.size()}, ps::Patience{}).count;
    seen.insert(seen.end(), some.begin(), some.begin() + static_cast<std::ptrdiff_t>(count));
  } while (count != 0);
  return seen;
}

} // namespace

TEST_CASE("all that several threads push comes, each thread's in its order") {
  Watchdog dog{"threads"};
  for (const std::size_t room : {1U, 3U, 64U}) {
    CAPTURE(room);
    dog.progress(room);
    constexpr std::uint32_t each = 2000;
    Box box{{.room = room}};
    std::vector<std::jthread> producers;
    for (std::uint32_t p = 0; p < 3; ++p) {
      producers.emplace_back([box, p]() mutable {
        for (std::uint32_t i = 0; i < each; ++i) {
          box.push(frame(i, p));
        }
      });
    }
    std::jthread closer{[&] {
      producers.clear(); // joins
      box.close();
    }};
    auto pipeline = pipeline_of(box);
    const Frames seen = run(pipeline);
    REQUIRE(seen.size() == 3 * each);
    std::uint32_t next[3]{};
    for (const Frame& f : seen) {
      REQUIRE(f.producer < 3);
      REQUIRE(f == frame(next[f.producer]++, f.producer));
    }
    CHECK(box.dropped() == 0);
    CHECK(pipeline.report().stages[0].workers == 1);
    CHECK(pipeline.report().stages[0].note.empty());
  }
}

TEST_CASE("a full channel drops the oldest or the newest, and says how many") {
  const Watchdog dog{"drops"};
  for (const std::size_t at_once : {1U, 3U, 20U}) {
    CAPTURE(at_once);
    Box newest{{.room = 8, .when_full = ps::WhenFull::drop_newest}};
    Box oldest{{.room = 8, .when_full = ps::WhenFull::drop_oldest}};
    for (std::uint32_t i = 0; i < 20; ++i) {
      CHECK(newest.push(frame(i)) == (i < 8));
      CHECK(oldest.push(frame(i)));
    }
    CHECK((newest.dropped() == 12 && oldest.dropped() == 12));
    newest.close();
    oldest.close();
    CHECK(rest_of(newest, at_once) == frames(0, 8));
    CHECK(rest_of(oldest, at_once) == frames(12, 20));
  }
  // Some are taken, and the rest are still the oldest.
  Box box{{.room = 8, .when_full = ps::WhenFull::drop_oldest}};
  Frames some(3);
  const auto read = [&] {
    return box.read(ps::Batch<Frame, ps::Pageable>{some.data(), 3}, ps::Patience{}).count;
  };
  for (std::uint32_t i = 0; i < 11; ++i) {
    box.push(frame(i));
  }
  CHECK((read() == 3 && some == frames(3, 6)));
  for (std::uint32_t i = 11; i < 16; ++i) {
    box.push(frame(i));
  }
  CHECK(box.dropped() == 5);
  CHECK((read() == 3 && some == frames(8, 11)));
  box.close();
  CHECK(rest_of(box, 3) == frames(11, 16));
}

TEST_CASE("records dropped and records read are all that were pushed, in order") {
  const Watchdog dog{"race"};
  constexpr std::uint32_t count = 20'000;
  for (const auto when_full : {ps::WhenFull::drop_oldest, ps::WhenFull::drop_newest}) {
    Box box{{.room = 5, .when_full = when_full}};
    auto pipeline = pipeline_of(box, {.depth = 4, .batch = 7, .flush = 0ms});
    pipeline.prepare();
    std::jthread camera{[&] {
      for (std::uint32_t i = 0; i < count; ++i) {
        box.push(frame(i));
      }
      box.close();
    }};
    const Frames seen = run(pipeline);
    CHECK(seen.size() + box.dropped() == count);
    CHECK(std::ranges::is_sorted(seen, std::ranges::less_equal{}, &Frame::number));
    CHECK(std::ranges::all_of(seen, [](const Frame& f) { return f == frame(f.number); }));
    if (when_full == ps::WhenFull::drop_oldest) {
      CHECK(seen.back().number == count - 1);
    }
    const std::string note = pipeline.report().stages[0].note;
    CHECK((box.dropped() == 0 ||
           note.find("the Channel has dropped " + std::to_string(box.dropped()) +
                     " records so far, since its room for 5 was full") != std::string::npos));
  }
}

TEST_CASE("who waits for room goes on when there is some, at a stop and at the end") {
  const Watchdog dog{"block"};
  Box box{{.room = 2}};
  CHECK((box.push(frame(0)) && box.push(frame(1))));
  bool pushed[3]{true, true, false};
  std::stop_source stop;
  std::jthread stopped{[&] { pushed[0] = box.push(frame(90), stop.get_token()); }};
  std::this_thread::sleep_for(5ms);
  stop.request_stop();
  stopped.join();
  CHECK_FALSE(pushed[0]);
  std::jthread waits{[&] { pushed[2] = box.push(frame(2)); }};
  auto pipeline = pipeline_of(box, {.depth = 2, .batch = 1});
  CHECK(run(pipeline, 3) == frames(0, 3));
  waits.join();
  CHECK(pushed[2]);

  Box full{{.room = 1}};
  full.push(frame(0));
  std::jthread closed{[&] { pushed[1] = full.push(frame(1)); }};
  std::this_thread::sleep_for(5ms);
  full.close();
  closed.join();
  CHECK_FALSE(pushed[1]);
  CHECK_FALSE(full.push(frame(2)));
  CHECK(full.dropped() == 0);
  CHECK(rest_of(full, 4) == frames(0, 1));
}

TEST_CASE("a run is left while nothing comes, and the next goes on") {
  Watchdog dog{"left"};
  Box box;
  auto pipeline = pipeline_of(box);
  for (std::uint32_t round = 0; round < 20; ++round) {
    dog.progress(round);
    for (std::uint32_t i = 0; i < 10; ++i) {
      box.push(frame(10 * round + i));
    }
    CHECK(run(pipeline, 10) == frames(10 * round, 10 * round + 10));
    CHECK(pipeline.report().stopped);
  }
  box.close();
  CHECK(run(pipeline).empty());
  CHECK_FALSE(pipeline.report().stopped);
}

TEST_CASE("waiting for a record is starved, and a record is handed on when it is due") {
  const Watchdog dog{"starved"};
  Box box;
  auto pipeline = pipeline_of(box, {.depth = 4, .batch = 100, .flush = 1ms});
  pipeline.prepare();
  std::jthread slow{[&] {
    for (std::uint32_t i = 0; i < 5; ++i) {
      std::this_thread::sleep_for(20ms);
      box.push(frame(i));
    }
    box.close();
  }};
  std::size_t batches = 0;
  for (auto batch : pipeline.batches()) {
    batches += batch.size() == 0 ? 0U : 1U;
  }
  const ps::Report& report = pipeline.report();
  CHECK(batches >= 3);
  CHECK(report.records == 5);
  CHECK(report.stages[0].starved_s >= 0.08);
  CHECK(report.stages[0].busy_s < report.stages[0].starved_s / 2);
}

TEST_CASE("no room, two readers and two epochs are refused") {
  const Watchdog dog{"refused"};
  const Outcome none = outcome_of([] { Box{{.room = 0}}; });
  CHECK(none.came == Came::error);
  CHECK(none.says("Channel: .room is 0: give it at least 1"));
  Box box;
  // With nothing to read, the first run inside waits, and the second fails.
  Outcome outcomes[2];
  std::atomic<int> failed{0};
  {
    std::vector<std::jthread> runs;
    for (Outcome& outcome : outcomes) {
      runs.emplace_back([&] {
        auto pipeline = pipeline_of(box);
        outcome = outcome_of([&] { run(pipeline); });
        failed += outcome.came == Came::nothing ? 0 : 1;
      });
    }
    while (failed == 0) {
      std::this_thread::sleep_for(1ms);
    }
    box.close();
  }
  CHECK(failed == 1);
  const Outcome& second = outcomes[outcomes[0].came == Came::nothing ? 1 : 0];
  CHECK(second.came == Came::stage_error);
  CHECK(second.says("another run reads this Channel now: give each pipeline a Channel of its own"));
  auto twice = pipeline_of(box, {.epochs = 2});
  CHECK(outcome_of([&] { twice.prepare(); }).says("1 where the source's size is unknown"));
}
