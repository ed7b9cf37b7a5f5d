// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Callables of which each worker makes its own: where they are made, what becomes of them at a
// run's end, and which errors come out of both.

#include "support/catch.hpp"
#include "support/outcome.hpp"

#include <penstock/penstock.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace ps = penstock;
using ps::tests::Came;
using ps::tests::Outcome;
using ps::tests::outcome_of;

namespace {

constexpr int count = 10'000;
using In = ps::Batch<const int, ps::Pageable>;

auto numbers() {
  return ps::generate<int>(count, [](std::span<int> into, std::uint64_t first) {
    std::iota(into.begin(), into.end(), static_cast<int>(first));
  });
}

/// How many of them there are, and have been.
std::atomic<int> alive{0};
std::atomic<int> ever{0};

/// Can be neither copied nor moved. Notes whether another thread than that which made it calls it.
class Tool {
 public:
  Tool() {
    ++alive;
    ++ever;
  }
  Tool(const Tool&) = delete;
  Tool& operator=(const Tool&) = delete;
  ~Tool() { --alive; }

  void operator()(const int& in, int& out) {
    abroad += std::this_thread::get_id() == made_in ? 0 : 1;
    ++calls;
    out = in + *one;
  }

  const std::thread::id made_in = std::this_thread::get_id();
  std::unique_ptr<int> one = std::make_unique<int>(1);
  int abroad{};
  int calls{};
};

/// Adds up what it is called with.
struct Sum {
  void operator()(In batch) {
    sum += std::accumulate(batch.data(), batch.data() + batch.size(), std::uint64_t{0});
  }
  int number; // as made
  std::uint64_t sum{};
};
constexpr std::uint64_t in_all = std::uint64_t{count} * (count - 1) / 2;

} // namespace

TEST_CASE("each worker makes what it calls in its own thread, once, one after the other") {
  constexpr unsigned workers = 5;
  std::atomic<int> making{0};
  std::atomic<bool> alone{true};
  std::vector<int> calls;
  std::vector<std::thread::id> threads;
  int abroad = 0;
  {
    std::uint64_t sum = 0;
    auto pipeline =
        ps::Reader{numbers()} |
        ps::Decoder{ps::each_worker(
                        [&] {
                          alone = alone && making++ == 0;
                          std::this_thread::yield(); // or another would not come in between
                          --making;
                          return Tool{};
                        },
                        [&](Tool& tool) {
                          calls.push_back(tool.calls);
                          threads.push_back(tool.made_in);
                          abroad += tool.abroad;
                        }),
                    {.workers = workers}} |
        ps::Consumer{[&](In batch) {
          sum += std::accumulate(batch.data(), batch.data() + batch.size(), std::uint64_t{0});
        }};
    CHECK(ever == 0);
    pipeline.prepare();
    CHECK(alive == workers);
    for (int run = 1; run <= 3; ++run) {
      CAPTURE(run);
      sum = 0;
      calls.clear();
      threads.clear();
      pipeline.run();
      CHECK(sum == in_all + count);
      CHECK(calls.size() == workers);
      // The same ones as in the runs before.
      CHECK(std::accumulate(calls.begin(), calls.end(), 0) == run * count);
      CHECK(ever == workers);
    }
    CHECK(alone);
    CHECK(abroad == 0);
    std::sort(threads.begin(), threads.end());
    CHECK(std::adjacent_find(threads.begin(), threads.end()) == threads.end());
    CHECK(std::find(threads.begin(), threads.end(), std::this_thread::get_id()) == threads.end());
  }
  CHECK(alive == 0);
}

TEST_CASE("what a Consumer's workers have is handed in by the thread that ran it, in order") {
  constexpr unsigned workers = 8;
  int made = 0; // by one worker after the other
  std::uint64_t all = 0;
  std::vector<int> order;
  bool here = true;
  auto pipeline = ps::Reader{numbers()} |
                  ps::Consumer{ps::each_worker([&] { return Sum{made++}; },
                                               [&, home = std::this_thread::get_id()](Sum& part) {
                                                 here = here && std::this_thread::get_id() == home;
                                                 order.push_back(part.number);
                                                 all += std::exchange(part.sum, 0);
                                               }),
                               {.workers = workers}};
  for (int run = 0; run < 3; ++run) {
    all = 0;
    order.clear();
    pipeline.run();
    CHECK(all == in_all);
    CHECK(here);
    CHECK(made == workers);
    CHECK(order == std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7});
  }
}

