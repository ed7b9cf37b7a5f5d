// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// What a shared lease does, one thing at a time. whole/hand_over_test.cpp mixes all of it.

#include "support/catch.hpp"
#include "support/outcome.hpp"
#include "support/watchdog.hpp"

#include <penstock/penstock.hpp>
#include <penstock/pipeline/fan_out.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <numeric>
#include <optional>
#include <span>
#include <stop_token>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

namespace ps = penstock;
namespace tests = penstock::tests;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t batch_size = 10;
constexpr std::size_t batches = 100;
constexpr std::size_t depth = 4;

auto numbers() {
  return ps::generate<std::uint64_t>(batches * batch_size,
                                     [](std::span<std::uint64_t> out, std::uint64_t first) {
                                       std::iota(out.begin(), out.end(), first);
                                     });
}
auto on_host() {
  return ps::Reader{numbers(), {.workers = 1, .depth = depth, .batch = batch_size}} |
         ps::Decoder{[](const std::uint64_t& in, std::uint64_t& out) { out = in; }, {.depth = 4}};
}
auto on_device(ps::HostDevice& device) {
  return ps::Reader{numbers(), {.workers = 1, .depth = depth, .batch = batch_size}} |
         ps::PinnedStager{} | ps::AsyncCopier{device, {.batch = batch_size, .depth = depth}};
}

// Calls f with a pipeline of each kind, in an optional that f may empty, and with what begins a
// run.
template <class F> void for_each_end(F f) {
  ps::HostDevice device;
  {
    auto stream = device.stream();
    std::optional to_device{on_device(device)};
    f(to_device, [&](ps::RunOptions options) { return to_device->on(stream, options); });
  }
  CHECK(device.counts().live_allocations == 0);
  std::optional to_host{on_host()};
  f(to_host, [&](ps::RunOptions options) { return to_host->batches(options); });
}
template <class Lease> void drop_elsewhere(Lease lease) {
  std::thread{[lease = std::move(lease)]() mutable { lease.release(); }}.join();
}

} // namespace

TEST_CASE("a shared lease goes back on any thread, with its last copy") {
  const tests::Watchdog watchdog{"shared leases"};
  for_each_end([](auto&, auto begin) {
    for (int times = 0; times < 2; ++times) {
      std::size_t records = 0;
      auto run = begin({});
      while (auto batch = run.next()) {
        CHECK(batch.index() == records);
        records += batch.size();
        auto one = batch.share();
        CHECK_FALSE(batch);
        CHECK(one);
        CHECK(one.index() + one.size() == records);
        CHECK(one.epoch() == 0);
        auto other = one;
        auto moved = std::move(one);
        CHECK_FALSE(one);
        drop_elsewhere(std::move(moved));
        CHECK(other);
        drop_elsewhere(std::move(other));
      }
      CHECK(records == batches * batch_size);
    }
  });
}

TEST_CASE("copies are assigned over like any other, and an empty one is no batch") {
  const tests::Watchdog watchdog{"assigned shared leases"};
  for_each_end([](auto&, auto begin) {
    auto run = begin({.lease_wait = 0ms});
    decltype(run.next().share()) kept;
    CHECK_FALSE(kept);
    CHECK(tests::outcome_of([&] { kept.used_on(0); }).says("a shared lease that is empty"));
    std::size_t got = 0;
    while (auto batch = run.next()) {
      kept = batch.share(); // the one before goes back
      kept = std::as_const(kept);
      CHECK(kept.index() == got * batch_size);
      ++got;
    }
    CHECK(got == batches);
  });
}

TEST_CASE("a negative wait for shared leases is none") {
  const tests::Watchdog watchdog{"a negative wait for shared leases"};
  for_each_end([](auto&, auto begin) {
    for (const auto wait : {-1ms, std::chrono::milliseconds::min()}) {
      std::vector<decltype(begin({}).next().share())> all;
      const auto out = tests::outcome_of([&] {
        auto run = begin({.lease_wait = wait});
        while (auto batch = run.next()) {
          all.push_back(batch.share());
        }
      });
      CHECK(out.says("held"));
      CHECK(all.size() == depth);
    }
  });
}

