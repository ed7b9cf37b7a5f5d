// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/machine.hpp"

#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

namespace penstock_bench {

/// One way to do all the work of a question.
class Contender {
 public:
  Contender() = default;
  Contender(const Contender&) = delete;
  Contender& operator=(const Contender&) = delete;
  virtual ~Contender() = default;

  /// Does all of it once, and returns when it is done. Returns a checksum of the output if made to
  /// be checked, else 0.
  virtual std::uint64_t run() = 0;
  /// Returns what the results should say about the last run.
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

  /// Throws if the checksum is wrong, or if making or running it throws, and then again each time.
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

/// Registers a benchmark whose every repetition calls `body` once. `body` sets the iteration's
/// time; its exception is the benchmark's error, and makes the program fail. To be run with
/// --benchmark_repetitions=5 --benchmark_enable_random_interleaving=true.
inline void add_benchmark(const std::string& name, std::function<void(benchmark::State&)> body) {
  benchmark::RegisterBenchmark(name.c_str(),
                               [body = std::move(body)](benchmark::State& state) {
                                 try {
                                   body(state);
                                 } catch (const std::exception& error) {
                                   any_failed() = true;
                                   state.SkipWithError(error.what());
                                 }
                               })
      ->Iterations(1)
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
}

/// Registers a benchmark as add_benchmark() does, with a contender: body(state, contender).
template <class F>
void add_contender(const std::string& name, const std::shared_ptr<Checked>& checked, F body) {
  add_benchmark(name, [checked, body](benchmark::State& state) {
    const std::unique_ptr<Contender> contender = checked->get();
    body(state, *contender);
    state.SetLabel(contender->label());
  });
}

/// Returns how many seconds a run takes.
inline double seconds_of_run(Contender& contender) {
  const auto start = std::chrono::steady_clock::now();
  contender.run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Registers a contender as a benchmark whose every repetition is one run: `name` is
/// question/contender/size, `bytes` the bytes that a run transfers, `expected` returns the
/// checksum, and is called at the first run.
inline void add(const std::string& name, std::uint64_t bytes,
                std::function<std::uint64_t()> expected, Make make) {
  const auto checked = std::make_shared<Checked>(std::move(make), std::move(expected));
  add_contender(name, checked, [bytes](benchmark::State& state, Contender& contender) {
    for (auto _ : state) {
      state.SetIterationTime(seconds_of_run(contender));
    }
    state.SetBytesProcessed(static_cast<std::int64_t>(bytes));
  });
}

/// Runs the registered benchmarks, and returns the program's exit code. All contenders die before
/// it returns, since the objects that they use do.
inline int run_all() {
  add_context();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::ClearRegisteredBenchmarks();
  benchmark::Shutdown();
  return any_failed() ? 1 : 0;
}

/// For programs without options besides Google Benchmark's.
struct NoOptions {
  NoOptions(int argc, char** argv) {
    if (argc > 1) {
      throw std::runtime_error{std::string{"unknown option "} + argv[1] +
                               "; there are Google Benchmark's alone"};
    }
  }
};

/// A program's main(): `all(options)` registers its benchmarks and returns what run_all() does.
template <class Options, class F> int program(int argc, char** argv, F all) try {
  benchmark::Initialize(&argc, argv);
  return all(Options{argc, argv});
} catch (const std::exception& error) {
  std::cerr << argv[0] << ": " << error.what() << '\n';
  return 1;
}

} // namespace penstock_bench