TEST_CASE("after a stop parts are handed in, after an error not") {
  int handed_in = 0;
  int fails_at = -1;
  int stops_at = -1;
  std::stop_source stop;
  auto pipeline = ps::Reader{numbers(), {.batch = 100}} |
                  ps::Consumer{ps::each_worker(
                                   [&] {
                                     return [&](In batch) {
                                       if (batch.data()[0] == fails_at) {
                                         throw std::runtime_error{"no"};
                                       }
                                       if (batch.data()[0] == stops_at) {
                                         stop.request_stop();
                                       }
                                     };
                                   },
                                   [&](auto&) { ++handed_in; }),
                               {.workers = 3}};
  pipeline.run();
  CHECK(handed_in == 3);
  fails_at = 500;
  const Outcome failed = outcome_of([&] { pipeline.run(); });
  CHECK(failed.stage == "Consumer");
  CHECK(failed.record == 500);
  CHECK(handed_in == 3);
  fails_at = -1;
  stops_at = 500;
  CHECK(pipeline.run(stop.get_token()).stopped);
  CHECK(handed_in == 6);
}

TEST_CASE("what a run that has failed counted is in no part of the next one") {
  const bool by_hand_in = GENERATE(false, true);
  std::atomic<int> fails_at{-1};
  bool refuses = false;
  long long sum = 0;
  struct Part {
    void operator()(In batch) {
      for (std::size_t i = 0; i < batch.size(); ++i) {
        if (batch.data()[i] == *fails_at) {
          throw std::runtime_error{"no"};
        }
        ++seen;
      }
    }
    std::atomic<int>* fails_at;
    long long seen = 0;
  };
  auto pipeline = ps::Reader{numbers(), {.batch = 100}} |
                  ps::Consumer{ps::each_worker([&] { return Part{&fails_at}; },
                                               [&](Part& part) {
                                                 if (refuses) {
                                                   throw std::runtime_error{"not now"};
                                                 }
                                                 sum += std::exchange(part.seen, 0);
                                               }),
                               {.workers = 3}};
  for (int round = 0; round < 3; ++round) {
    fails_at = by_hand_in ? -1 : 5000;
    refuses = by_hand_in;
    CHECK_THROWS_AS(pipeline.run(), ps::StageError);
    fails_at = -1;
    refuses = false;
    sum = 0;
    pipeline.run();
    CHECK(sum == count);
  }
}

TEST_CASE(
    "what make throws before the run after a failed one, that run throws, and starts nothing") {
  bool fails = false;
  int makes_left = 1000;
  int handed_in = 0;
  auto pipeline = ps::Reader{numbers(), {.batch = 100}} |
                  ps::Consumer{ps::each_worker(
                                   [&] {
                                     if (makes_left-- == 0) {
                                       throw std::runtime_error{"no handle"};
                                     }
                                     return [&](In) {
                                       if (fails) {
                                         throw std::runtime_error{"no"};
                                       }
                                     };
                                   },
                                   [&](auto&) { ++handed_in; }),
                               {.workers = 3}};
  pipeline.run();
  fails = true;
  CHECK(outcome_of([&] { pipeline.run(); }).stage == "Consumer");
  fails = false;
  makes_left = 1;
  const Outcome refused = outcome_of([&] { pipeline.run(); });
  CHECK(refused.text == "penstock: Consumer failed to make the callable of worker 2: no handle");
  CHECK(handed_in == 3);
  makes_left = 1000;
  CHECK(pipeline.run().records == count);
  CHECK(handed_in == 6);
}

