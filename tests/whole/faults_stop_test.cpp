// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Whole pipelines that are stopped, or destroyed, in every state: it takes a bounded time, nothing
// is left over, and after a stop the next run delivers all.

#include "suite/through.hpp"
#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/outcome.hpp"
#include "support/sanitizer.hpp"
#include "support/watchdog.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <optional>
#include <random>
#include <stop_token>
#include <string>
#include <thread>

using namespace suite;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

namespace {

// One record a slot and batch.
struct Large {
  std::byte bytes[524'289];
};
using OnDevice = ps::Batch<const Large, ps::Device>;
using OnHost = ps::Batch<const Large, ps::Pageable>;

// A busy machine wakes threads late; the watchdog finds hangs.
constexpr auto bounded = 5s;
// More records than any run reads to the end.
constexpr std::uint64_t endless = std::uint64_t{1} << 40;
constexpr std::uint64_t few = 12;

double ms(Clock::duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

// What a pipeline's callables do in the next run.
struct Behaviour {
  std::atomic<bool> source_waits{false};   // until released, from record 1 on
  std::atomic<bool> consumer_waits{false}; // until released
  std::atomic<bool> throws{false};
  std::atomic<bool> traps{false};
  std::atomic<std::uint64_t> count{0}; // of the source's records
  std::atomic<std::uint64_t> read{0};  // records begun
  std::atomic<std::uint64_t> used{0};
  std::atomic<bool> right{true};

  std::size_t fill(std::span<Large> out, std::uint64_t first) {
    if (first >= count) {
      return 0;
    }
    ++read;
    while (first != 0 && source_waits) {
      std::this_thread::sleep_for(50us);
    }
    std::memset(out[0].bytes, static_cast<int>(first % 251), sizeof out[0].bytes);
    return 1;
  }
  void use(const Large& large, std::uint64_t index) {
    right = right && large.bytes[0] == static_cast<std::byte>(index % 251) &&
            large.bytes[sizeof large.bytes - 1] == static_cast<std::byte>(index % 251);
    ++used;
  }
  void before_use() {
    if (throws) {
      throw std::runtime_error{"boom"};
    }
    while (consumer_waits) {
      std::this_thread::sleep_for(50us);
    }
  }
  void release() { source_waits = consumer_waits = false; }
};

auto reader(Behaviour& b) {
  return ps::Reader{ps::generate<Large>([&b](std::span<Large> out, std::uint64_t first) {
                      return b.fill(out, first);
                    }),
                    {.workers = 2, .depth = 3}};
}
auto to_device(ps::HostDevice& device, Behaviour& b) {
  return reader(b) | ps::PinnedStager{{.workers = 2, .depth = 3}} |
         ps::AsyncCopier{device, {.batch = 1}} |
         ps::Consumer{[&b](OnDevice batch, ps::HostStream& stream) {
           b.before_use();
           if (b.traps) {
             stream.enqueue([] { throw std::runtime_error{"a trap"}; });
           }
           stream.enqueue([&b, batch] { b.use(batch.data()[0], batch.index()); });
         }};
}
auto to_host(ps::HostDevice&, Behaviour& b) {
  return reader(b) | ps::Consumer{[&b](OnHost batch) {
                                    b.before_use();
                                    b.use(batch.data()[0], batch.index());
                                  },
                                  {.workers = 2}};
}

auto both_ways(ps::HostDevice& device, Behaviour& b) {
  return reader(b) | ps::PinnedStager{{.workers = 2, .depth = 3}} |
         ps::AsyncCopier{device, {.batch = 1}} |
         ps::Kernel{[](OnDevice in, ps::Batch<Large, ps::Device> out, ps::HostStream& stream) {
                      stream.enqueue([in, out] { out.data()[0] = in.data()[0]; });
                    },
                    {.streams = 2}} |
         ps::Kernel{[&b](ps::Batch<Large, ps::Device> batch, ps::HostStream& stream) {
           stream.enqueue([&b, batch] {
             b.right =
                 b.right && batch.data()[0].bytes[7] == static_cast<std::byte>(batch.index() % 251);
           });
         }} |
         ps::AsyncCopier{ps::to_host} |
         ps::Consumer{[&b](ps::Batch<const Large, ps::Pinned> batch) {
                        b.before_use();
                        b.use(batch.data()[0], batch.index());
                      },
                      {.workers = 2}};
}

// Returns when nothing moves any more, as far as can be seen from outside.
void await_rest(const Behaviour& b) {
  for (std::uint64_t before = ~std::uint64_t{0}; before != b.read + b.used;) {
    before = b.read + b.used;
    std::this_thread::sleep_for(10ms);
  }
}

// Runs the pipeline, stops it by `stop` when `ready` returns, and lets all waiting callables go on;
// returns the time from the stop to run()'s return.
template <class P, class Ready>
Clock::duration stop_when(P& pipeline, Behaviour& b, bool by_token, Ready ready) {
  std::stop_source source;
  std::atomic<Clock::time_point> stopped{};
  std::thread stopper{[&] {
    while (b.read == 0) { // it runs
      std::this_thread::yield();
    }
    ready();
    stopped = Clock::now();
    by_token ? void(source.request_stop()) : pipeline.stop();
    b.release();
  }};
  pipeline.run(source.get_token());
  const Clock::time_point returned = Clock::now();
  stopper.join();
  return returned - stopped.load();
}

struct State {
  const char* name;
  bool source_waits;
  bool consumer_waits;
  bool rests; // wait until nothing moves
};
constexpr State states[] = {
    {"full", false, true, true},
    {"empty and parked", true, false, true},
    {"in flow", false, false, false},
};

template <class Make> void stop_in_every_state(const char* chain, Make make) {
  tests::Watchdog watchdog{chain};
  for (const State& state : states) {
    Clock::duration worst{};
    for (std::uint64_t round = 0; round < 8; ++round) {
      CAPTURE(state.name, round);
      watchdog.progress(round);
      ps::HostDevice device{{.late_seed = round % 4, .copy_ns_per_kib = round % 2 * 500}};
      Behaviour b;
      auto pipeline = make(device, b);
      b.count = endless;
      b.source_waits = state.source_waits;
      b.consumer_waits = state.consumer_waits;
      worst = std::max(worst, stop_when(pipeline, b, round < 4, [&] {
                         if (state.rests) {
                           await_rest(b);
                         } else {
                           std::this_thread::sleep_for(1ms * round);
                         }
                       }));
      const ps::Report& report = pipeline.report();
      CHECK(report.stopped);
      CHECK(report.records == b.used);
      CHECK(report.dropped == report.stages[0].records - report.records);
      CHECK(b.right);
    }
    std::printf("%s, %s: at most %.2f ms from stop to return\n", chain, state.name, ms(worst));
    CHECK(worst < bounded);
  }
}

// Stops runs at random times, and after each fourth lets one run to its end.
template <class Make> void stop_at_random_times(const char* chain, Make make) {
  tests::Watchdog watchdog{chain};
  ps::HostDevice device{{.late_seed = 5}};
  Behaviour b;
  std::mt19937 random{11};
  Clock::duration worst{};
  {
    auto pipeline = make(device, b);
    pipeline.prepare();
    for (std::uint64_t round = 0; round < 200; ++round) {
      CAPTURE(round);
      watchdog.progress(round);
      b.read = b.used = 0;
      b.count = endless;
      const std::chrono::microseconds after{random() % 4000};
      worst = std::max(worst, stop_when(pipeline, b, round % 2 == 0,
                                        [after] { std::this_thread::sleep_for(after); }));
      CHECK(pipeline.report().records == b.used);
      CHECK(pipeline.report().stopped);
      if (round % 4 == 3) {
        b.used = 0;
        b.count = few;
        CHECK(pipeline.run().records == few);
        CHECK(b.used == few);
        CHECK_FALSE(pipeline.report().stopped);
      }
    }
  }
  CHECK(b.right);
  ps::tests::check_nothing_lives(device);
  std::printf("%s: 200 stops at random times, at most %.2f ms to return\n", chain, ms(worst));
  CHECK(worst < bounded);
}

template <class Make, class Before>
Clock::duration time_of_death(Make make, Before before) {
  ps::HostDevice device{{.late_seed = 3}};
  Behaviour b;
  b.count = few;
  std::optional pipeline{make(device, b)};
  before(*pipeline, b, device);
  const Clock::time_point start = Clock::now();
  pipeline.reset();
  const Clock::duration time = Clock::now() - start;
  ps::tests::check_nothing_lives(device);
  CHECK(b.right);
  return time;
}

template <class Make> void die_in_every_state(const char* chain, Make make) {
  tests::Watchdog watchdog{chain};
  const auto check = [&](const char* state, auto before) {
    CAPTURE(state);
    Clock::duration worst{};
    for (std::uint64_t round = 0; round < 10; ++round) {
      watchdog.progress(round);
      worst = std::max(worst, time_of_death(make, before));
    }
    std::printf("%s, %s: at most %.2f ms to die\n", chain, state, ms(worst));
    CHECK(worst < bounded);
  };
  check("never prepared", [](auto&, Behaviour&, auto&) {});
  check("prepared and never run", [](auto& p, Behaviour&, auto&) { p.prepare(); });
  check("stopped before a run", [](auto& p, Behaviour&, auto&) {
    p.stop();
    p.prepare();
    p.stop();
  });
  check("after a run", [](auto& p, Behaviour& b, auto&) {
    p.run();
    CHECK(b.used == few);
  });
  check("after an error", [](auto& p, Behaviour& b, auto&) {
    b.throws = true;
    CHECK_THROWS_AS(p.run(), ps::StageError);
  });
  check("after a stop", [](auto& p, Behaviour& b, auto&) {
    b.count = endless;
    stop_when(p, b, true, [] { std::this_thread::sleep_for(1ms); });
  });
}

} // namespace

TEST_CASE("a stop ends a run to the device in every state, in bounded time") {
  stop_in_every_state("to the device", [](auto&... args) { return to_device(args...); });
}

TEST_CASE("a stop ends a run to the host in every state, in bounded time") {
  stop_in_every_state("to the host", [](auto&... args) { return to_host(args...); });
}

TEST_CASE("stops at random times leave pipelines that run again") {
  stop_at_random_times("to the device", [](auto&... args) { return to_device(args...); });
  stop_at_random_times("to the host", [](auto&... args) { return to_host(args...); });
  stop_at_random_times("both ways", [](auto&... args) { return both_ways(args...); });
}

TEST_CASE("a pipeline that does not run is not stopped") {
  ps::HostDevice device;
  Behaviour b;
  b.count = few;
  auto pipeline = to_device(device, b);
  pipeline.stop();
  pipeline.prepare();
  pipeline.stop();
  CHECK(pipeline.run().records == few);
  CHECK_FALSE(pipeline.report().stopped);
  pipeline.stop();
  CHECK(pipeline.run().records == few);
  CHECK_FALSE(pipeline.report().stopped);
}

TEST_CASE("one stop as a run begins, or as it ends, leaves none that hangs") {
  // A stop must close all rings of one run, or none: a second stop, which would help, never comes.
  tests::Watchdog watchdog{"a stop as a run begins"};
  ps::HostDevice device;
  Behaviour b;
  b.count = few;
  auto pipeline = to_device(device, b);
  constexpr std::uint64_t runs = tests::under_tsan ? 300 : 3000;
  std::atomic<std::uint64_t> begun{0};
  std::atomic<std::uint64_t> asked{0};
  std::thread stopper{[&] {
    std::mt19937 random{3};
    for (std::uint64_t run = 1; run <= runs; ++run) {
      while (begun < run) {
        std::this_thread::yield();
      }
      for (auto wait = random() % (run % 2 == 0 ? 100 : 3000); wait != 0; --wait) {
        ps::SpinThenFutex::pause();
      }
      pipeline.stop(); // also while the first run prepares
      asked = run;
    }
  }};
  std::uint64_t stopped = 0;
  for (std::uint64_t run = 1; run <= runs; ++run) {
    watchdog.progress(run);
    b.used = 0;
    begun = run;
    const ps::Report& report = pipeline.run();
    CHECK(report.records == b.used);
    CHECK((report.stopped || b.used == few));
    stopped += report.stopped ? 1 : 0;
    while (asked < run) {
      std::this_thread::yield();
    }
  }
  stopper.join();
  std::printf("%llu of %llu stops ended a run\n", static_cast<unsigned long long>(stopped),
              static_cast<unsigned long long>(runs));
  CHECK(stopped > 0);
  CHECK(pipeline.run().records == few);
  CHECK(b.right);
}

TEST_CASE("a pipeline to the device dies in every state, in bounded time, and leaves nothing") {
  const auto make = [](auto&... args) { return to_device(args...); };
  die_in_every_state("to the device", make);
  const Clock::duration unprepared = time_of_death(make, [](auto& p, Behaviour&, auto& device) {
    device.fail_call(5);
    CHECK_THROWS_AS(p.prepare(), ps::DeviceError);
  });
  const Clock::duration trapped = time_of_death(make, [](auto& p, Behaviour& b, auto&) {
    b.traps = true;
    CHECK_THROWS_AS(p.run(), ps::StageError);
  });
  std::printf("to the device: %.2f ms to die after a failed prepare(), %.2f ms after a trap\n",
              ms(unprepared), ms(trapped));
  CHECK(std::max(unprepared, trapped) < bounded);
}

TEST_CASE("a pipeline to the host dies in every state, in bounded time, and leaves nothing") {
  die_in_every_state("to the host", [](auto&... args) { return to_host(args...); });
}
