// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// What a Report says of how long units took and of the processor time, from counts and from runs.

#include "support/catch.hpp"

#include <penstock/detail/measure/times.hpp>
#include <penstock/penstock.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <time.h>

namespace ps = penstock;
using ps::detail::UnitTimes;

namespace {

/// Returns the processor time that this thread has used.
double processor_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

/// Numbers from 0 on; before each read it works, and then waits for what comes in.
struct Waits {
  using schema = int;
  std::uint64_t size() const { return 16; }
  template <ps::HostSpace Where>
  std::size_t read(ps::Batch<int, Where> into, const ps::Patience& patience) const {
    std::this_thread::sleep_for(std::chrono::milliseconds{2});
    patience.sleep_for(std::chrono::milliseconds{1});
    into.data()[0] = static_cast<int>(into.index());
    return 1;
  }
};

} // namespace

TEST_CASE("percentiles of units are within an eighth of the sorted times'") {
  std::mt19937_64 random{5};
  for (const std::size_t count : {1U, 2U, 99U, 100U, 101U, 5000U}) {
    std::array<UnitTimes, 3> workers;
    std::vector<std::uint64_t> all;
    for (std::size_t i = 0; i != count; ++i) {
      const std::uint64_t ns = random() >> (22 + random() % 40); // from 4 ns to an hour
      all.push_back(std::max<std::uint64_t>(ns, 4));
      workers[i % workers.size()].add(ns);
    }
    std::sort(all.begin(), all.end());
    UnitTimes::Sum sum;
    for (const UnitTimes& worker : workers) {
      sum.add(worker);
    }
    for (const double share : {0.5, 0.99}) {
      const auto at = static_cast<std::size_t>(static_cast<double>(count) * share);
      const double expected = static_cast<double>(all[std::min(at, count - 1)]) / 1e9;
      INFO(count << " units, " << share << ": " << sum.at_most(share) << " of " << expected);
      CHECK(std::abs(sum.at_most(share) / expected - 1) <= 0.126);
    }
    for (UnitTimes& worker : workers) {
      worker.clear();
    }
    UnitTimes::Sum none;
    none.add(workers[0]);
    CHECK(none.at_most(0.5) == 0);
  }
  UnitTimes longest;
  longest.add(0);
  longest.add(~std::uint64_t{0});
  UnitTimes::Sum sum;
  sum.add(longest);
  CHECK(sum.at_most(0.99) > 3600);
}

TEST_CASE("a Report tells what units took, and how many processors were in use") {
  std::vector<int> numbers(64);
  for (std::size_t i = 0; i != numbers.size(); ++i) {
    numbers[i] = static_cast<int>(i);
  }
  using namespace std::chrono_literals;
  const auto slow = [](const int& in, int& out) {
    std::this_thread::sleep_for(in % 8 == 0 ? 20ms : 2ms);
    out = in;
  };
  std::uint64_t spun = 0;
  auto pipeline = ps::Reader{ps::memory(std::span{numbers}), {.batch = 1}} |
                  ps::Decoder{slow, {.workers = 2}} |
                  ps::Consumer{[&](ps::Batch<const int, ps::Pageable>) {
                    const double until = processor_seconds() + 1e-3;
                    while (processor_seconds() < until) {
                      ++spun;
                    }
                  }};
  const ps::Report report = pipeline.run();
  const ps::StageReport& decoder = report.stages[1];
  CHECK(decoder.unit_p50_s > 0.0017);
  CHECK(decoder.unit_p50_s < decoder.unit_p99_s);
  CHECK(decoder.unit_p99_s > 0.0175);
  CHECK(report.stages[2].unit_p50_s > 0.0008);
  CHECK(report.processors == ps::usable_processors());
  CHECK(report.cpu_s > 0.063); // the Consumer alone takes 64 ms
  CHECK(report.cpu_s < report.seconds * (std::thread::hardware_concurrency() + 1.0));
  std::ostringstream text;
  text << report;
  CHECK(text.str().find("\n  processors in use: ") != std::string::npos);
  CHECK(text.str().find(" of " + std::to_string(report.processors) + "\n") != std::string::npos);
  CHECK(text.str().find("p50 ms   p99 ms\n") != std::string::npos);
}

TEST_CASE("what a device does has no units, and your loop's body has") {
  std::vector<int> numbers(64);
  ps::HostDevice device;
  auto pipeline = ps::Reader{ps::memory(std::span{numbers}), ps::to_pinned, {.batch = 1}} |
                  ps::AsyncCopier{device};
  auto stream = device.stream();
  for ([[maybe_unused]] auto batch : pipeline.on(stream)) {
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  for (const ps::StageReport& stage : pipeline.report().stages) {
    INFO(stage.name);
    CHECK((stage.unit_p50_s > 0) == (stage.name == "Reader"));
  }
  auto batches = ps::Reader{ps::memory(std::span{numbers}), {.batch = 1}} |
                 ps::Decoder{[](const int& in, int& out) { out = in; }};
  for ([[maybe_unused]] auto batch : batches.batches()) {
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  CHECK(batches.report().stages.back().unit_p50_s > 0.0008);
}

TEST_CASE("a unit that waits in its middle is one, of all that it took before and after") {
  using namespace std::chrono_literals;
  std::array<std::atomic<int>, 16> tries{};
  const auto fails_once = [&](const int& in, int& out) {
    std::this_thread::sleep_for(2ms);
    if (tries[static_cast<std::size_t>(in)]++ == 0) {
      throw ps::Error{"not yet"};
    }
    out = in;
  };
  // The first of two has the turn for longer, and the other one waits for that.
  const auto in_turn = [](const int& in, ps::Output<int>& out) {
    std::this_thread::sleep_for(in % 2 == 0 ? 6ms : 2ms);
    out.push(in);
  };
  int sum = 0;
  auto pipeline = ps::Reader{Waits{}, {.workers = 1, .batch = 1}} |
                  ps::Decoder{fails_once, {.workers = 2, .on_error = {.retries = 1}}} |
                  ps::Decoder{in_turn, {.workers = 2}} |
                  ps::Consumer{[&](ps::Batch<const int, ps::Pageable> batch) {
                    sum += std::accumulate(batch.data(), batch.data() + batch.size(), 0);
                  }};
  const ps::Report report = pipeline.run();
  CHECK(sum == 15 * 16 / 2);
  CHECK(report.stages[1].retries == 16);
  for (const std::size_t stage : {0, 1, 2}) {
    INFO(report);
    CHECK(report.stages[stage].units == 16);
    CHECK(report.stages[stage].unit_p50_s > (stage == 1 ? 0.0035 : 0.0017)); // two tries
  }
}

TEST_CASE(
    "units are the shares that a worker draws: one where records take long, few where none are") {
  const std::vector<int> numbers(64);
  const auto slow = [](const int& in, ps::Output<int>& out) {
    std::this_thread::sleep_for(std::chrono::microseconds{300});
    out.push(in);
  };
  auto full = ps::Reader{ps::memory(numbers), {.batch = 16}} | ps::Decoder{slow, {.workers = 2}} |
              ps::Consumer{[](ps::Batch<const int, ps::Pageable>) {}};
  CHECK(full.run().stages[1].units == 64);
  const std::vector<int> one(1);
  auto few = ps::Reader{ps::memory(one), {.epochs = 100, .batch = 16}} |
             ps::Decoder{slow, {.workers = 1}} |
             ps::Consumer{[](ps::Batch<const int, ps::Pageable>) {}};
  CHECK(few.run().stages[1].units == 2 * 100);
}
