// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// One run of an open pipeline: its errors, its epochs, what it costs, and what a forked child may
// do with it. suite/next_suite.hpp has what it gives, and how it moves.

#include "support/counted_new.hpp"

#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/outcome.hpp"
#include "support/watchdog.hpp"

#include <penstock/penstock.hpp>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <iostream>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

namespace ps = penstock;
namespace tests = penstock::tests;

namespace {

using OnHost = ps::Batch<const std::uint64_t, ps::Pageable>;
using OnDevice = ps::Batch<const std::uint64_t, ps::Device>;

// Each number is its place; the first that read() is asked for may be refused.
auto numbers(std::size_t count, std::uint64_t refused = ps::unknown_size) {
  return ps::generate<std::uint64_t>(
      count, [refused](std::span<std::uint64_t> out, std::uint64_t first) {
        if (first <= refused && refused < first + out.size()) {
          throw ps::SourceError{"penstock: bad sector", "disk", 42, refused};
        }
        std::iota(out.begin(), out.end(), first);
      });
}
template <class Source> ps::AnyBatches<OnHost> by_tens(Source source, std::uint64_t epochs = 1) {
  return ps::AnyBatches<OnHost>{
      ps::Reader{std::move(source), {.workers = 2, .depth = 4, .epochs = epochs, .batch = 10}} |
      ps::Decoder{[](const std::uint64_t& in, std::uint64_t& out) { out = in; }}};
}

// The epoch of each record, as its batch says.
template <class Run> std::vector<std::uint64_t> epochs_of(Run run) {
  std::vector<std::uint64_t> epochs;
  while (auto batch = run.next()) {
    epochs.insert(epochs.end(), batch.size(), batch.epoch());
    auto moved = std::move(batch);
    CHECK(moved.epoch() == epochs.back());
    moved.release();
    CHECK(moved.epoch() == epochs.back());
  }
  return epochs;
}

} // namespace

TEST_CASE("next() throws the run's error, and the run is over") {
  const tests::Watchdog watchdog{"errors of next()"};
  auto data = by_tens(numbers(100, 57));
  for (int times = 0; times < 2; ++times) {
    auto run = data.batches();
    std::uint64_t records = 0;
    const auto out = tests::outcome_of([&] {
      while (auto batch = run.next()) {
        records += batch.size();
      }
    });
    CAPTURE(out);
    CHECK(out.came == tests::Came::stage_error);
    CHECK(out.stage == "Reader");
    CHECK(out.record == 57);
    CHECK(records <= 50);
    CHECK_FALSE(run);
    CHECK_FALSE(run.next());
  }
}

TEST_CASE("a run that cannot begin says why each time, and begins when it can") {
  auto data = by_tens(numbers(100));
  auto before = data.batches();
  auto kept = before.next();
  auto run = data.batches();
  CHECK(tests::has(tests::caught<ps::Error>([&] { (void)run.next(); }), "running already"));
  CHECK(run);
  before = {};
  for (int times = 0; times < 2; ++times) {
    CHECK(tests::has(tests::caught<ps::StageError>([&] { (void)run.next(); }),
                     "still held, 1 in all"));
    CHECK(run);
  }
  CHECK(kept.data()[9] == 9);
  kept.release();
  CHECK(run.next().index() == 0);
}

TEST_CASE("a run that is asked for a batch on another thread says so, and goes on where it began") {
  const tests::Watchdog watchdog{"a run on two threads"};
  ps::HostDevice device;
  auto stream = device.stream();
  auto to_device = ps::Reader{numbers(100), {.workers = 1, .depth = 4, .batch = 10}} |
                   ps::PinnedStager{} | ps::AsyncCopier{device, {.batch = 10}};
  auto on_host = by_tens(numbers(100));
  const auto check = [](auto run) {
    std::uint64_t records = run.next().size();
    std::thread{[&] {
      auto moved = std::move(run); // the mark goes with it, there and back
      run = std::move(moved);
      for (const auto& ask : std::initializer_list<std::function<void()>>{
               [&] { static_cast<void>(run.next()); }, [&] { run.begin(); }}) {
        const auto out = tests::outcome_of(ask);
        CHECK(out.came == tests::Came::error);
        CHECK(out.says("this run began on another thread"));
      }
      CHECK(run);
    }}.join();
    while (auto batch = run.next()) {
      records += batch.size();
    }
    CHECK(records == 100);
  };
  check(on_host.batches());
  check(to_device.on(stream));

  // Not where a run begins, but where its first batch is asked for, counts.
  auto later = on_host.batches();
  std::thread{[&] { CHECK(later.next().size() == 10); }}.join();
  CHECK(tests::outcome_of([&] { static_cast<void>(later.next()); }).says("another thread"));
}