TEST_CASE("what hand_in throws is the run's error, and the next run is as any other") {
  bool fails = false;
  std::vector<int> order;
  int made = 0;
  auto pipeline = ps::Reader{numbers()} |
                  ps::Consumer{ps::each_worker([&] { return Sum{made++}; },
                                               [&](Sum& part) {
                                                 order.push_back(part.number % 4);
                                                 if (fails && part.number % 4 == 2) {
                                                   throw ps::Error{"penstock: the disk is full"};
                                                 }
                                               }),
                               {.workers = 4}};
  pipeline.run();
  for (int run = 0; run < 2; ++run) {
    fails = true;
    order.clear();
    const Outcome failed = outcome_of([&] { pipeline.run(); });
    CAPTURE(failed);
    CHECK(failed.came == Came::stage_error);
    CHECK(failed.cause == Came::error);
    CHECK(failed.stage == "Consumer");
    CHECK(failed.text ==
          "penstock: Consumer failed to hand in the part of worker 3: the disk is full");
    CHECK(pipeline.report().error == failed.text);
    CHECK(order == std::vector<int>{0, 1, 2});
    fails = false;
    order.clear();
    CHECK(pipeline.run().records == count);
    CHECK(order.size() == 4);
  }
}

TEST_CASE("what make throws comes out of prepare(), which then is as if it had not been called") {
  const int before = ever;
  for (const int fails_at : {0, 2, 3}) {
    CAPTURE(fails_at);
    int made = 0;
    bool fails = true;
    const auto make = [&] {
      if (fails && made++ == fails_at) {
        throw std::system_error{std::make_error_code(std::errc::no_such_device), "no licence"};
      }
      return Tool{};
    };
    auto pipeline = ps::Reader{numbers()} |
                    ps::Decoder{[](const int& in, int& out) { out = in; }, {.workers = 2}} |
                    ps::Decoder{ps::each_worker(make), {.workers = 4}} |
                    ps::Consumer{[](In) {}, {.workers = 2}};
    const Outcome failed = outcome_of([&] { pipeline.prepare(); });
    CAPTURE(failed);
    CHECK(failed.came == Came::stage_error);
    CHECK(failed.cause == Came::other);
    CHECK(failed.stage == "Decoder 2");
    CHECK(failed.says("penstock: Decoder 2 failed to make the callable of worker " +
                      std::to_string(fails_at + 1) + ": no licence"));
    CHECK(made == fails_at + 1);
    CHECK(alive == 0);
    fails = false;
    CHECK(pipeline.run().records == count);
    CHECK(alive == 4);
  }
  CHECK(ever - before == 0 + 2 + 3 + 3 * 4);
  // The thread that prepares makes one itself.
  auto consumed = ps::Reader{numbers()} | ps::Consumer{ps::each_worker([]() -> Sum { throw 1; })};
  const Outcome here = outcome_of([&] { consumed.run(); });
  CAPTURE(here);
  CHECK(here.text ==
        "penstock: Consumer failed to make the callable of worker 1: something that is "
        "no std::exception was thrown");
}

TEST_CASE("records fail one by one in what each worker made, and a loop's end hands it in") {
  std::uint64_t calls = 0;
  const auto make = [] {
    return [tries = 0](const int& in, int& out) mutable {
      ++tries;
      out = in;
      if (in % 10 == 7 || in < 0) {
        throw std::runtime_error{"bad"};
      }
      return tries;
    };
  };
  using Call = decltype(make());
  auto pipeline = ps::Reader{numbers()} |
                  ps::Decoder{ps::each_worker(make,
                                              [&](Call& call) {
                                                int out = 0;
                                                calls += std::uint64_t(call(0, out));
                                              }),
                              {.workers = 3, .on_error = {.retries = 1, .skips = count}}};
  std::uint64_t got = 0;
  for (auto batch : pipeline.batches()) {
    got += batch.size();
  }
  CHECK(got == count - count / 10);
  CHECK(calls == count + count / 10 + 3);
  calls = 0;
  for (auto batch : pipeline.batches()) {
    got = batch.size();
    break;
  }
  CHECK(calls >= count + count / 10 + 3 + got);
}