TEST_CASE("a step waits for shared leases, and then throws what it throws of others") {
  const tests::Watchdog watchdog{"a step that waits for shared leases"};
  for_each_end([](auto&, auto begin) {
    std::vector<std::thread> keepers;
    std::size_t records = 0;
    {
      auto run = begin({});
      while (auto batch = run.next()) {
        records += batch.size();
        if (batch.index() < 12 * batch_size) {
          keepers.emplace_back([kept = batch.share()]() mutable {
            std::this_thread::sleep_for(2ms);
            kept.release();
          });
        }
      }
    }
    for (std::thread& keeper : keepers) {
      keeper.join();
    }
    CHECK(records == batches * batch_size);

    std::vector<decltype(begin({}).next().share())> all;
    const auto out = tests::outcome_of([&] {
      auto run = begin({.lease_wait = 20ms});
      while (auto batch = run.next()) {
        all.push_back(batch.share());
      }
    });
    CAPTURE(out);
    CHECK(out.came == tests::Came::stage_error);
    CHECK(out.says("held"));
    CHECK(out.says("give the stage before the loop more depth"));
    CHECK(all.size() == depth);
    const auto next = tests::outcome_of([&] { static_cast<void>(begin({}).next()); });
    CHECK(next.says("leases of an earlier loop are still held, 4 in all"));
    std::thread late{[&] {
      std::this_thread::sleep_for(5ms);
      all.clear();
    }};
    // The patience is that of the run which lent them.
    while (tests::outcome_of([&] { CHECK(begin({}).next().index() == 0); }).says("still held")) {
    }
    late.join();
  });
}

TEST_CASE("a step that waits for a shared lease ends with the run, as a stop says") {
  const tests::Watchdog watchdog{"a stop while a step waits"};
  for_each_end([](auto&, auto begin) {
    std::stop_source stop;
    std::vector<decltype(begin({}).next().share())> all;
    std::thread stopper;
    auto run = begin({.stop = stop.get_token(), .lease_wait = 1h});
    const auto out = tests::outcome_of([&] {
      while (auto batch = run.next()) {
        all.push_back(batch.share());
        if (all.size() == depth) {
          stopper = std::thread{[&] {
            std::this_thread::sleep_for(5ms);
            stop.request_stop();
          }};
        }
      }
    });
    stopper.join();
    CAPTURE(out);
    CHECK(out.came == tests::Came::nothing);
    CHECK(all.size() == depth);
  });
}

TEST_CASE("a lease that nobody shares is no reason to wait for a run's begin") {
  const tests::Watchdog watchdog{"a plain lease and a shared one"};
  for_each_end([](auto&, auto begin) {
    auto run = begin({.lease_wait = 1h});
    auto plain = run.next();
    const auto shared = run.next().share();
    run = {};
    const auto out = tests::outcome_of([&] { static_cast<void>(begin({}).next()); });
    CHECK(out.says("leases of an earlier loop are still held, 2 in all"));
  });
}

TEST_CASE("share() and used_on() say so where they are not allowed") {
  const tests::Watchdog watchdog{"share() where it may not be called"};
  ps::HostDevice device;
  auto stream = device.stream();
  auto second = device.stream();
  auto third = device.stream();
  auto pipeline = on_device(device);
  auto run = pipeline.on(stream);
  auto batch = run.next();
  std::thread{[&] {
    const auto out = tests::outcome_of([&] { static_cast<void>(batch.share()); });
    CHECK(out.says("share() was called on another thread than the loop's"));
  }}.join();
  CHECK(batch);
  auto shared = batch.share();
  CHECK(tests::outcome_of([&] {
          static_cast<void>(batch.share());
        }).says("on a lease that has been released"));
  shared.used_on(second);
  CHECK(tests::outcome_of([&] { shared.used_on(third); }).says("a third stream"));
  std::thread{[&] {
    CHECK(tests::outcome_of([&] { shared.used_on(second); }).says("used_on() was called on"));
  }}.join();
}

