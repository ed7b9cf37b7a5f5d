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
// the next, with its share of metering, ordering and empty calls of the callable. cpu_us is the CPU
// time of the whole process (getrusage, user and system, spinning and sleeping included) around a
// run, over slots and hops; wall_us is the run's time over slots. Threads start and end in a run,
// which has a million slots. Before a chain is timed, its callables check what they get in two
// runs, and one run warms it. It needs no GPU.
//
// hop/HOPS_hops/DEPTH, DEPTH slots a ring. To be run with --benchmark_repetitions=5
// --benchmark_enable_random_interleaving=true.

#include "support/contender.hpp"
#include "support/cpu_time.hpp"

#include <penstock/penstock.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace {

namespace ps = penstock;
using namespace penstock_bench;

struct Record {
  std::uint64_t number;
  std::uint64_t rest[7];
};
using In = ps::Batch<const Record, ps::Pageable>;
using Out = ps::Batch<Record, ps::Pageable>;

constexpr std::uint64_t slots = 1'000'000;
constexpr std::uint64_t checked_slots = 10'000;

/// Whether the callables pass numbers on and add them up, to be checked.
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

/// A chain of `hops` hops.
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

/// If checked, returns the sum of what arrives: each slot's number, and one more for each decoder.
template <unsigned hops> class Chain : public Contender {
 public:
  Chain(std::size_t depth, bool checked)
      : pipeline_{chain<hops>({checked, &sum_}, depth, checked ? checked_slots : slots)} {}
  std::uint64_t run() override {
    sum_ = 0;
    pipeline_.run();
    return sum_;
  }

 private:
  std::uint64_t sum_{};
  decltype(chain<hops>({}, 0, 0)) pipeline_;
};

template <unsigned hops> void add(std::size_t depth) {
  constexpr std::uint64_t expected =
      checked_slots * (checked_slots - 1) / 2 + (hops - 1) * checked_slots;
  const auto checked = std::make_shared<Checked>(
      [depth](bool check) { return std::make_unique<Chain<hops>>(depth, check); },
      [] { return expected; });
  const std::string name = "hop/" + std::to_string(hops) + "_hops/" + std::to_string(depth);
  add_contender(name, checked, [](benchmark::State& state, Contender& contender) {
    double cpu_s = 0;
    double seconds = 0;
    for (auto _ : state) {
      const double before = cpu_seconds();
      seconds = seconds_of_run(contender);
      cpu_s = cpu_seconds() - before;
      state.SetIterationTime(seconds);
    }
    state.counters["cpu_us"] = 1e6 * cpu_s / (static_cast<double>(slots) * hops);
    state.counters["wall_us"] = 1e6 * seconds / static_cast<double>(slots);
    state.counters["cores"] = cpu_s / seconds;
  });
}

} // namespace

int main(int argc, char** argv) {
  return program<NoOptions>(argc, argv, [](const NoOptions&) {
    for (const std::size_t depth : {64, 1024}) {
      add<1>(depth);
      add<2>(depth);
      add<3>(depth);
    }
    return run_all();
  });
}
