// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// What does the framework itself cost the processor for each slot and hop?
//
// A chain on the host whose callables do nothing, with slots of 64 bytes and one worker a stage:
//
//   Reader{generate} | Consumer                      1 hop
//   Reader{generate} | Decoder | Consumer            2 hops
//   Reader{generate} | Decoder | Decoder | Consumer  3 hops
//
// A hop is a slot's way through one ring: claimed and published by one stage, taken and released by
// the next, with the metering, the order and the callable's empty call that belong to it. cpu_us is
// the CPU time of the whole process (getrusage, user and system, spinning and sleeping included)
// around a run, over slots and hops; wall_us is the run's time over slots. Threads start and end in
// a run, which has a million slots. Each chain is checked by what its callables saw before it is
// timed. It needs no GPU.
//
// hop/HOPS_hops/DEPTH, DEPTH slots a ring. To be run with --benchmark_repetitions=5
// --benchmark_enable_random_interleaving=true.

#include "support/machine.hpp"

#include <penstock/penstock.hpp>

#include <benchmark/benchmark.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include <sys/resource.h>

namespace {

namespace ps = penstock;

struct Record {
  std::uint64_t number;
  std::uint64_t rest[7];
};
using In = ps::Batch<const Record, ps::Pageable>;
using Out = ps::Batch<Record, ps::Pageable>;

constexpr std::uint64_t slots = 1'000'000;

/// Whether the callables hand on numbers and add them up, as they do to be checked.
struct Numbers {
  bool checked;
  std::uint64_t* sum;
};

auto reader(Numbers numbers, std::size_t depth, std::uint64_t count) {
  return ps::Reader{ps::generate<Record>(count,
                                         [numbers](std::span<Record> out, std::uint64_t first) {
                                           if (numbers.checked) {
                                             out[0].number = first;
                                           }
                                         }),
                    {.workers = 1, .depth = depth, .batch = 1}};
}
auto decoder(Numbers numbers, std::size_t depth) {
  return ps::Decoder{[numbers](In in, Out out) {
                       if (numbers.checked) {
                         out.data()->number = in.data()->number + 1;
                       }
                     },
                     {.workers = 1, .depth = depth}};
}
auto consumer(Numbers numbers) {
  return ps::Consumer{[numbers](In in) {
                        if (numbers.checked) {
                          *numbers.sum += in.data()->number;
                        }
                      },
                      {.workers = 1}};
}

/// A chain of so many hops.
template <unsigned hops> auto chain(Numbers numbers, std::size_t depth, std::uint64_t count) {
  if constexpr (hops == 1) {
    return reader(numbers, depth, count) | consumer(numbers);
  } else if constexpr (hops == 2) {
    return reader(numbers, depth, count) | decoder(numbers, depth) | consumer(numbers);
  } else {
    return reader(numbers, depth, count) | decoder(numbers, depth) | decoder(numbers, depth) |
           consumer(numbers);
  }
}

/// Throws unless every slot arrives, and was seen by each decoder.
template <unsigned hops> void try_out(std::size_t depth) {
  constexpr std::uint64_t count = 10'000;
  std::uint64_t sum = 0;
  auto pipeline = chain<hops>({true, &sum}, depth, count);
  pipeline.run();
  const std::uint64_t expected = count * (count - 1) / 2 + (hops - 1) * count;
  if (sum != expected) {
    throw std::runtime_error{"the sum is " + std::to_string(sum) + " and should be " +
                             std::to_string(expected)};
  }
}

double cpu_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

template <unsigned hops> void add(std::size_t depth) {
  using Pipeline = decltype(chain<hops>({}, depth, slots));
  try_out<hops>(depth);
  // Kept, so that memory is there and has been written once.
  const auto pipeline = std::make_shared<Pipeline>(chain<hops>({}, depth, slots));
  pipeline->run();
  benchmark::RegisterBenchmark(
      ("hop/" + std::to_string(hops) + "_hops/" + std::to_string(depth)).c_str(),
      [pipeline](benchmark::State& state) {
        double cpu_s = 0;
        double seconds = 0;
        for (auto _ : state) {
          const double before = cpu_seconds();
          const auto start = std::chrono::steady_clock::now();
          pipeline->run();
          seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
          cpu_s = cpu_seconds() - before;
          state.SetIterationTime(seconds);
        }
        state.counters["cpu_us"] = 1e6 * cpu_s / (static_cast<double>(slots) * hops);
        state.counters["wall_us"] = 1e6 * seconds / static_cast<double>(slots);
        state.counters["cores"] = cpu_s / seconds;
      })
      ->Iterations(1)
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
}

} // namespace

int main(int argc, char** argv) try {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
    return 1;
  }
  for (const std::size_t depth : {std::size_t{64}, std::size_t{1024}}) {
    add<1>(depth);
    add<2>(depth);
    add<3>(depth);
  }
  penstock_bench::add_context();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
} catch (const std::exception& error) {
  std::fprintf(stderr, "hop_bench: %s\n", error.what());
  return 1;
}