TEST_CASE("each loop of a FanOut gets its own shared leases back") {
  const tests::Watchdog watchdog{"shared leases of several devices"};
  std::deque<ps::HostDevice> devices(2);
  auto one = devices[0].stream();
  auto other = devices[1].stream();
  ps::FanOut records{ps::Reader{numbers(), ps::to_pinned, {.workers = 1, .batch = batch_size}},
                     devices,
                     {.batch = batch_size, .depth = depth}};
  decltype(records.on(0, one).next().share()) last;
  std::vector<std::thread> late;
  for (int times = 0; times < 2; ++times) {
    auto first = records.on(0, one);
    auto second = records.on(1, other);
    std::size_t got = 0;
    for (auto batch = first.next(); batch; batch = first.next()) {
      drop_elsewhere(batch.share());
      auto same = second.next();
      CHECK(same.index() == got * batch_size);
      last = same.share();
      ++got;
    }
    CHECK(got == batches);
    CHECK_FALSE(second.next());
    // Late, while the next run's first loop begins it for both.
    late.emplace_back([kept = std::move(last)]() mutable {
      std::this_thread::sleep_for(2ms);
      kept.release();
    });
  }
  for (std::thread& thread : late) {
    thread.join();
  }
}

TEST_CASE("the loop's fence, recorded late, covers the work that was enqueued before") {
  const tests::Watchdog watchdog{"late fences"};
  ps::HostDevice device{{.late_seed = 7}};
  auto stream = device.stream();
  auto second = device.stream();
  auto pipeline = on_device(device);
  std::uint64_t sum = 0;
  std::uint64_t other_sum = 0;
  for (auto batch : pipeline.on(stream)) {
    auto shared = batch.share();
    auto event = device.event();
    device.record(event, stream);
    device.wait(second, event);
    second.enqueue([&other_sum, p = shared.data(), n = shared.size()] {
      std::this_thread::sleep_for(20us);
      other_sum = std::accumulate(p, p + n, other_sum);
    });
    shared.used_on(second);
    std::thread dropping{[&] { shared.release(); }};
    dropping.join();
    // Enqueued after the release, and before the next step: covered too.
    stream.enqueue([&sum, p = batch.data(), n = batch.size()] {
      std::this_thread::sleep_for(20us);
      sum = std::accumulate(p, p + n, sum);
    });
    second.sync(); // the event dies
  }
  constexpr std::uint64_t all = batches * batch_size;
  CHECK(sum == all * (all - 1) / 2);
  CHECK(other_sum == sum);
}

TEST_CASE("what is shared outlives the run and the pipeline") {
  const tests::Watchdog watchdog{"shared leases past the pipeline"};
  for_each_end([](auto& pipeline, auto begin) {
    auto run = begin({});
    auto first = run.next().share();
    auto second = run.next().share();
    run = {};
    drop_elsewhere(std::move(first));
    if constexpr (!std::is_same_v<typename decltype(second)::space, ps::Device>) {
      CHECK(second.data()[0] == batch_size);
    }
    pipeline.reset();
    CHECK(second.index() == batch_size);
    if constexpr (!std::is_same_v<typename decltype(second)::space, ps::Device>) {
      CHECK(second.data()[batch_size - 1] == 2 * batch_size - 1);
    }
    drop_elsewhere(std::move(second));
  });
}

TEST_CASE("a shared lease dies in the middle of a capture, and harms nothing") {
  const tests::Watchdog watchdog{"a shared lease in a capture"};
  ps::HostDevice device;
  auto stream = device.stream();
  auto pipeline = on_device(device);
  auto run = pipeline.on(stream);
  auto shared = run.next().share();
  int ran = 0;
  auto graph = device.capture(std::span{&stream, 1}, [&] {
    stream.enqueue([&] { ++ran; });
    shared.release();
  });
  std::size_t records = batch_size;
  while (auto batch = run.next()) {
    records += batch.size();
  }
  CHECK(records == batches * batch_size);
  graph.launch(stream);
  stream.sync();
  CHECK(ran == 1);
}

TEST_CASE("a forked child drops its copy, and the parent's place stays") {
  const tests::Watchdog watchdog{"a shared lease in a child"};
  auto pipeline = on_host();
  auto run = pipeline.batches();
  auto shared = run.next().share();
  const pid_t child = ::fork();
  if (child == 0) {
    shared.release();
    ::_exit(shared ? 1 : 0);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
  CHECK(shared.data()[9] == 9);
  shared.release();
  std::size_t got = 1;
  while (run.next()) {
    ++got;
  }
  CHECK(got == batches);
}