TEST_CASE(
    "a lease that another thread gives back ends the run with an error, and never a wrong one") {
  const tests::Watchdog watchdog{"a lease on another thread"};
  ps::HostDevice device;
  auto stream = device.stream();
  auto second = device.stream();
  auto to_device = ps::Reader{numbers(1000), {.workers = 1, .depth = 4, .batch = 10}} |
                   ps::PinnedStager{} | ps::AsyncCopier{device, {.batch = 10, .depth = 4}};
  auto on_host = by_tens(numbers(1000));
  const auto check = [&](const auto& begin) {
    using Lease = decltype(begin().next());
    const std::initializer_list<std::function<void(Lease&)>> ways{
        [](Lease& lease) { lease.release(); }, [](Lease& lease) { Lease{std::move(lease)}; },
        [](Lease& lease) { lease = Lease{}; }};
    for (const auto& give_back : ways) {
      auto run = begin();
      Lease kept = run.next();
      Lease strayed = run.next();
      if constexpr (std::is_same_v<typename Lease::space, ps::Device>) {
        strayed.used_on(second);
        std::thread{[&] {
          CHECK(tests::outcome_of([&] { kept.used_on(second); }).says("on another thread"));
        }}.join();
      }
      std::thread{[&] { give_back(strayed); }}.join();
      const auto out = tests::outcome_of([&] { static_cast<void>(run.next()); });
      CAPTURE(out);
      CHECK(out.came == tests::Came::stage_error);
      CHECK(out.says("a lease was released on another thread than the loop's"));
      CHECK(out.record == 20);
      const auto held = tests::outcome_of([&] { static_cast<void>(begin().next()); });
      CHECK(held.says("leases of an earlier loop are still held, 1 in all"));
      kept.release();

      // While the thread still has it, the loop goes on.
      auto again = begin();
      Lease lent = again.next();
      std::thread{[lent = std::move(lent), &again]() mutable {
        static_cast<void>(again); // the lease dies with the callable
      }}.join();
      again = {}; // nobody can be told any more: the next run is
      CHECK(tests::outcome_of([&] {
              static_cast<void>(begin().next());
            }).says("a lease was released on another thread"));
      std::uint64_t records = 0;
      auto whole = begin();
      while (auto batch = whole.next()) {
        CHECK(batch.index() == records);
        records += batch.size();
      }
      CHECK(records == 1000);
    }
    // When the run is over, any one thread may.
    auto run = begin();
    Lease late = run.next();
    run = {};
    std::thread{[&] { late.release(); }}.join();
    CHECK(begin().next().index() == 0);
  };
  check([&] { return on_host.batches(); });
  check([&] { return to_device.on(stream); });
}

TEST_CASE("a lease says so if it has no such record") {
  ps::HostDevice device;
  auto stream = device.stream();
  auto to_device = ps::Reader{numbers(15), {.workers = 1, .batch = 10}} | ps::PinnedStager{} |
                   ps::AsyncCopier{device, {.batch = 10}};
  auto on_host = by_tens(numbers(15));
  const auto check = [](auto run) {
    for (auto batch : run) {
      CHECK(batch.visit(batch.size() - 1).record == batch.index() + batch.size() - 1);
      for (const std::size_t i : {batch.size(), std::size_t{10}, ~std::size_t{0}}) {
        const auto out = tests::outcome_of([&] { static_cast<void>(batch.visit(i)); });
        CHECK(out.says("visit() was asked for record " + std::to_string(i) + " of a batch of " +
                       std::to_string(batch.size())));
      }
    }
  };
  check(on_host.batches());
  check(to_device.on(stream));
}

TEST_CASE("a run that ends on another thread than it began on leaves nothing behind there") {
  const tests::Watchdog watchdog{"a run that ends elsewhere"};
  ps::HostDevice device;
  {
    auto data = by_tens(numbers(100));
    auto run = data.batches();
    CHECK(run.next());
    std::thread{[&] { ps::Batches<OnHost>{std::move(run)}; }}.join();
  }
  device.deallocate(device.allocate(100), 100); // would count in the body of that loop
  CHECK(ps::detail::calls_here == nullptr);
  auto again = by_tens(numbers(100));
  CHECK(epochs_of(again.batches()).size() == 100);
}

