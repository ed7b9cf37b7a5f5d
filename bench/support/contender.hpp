// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/machine.hpp"

#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

namespace penstock_bench {

/// One way to do all the work that a question is about.
class Contender {
 public:
  Contender() = default;
  Contender(const Contender&) = delete;
  Contender& operator=(const Contender&) = delete;
  virtual ~Contender() = default;

  /// Does all of it once, and returns when it is done. One made to be checked gives a checksum of
  /// what came out, another 0.
  virtual std::uint64_t run() = 0;
  /// What is worth a word in the results about the last run.
  virtual std::string label() const { return {}; }
};

/// Makes a contender: one to be checked, or one to be timed.
using Make = std::function<std::unique_ptr<Contender>(bool checked)>;

/// Makes a contender anew for each repetition, checked before the first and each warmed by one run.
/// No two live at once: a process with dozens of streams has them share the GPU's few queues, and
/// one waits for another's work.
class Checked {
 public:
  Checked(Make make, std::function<std::uint64_t()> expected)
      : make_{std::move(make)}, expected_{std::move(expected)} {}

  /// Throws if the checksum is wrong, or what making it or running it throws, and then again each
  /// time.
  std::unique_ptr<Contender> get() {
    if (!checked_ && !failure_) {
      try {
        check();
        checked_ = true;
      } catch (...) {
        failure_ = std::current_exception();
      }
    }
    if (failure_) {
      std::rethrow_exception(failure_);
    }
    std::unique_ptr<Contender> made = make_(false);
    made->run();
    return made;
  }

 private:
  // Two runs: what one leaves behind for the next must be right too.
  void check() const {
    const std::unique_ptr<Contender> checked = make_(true);
    for (int run = 1; run <= 2; ++run) {
      const std::uint64_t sum = checked->run();
      const std::uint64_t expected = expected_();
      if (sum != expected) {
        throw std::runtime_error{"the checksum of run " + std::to_string(run) + " is " +
                                 std::to_string(sum) + " and should be " +
                                 std::to_string(expected)};
      }
    }
  }

  Make make_;
  std::function<std::uint64_t()> expected_;
  bool checked_{};
  std::exception_ptr failure_;
};

/// Whether a contender has failed so far.
inline bool& any_failed() {
  static bool failed = false;
  return failed;
}

/// Registers a contender as a benchmark whose every repetition is one run: `name` is
/// question/contender/size, `bytes` what a run transfers, `expected` the checksum, asked for at the
/// first run. To be run with --benchmark_repetitions=5
/// --benchmark_enable_random_interleaving=true.
inline void add(const std::string& name, std::uint64_t bytes,
                std::function<std::uint64_t()> expected, Make make) {
  auto checked = std::make_shared<Checked>(std::move(make), std::move(expected));
  benchmark::RegisterBenchmark(name.c_str(),
                               [checked, bytes](benchmark::State& state) {
                                 try {
                                   const std::unique_ptr<Contender> contender = checked->get();
                                   for (auto _ : state) {
                                     const auto start = std::chrono::steady_clock::now();
                                     contender->run();
                                     const std::chrono::duration<double> took =
                                         std::chrono::steady_clock::now() - start;
                                     state.SetIterationTime(took.count());
                                   }
                                   state.SetBytesProcessed(static_cast<std::int64_t>(bytes));
                                   state.SetLabel(contender->label());
                                 } catch (const std::exception& error) {
                                   any_failed() = true;
                                   state.SkipWithError(error.what());
                                 }
                               })
      ->Iterations(1)
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
}

/// Runs what was registered, after Initialize(); gives the program's exit code. All contenders die
/// before it returns, since what they use does.
inline int run_all() {
  add_context();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::ClearRegisteredBenchmarks();
  benchmark::Shutdown();
  return any_failed() ? 1 : 0;
}

} // namespace penstock_bench
