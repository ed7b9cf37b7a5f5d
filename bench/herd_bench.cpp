// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// What do many workers cost that do little each, and take turns?
//
// herd/KIND/WORKERS: 200,000 records, each of some hundred nanoseconds of work, in slots of 16, by
// so many workers and by 4 of them. A repetition does both, in this order and in the other by
// turns. time_ratio is the time of WORKERS over that of 4.
//
// decoder: a Decoder of single records, without turns. outputs: one that may give any number of
// records. groups: one that states how many records it gives of each group of 4. ahead: WORKERS
// readers that may be 1000 records ahead.
//
// It needs no GPU. To be run with --benchmark_repetitions=5
// --benchmark_enable_random_interleaving=true; the medians count.

#include "support/contender.hpp"

#include <penstock/penstock.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

namespace ps = penstock;
using namespace penstock_bench;
using Clock = std::chrono::steady_clock;
using Number = std::uint64_t;
using In = ps::Batch<const Number, ps::Pageable>;

constexpr std::size_t slot = 16;
constexpr unsigned few = 4; // workers

Number work(Number x) {
  for (int i = 0; i != 300; ++i) {
    x = x * 6364136223846793005U + 1;
  }
  return x;
}

/// Measures what `make(workers, use)` makes, a pipeline whose last stage calls `use` with batches.
template <class Make> void add(const std::string& kind, Make make) {
  for (const unsigned workers : {16U, 64U}) {
    const std::string name = "herd/" + kind + "/" + std::to_string(workers);
    add_benchmark(name, [=, other_way = false](benchmark::State& state) mutable {
      static std::vector<Number> numbers = [] {
        std::vector<Number> all(200'000);
        std::iota(all.begin(), all.end(), Number{0});
        return all;
      }();
      const Number expected = [] {
        Number sum = 0;
        for (const Number number : numbers) {
          sum += work(number);
        }
        return sum;
      }();
      Number sum = 0;
      const auto use = [&sum](In batch) {
        sum = std::accumulate(batch.data(), batch.data() + batch.size(), sum);
      };
      auto many_pipeline = make(numbers, workers, use);
      auto few_pipeline = make(numbers, few, use);
      const auto run = [&](auto& pipeline) {
        sum = 0;
        const auto start = Clock::now();
        pipeline.run();
        const std::chrono::duration<double> took = Clock::now() - start;
        if (sum != expected) {
          throw std::runtime_error{"records were lost"};
        }
        return took.count();
      };
      for (auto _ : state) {
        const bool few_first = std::exchange(other_way, !other_way);
        const double before = few_first ? run(few_pipeline) : 0;
        const double took = run(many_pipeline);
        const double of_few = few_first ? before : run(few_pipeline);
        state.SetIterationTime(took);
        state.counters["few_ms"] = of_few * 1e3;
        state.counters["time_ratio"] = took / of_few;
      }
    });
  }
}

void add_all() {
  const auto single = [](const Number& in, Number& out) { out = work(in); };
  const auto any = [](const Number& in, ps::Output<Number>& out) { out.push(work(in)); };
  const auto group = [](In in, ps::Output<Number>& out) {
    out.open(in.size());
    for (std::size_t i = 0; i != in.size(); ++i) {
      out.push(work(in.data()[i]));
    }
  };
  add("decoder", [=](auto& numbers, unsigned workers, auto use) {
    return ps::Reader{ps::memory(numbers), {.workers = 1, .batch = slot}} |
           ps::Decoder{single, {.workers = workers}} | ps::Consumer{use};
  });
  add("outputs", [=](auto& numbers, unsigned workers, auto use) {
    return ps::Reader{ps::memory(numbers), {.workers = 1, .batch = slot}} |
           ps::Decoder{any, {.workers = workers}} | ps::Consumer{use};
  });
  add("groups", [=](auto& numbers, unsigned workers, auto use) {
    return ps::Reader{ps::memory(numbers), {.workers = 1, .batch = slot}} |
           ps::Decoder{group, {.workers = workers, .group = 4}} | ps::Consumer{use};
  });
  add("ahead", [=](auto& numbers, unsigned workers, auto use) {
    return ps::Reader{ps::memory(numbers), {.workers = workers, .batch = slot, .ahead = 1000}} |
           ps::Decoder{single, {.workers = 1}} | ps::Consumer{use};
  });
}

} // namespace

int main(int argc, char** argv) {
  return program<NoOptions>(argc, argv, [](const NoOptions&) {
    add_all();
    return run_all();
  });
}