TEST_CASE("an exception that leaves a function with a run in it stops the run") {
  auto data = by_tens(numbers(100'000));
  const auto fails = [&] {
    auto run = data.batches();
    while (auto batch = run.next()) {
      if (batch.index() == 50) {
        throw std::runtime_error{"enough"};
      }
    }
  };
  CHECK_THROWS_AS(fails(), std::runtime_error);
  CHECK(data.report().stopped);
  CHECK(data.report().records == 60);
}

namespace {

// A device on which a launch of the loop's thread may fail without a word, as CUDA's do.
struct Silent : ps::HostDevice {
  struct launch_check_type {
    static void begin() noexcept {}
    static void check(const char* whose) {
      if (std::exchange(failed, false)) {
        throw ps::DeviceError{std::string{"penstock: a launch failed in "} + whose, "launch", 9,
                              false};
      }
    }
    static void forget() noexcept { failed = false; }
  };
  static inline thread_local bool failed = false;
};

} // namespace

TEST_CASE("a launch that fails between two calls of next() is the second one's error") {
  Silent device;
  auto stream = device.stream();
  auto data = ps::Reader{numbers(100), ps::to_pinned, {.workers = 2}} |
              ps::AsyncCopier{device, {.batch = 10}};
  auto run = data.on(stream);
  for (int batch = 0; batch < 5; ++batch) {
    CHECK(run.next());
  }
  Silent::failed = true;
  const auto out = tests::outcome_of([&] { (void)run.next(); });
  CAPTURE(out);
  CHECK(out.stage == "loop");
  CHECK(out.record == 40);
  CHECK(out.says("the loop's body"));
  CHECK_FALSE(run);

  run = data.on(stream);
  CHECK(run.next());
  Silent::failed = true;
  run = {}; // nobody can be thrown the error
  run = data.on(stream);
  CHECK(tests::has(tests::caught<ps::StageError>([&] { (void)run.next(); }), "a launch failed"));
  CHECK(run);
  CHECK(run.next().index() == 0);
}

TEST_CASE("each batch says which epoch its records are of, wherever it lies") {
  std::vector<std::uint64_t> expected;
  for (const std::uint64_t epoch : {0, 1, 2}) {
    expected.insert(expected.end(), 1005, epoch);
  }
  const ps::ReaderOptions reading{.workers = 3, .depth = 3, .epochs = 3};
  CHECK(epochs_of(by_tens(numbers(1005), 3).batches()) == expected);
  auto read_alone = ps::Pipeline{std::tuple{ps::Reader{numbers(1005), reading}}};
  CHECK(epochs_of(read_alone.batches()) == expected);

  ps::HostDevice device{{.late_seed = 1}};
  auto stream = device.stream();
  const auto to_device = [&] {
    return ps::Reader{numbers(1005), ps::to_pinned, reading} |
           ps::AsyncCopier{device, {.batch = 30}};
  };
  const auto twice = [](OnDevice in, ps::Batch<std::uint64_t, ps::Device> out, ps::HostStream& on) {
    on.enqueue([from = in.data(), to = out.data(), n = in.size()] {
      for (std::size_t i = 0; i < n; ++i) {
        to[i] = 2 * from[i];
      }
    });
  };
  auto copied = to_device();
  CHECK(epochs_of(copied.on(stream)) == expected);
  auto doubled = to_device() | ps::Kernel{twice};
  CHECK(epochs_of(doubled.on(stream)) == expected);
  auto fetched = to_device() | ps::Kernel{twice} | ps::AsyncCopier{ps::to_host, {.batch = 70}};
  CHECK(epochs_of(fetched.batches()) == expected);
  CHECK(ps::Lease<OnHost>{}.epoch() == 0);
}

TEST_CASE("a run that is asked for each batch allocates nothing once it has begun") {
  auto data = by_tens(numbers(10'000));
  const auto pull = [&] {
    std::uint64_t records = 0;
    const std::uint64_t before = tests::memory::allocations;
    auto run = data.batches();
    while (auto batch = run.next()) {
      records += batch.size();
      auto moved = std::move(run);
      run = std::move(moved);
    }
    CHECK(records == 10'000);
    return tests::memory::allocations - before;
  };
  pull();
  for (int times = 0; times < 2; ++times) {
    CHECK(pull() == 0);
  }
}

TEST_CASE("a forked child is told that the parent's run is not there, and may drop it") {
  auto data = by_tens(numbers(100));
  auto run = data.batches();
  CHECK(run.next().index() == 0);
  std::cout.flush();
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    int wrong = 2;
    for (int tries = 0; tries < 2; ++tries) {
      try {
        (void)run.next();
      } catch (const ps::Error& e) {
        wrong -= std::string{e.what()}.find("after the fork") != std::string::npos ? 1 : 0;
      }
    }
    run = {};
    std::_Exit(wrong);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
  std::uint64_t records = 10;
  while (auto batch = run.next()) {
    records += batch.size();
  }
  CHECK(records == 100);
}

TEST_CASE("an empty AnyBatches says so, and one that is given a pipeline later has it") {
  ps::AnyBatches<OnHost> data;
  const auto empty = [](auto& any) {
    CHECK_FALSE(any);
    CHECK(tests::has(tests::caught<ps::Error>([&] { any.prepare(); }), "AnyBatches is empty"));
    CHECK(tests::has(tests::caught<ps::Error>([&] { (void)any.batches(); }), "is empty"));
    any.stop();
    CHECK(any.report().stages.empty());
  };
  empty(data);
  data = by_tens(numbers(100));
  REQUIRE(data);
  auto run = data.batches();
  CHECK(run.next());
  auto moved = std::move(data); // while the run goes on
  empty(data);
  CHECK(run.next().index() == 10);
  run = moved.batches(); // ends the other
  CHECK(run.next().index() == 0);
}
