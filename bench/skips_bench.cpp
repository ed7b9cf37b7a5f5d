// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// What does it cost to skip bad records, and to be allowed to?
//
// skips/left_out/BYTES: a Decoder of single records that throws for one record in ten, and a loop
// by hand that calls, throws and catches for the same records. The chain has one worker a stage,
// and 4 MiB of records of BYTES. rate_ratio is the loop's time over the run's: the share of the
// loop's rate that is left.
//
// skips/allowed/WORKERS: a Reader of one worker, slots of 16 records of 8 bytes, and WORKERS
// workers of a Consumer that does nothing, with `.skips` and without; nothing is skipped. cpu_ratio
// is the CPU time of the whole process (getrusage, user and system) with `.skips` over that
// without.
//
// A repetition does both, in this order and in the other by turns. The records that both deliver
// are checked. It needs no GPU. To be run with --benchmark_repetitions=5
// --benchmark_enable_random_interleaving=true; the medians count.

#include "support/contender.hpp"
#include "support/cpu_time.hpp"

#include <penstock/penstock.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

namespace ps = penstock;
using namespace penstock_bench;

/// The costs of two ways, in the order of the arguments.
struct Both {
  double first, second;
};
/// Measures one after the other, and in the other order the next time.
template <class F, class G> Both in_turn(bool& other_way, F first, G second) {
  if (std::exchange(other_way, !other_way)) {
    const double b = second();
    return {first(), b};
  }
  const double a = first();
  return {a, second()};
}
template <class F> double seconds_of(F f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}
void check(std::uint64_t is, std::uint64_t should_be) {
  if (is != should_be) {
    throw std::runtime_error{std::to_string(is) + " records were delivered, and " +
                             std::to_string(should_be) + " should have been"};
  }
}

struct Bad {};

template <class Record> void decode(const Record& in, Record& out) {
  if (in % 10 == 3) {
    throw Bad{};
  }
  out = in;
}

template <class Record> void add_left_out() {
  add_benchmark(
      "skips/left_out/" + std::to_string(sizeof(Record)),
      [other_way = false](benchmark::State& state) mutable {
        std::vector<Record> data((std::size_t{4} << 20) / sizeof(Record));
        for (std::size_t i = 0; i < data.size(); ++i) {
          data[i] = static_cast<Record>(i % 100);
        }
        const std::uint64_t good = data.size() - (data.size() + 6) / 10;
        std::uint64_t delivered = 0;
        auto pipeline =
            ps::Reader{ps::memory(data), {.workers = 1}} |
            ps::Decoder{decode<Record>, {.workers = 1, .on_error = {.skips = data.size()}}} |
            ps::Consumer{
                [&](ps::Batch<const Record, ps::Pageable> batch) { delivered += batch.size(); },
                {.workers = 1}};
        std::vector<Record> out(data.size());
        const auto run = [&] {
          delivered = 0;
          pipeline.run();
          check(delivered, good);
        };
        const auto by_hand = [&] {
          std::size_t kept = 0;
          for (const Record& record : data) {
            try {
              decode(record, out[kept]);
              ++kept;
            } catch (...) {
            }
          }
          check(kept, good);
        };
        run();
        by_hand();
        for (auto _ : state) {
          const Both took = in_turn(
              other_way, [&] { return seconds_of(run); }, [&] { return seconds_of(by_hand); });
          state.SetIterationTime(took.first);
          state.counters["run_ms"] = 1e3 * took.first;
          state.counters["by_hand_ms"] = 1e3 * took.second;
          state.counters["rate_ratio"] = took.second / took.first;
        }
      });
}

void add_allowed(unsigned workers) {
  constexpr std::uint64_t slots = 50'000;
  constexpr std::uint64_t slot = 16;
  add_benchmark("skips/allowed/" + std::to_string(workers), [=, other_way = false](
                                                                benchmark::State& state) mutable {
    const auto chain = [&](std::uint64_t skips) {
      return ps::Reader{ps::generate<std::uint64_t>(slots * slot,
                                                    [](std::span<std::uint64_t>, std::uint64_t) {}),
                        {.workers = 1, .depth = 64, .batch = slot, .on_error = {.skips = skips}}} |
             ps::Consumer{[](ps::Batch<const std::uint64_t, ps::Pageable>) {},
                          {.workers = workers}};
    };
    auto with = chain(1);
    auto without = chain(0);
    const auto cpu_of = [=](auto& pipeline) {
      const double before = cpu_seconds();
      check(pipeline.run().records, slots * slot);
      return cpu_seconds() - before;
    };
    cpu_of(with);
    cpu_of(without);
    for (auto _ : state) {
      const Both took =
          in_turn(other_way, [&] { return cpu_of(with); }, [&] { return cpu_of(without); });
      state.SetIterationTime(took.first);
      state.counters["with_cpu_ms"] = 1e3 * took.first;
      state.counters["without_cpu_ms"] = 1e3 * took.second;
      state.counters["cpu_ratio"] = took.first / took.second;
    }
  });
}

} // namespace

int main(int argc, char** argv) {
  return program<NoOptions>(argc, argv, [](const NoOptions&) {
    add_left_out<std::uint64_t>();
    add_left_out<std::uint8_t>();
    for (const unsigned workers : {8, 16, 64}) {
      add_allowed(workers);
    }
    return run_all();
  });
}
