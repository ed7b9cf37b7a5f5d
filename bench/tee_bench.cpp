// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// What does a tee cost? Two branches that add up their bytes by one thread each, the second of
// which does so twice, behind one Reader; against the second one alone.
//
//   tee/alone/BYTES   Reader | the slower branch
//   tee/both/BYTES    Reader | tee(the faster branch, the slower branch)
//
// BYTES are those of a slot; a run reads 256 MiB of memory. The target is 0.97 of the rate alone.
// To be run with --benchmark_repetitions=9 --benchmark_enable_random_interleaving=true, on at least
// four processors that have nothing else to do: one for each stage.

#include <penstock/penstock.hpp>
#include <penstock/pipeline/tee.hpp>

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <vector>

namespace {

namespace ps = penstock;

using Number = std::uint64_t;
constexpr std::size_t bytes = std::size_t{256} << 20;

const std::vector<Number>& numbers() {
  static const std::vector<Number> all = [] {
    std::vector<Number> made(bytes / sizeof(Number));
    std::iota(made.begin(), made.end(), Number{0});
    return made;
  }();
  return all;
}
auto adds(Number& sum, int times) {
  return ps::Consumer{[&sum, times](ps::Batch<const Number, ps::Pageable> batch) {
    for (int i = 0; i != times; ++i) {
      sum = std::accumulate(batch.data(), batch.data() + batch.size(), sum);
      benchmark::DoNotOptimize(sum);
    }
  }};
}
auto reader(const benchmark::State& state) {
  return ps::Reader{
      ps::memory(numbers()),
      {.workers = 1, .batch = static_cast<std::size_t>(state.range(0)) / sizeof(Number)}};
}
template <class P> void run(benchmark::State& state, P pipeline, const Number& sum) {
  pipeline.prepare();
  const Number once = std::accumulate(numbers().begin(), numbers().end(), Number{0});
  Number runs = 0;
  for (auto _ : state) {
    pipeline.run();
    ++runs;
  }
  if (sum != 2 * runs * once) {
    state.SkipWithError("the slower branch has got other numbers");
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(runs * bytes));
}

void alone(benchmark::State& state) {
  Number slow = 0;
  run(state, reader(state) | adds(slow, 2), slow);
}
void both(benchmark::State& state) {
  Number fast = 0, slow = 0;
  run(state, reader(state) | ps::tee(adds(fast, 1), adds(slow, 2)), slow);
}

BENCHMARK(alone)->Name("tee/alone")->Arg(1 << 14)->Arg(1 << 17)->Arg(1 << 20)->UseRealTime();
BENCHMARK(both)->Name("tee/both")->Arg(1 << 14)->Arg(1 << 17)->Arg(1 << 20)->UseRealTime();

} // namespace

BENCHMARK_MAIN();
