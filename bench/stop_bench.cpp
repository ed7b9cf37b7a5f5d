// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// How long does it take to leave a run whose source waits for ever?
//
// A source gives one slot of 16 records and then waits: `poll`, for a pipe to which nobody writes;
// `token`, for a condition variable with the run's stop token. 400 runs are left, each in the same
// way, when the source waits: by `break` out of a loop, by an exception in its body, by an
// exception in a Decoder, by stop() from another thread, by stop() in a signal handler on the
// thread in run(), and by the token in RunOptions. Timed from just before that until the loop or
// run() has been left, and all threads rest. Counters: median, 99th percentile and longest, in
// microseconds. Each run checks that it was stopped, or failed, and delivered one slot at most. It
// needs no GPU.
//
// stop/WAY/SOURCE.

#include <penstock/penstock.hpp>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <pthread.h>
#include <unistd.h>

namespace {

namespace ps = penstock;
using Clock = std::chrono::steady_clock;
using Number = std::uint64_t;
using In = ps::Batch<const Number, ps::Pageable>;

constexpr std::size_t slot = 16;
constexpr std::size_t rounds = 400;

struct Silence {
  int ends[2]{-1, -1};
  std::atomic<bool> waits{false};
  Silence() {
    if (::pipe(ends) != 0) {
      throw std::runtime_error{"no pipe"};
    }
  }
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;
  ~Silence() {
    ::close(ends[0]);
    ::close(ends[1]);
  }
  // Returns when the source waits, and most likely sleeps.
  void await() const {
    while (!waits) {
      std::this_thread::yield();
    }
    std::this_thread::sleep_for(std::chrono::microseconds{200});
  }
};

template <bool Token> struct Silent {
  using schema = Number;
  using Told = std::conditional_t<Token, std::stop_token, const ps::Patience&>;
  std::shared_ptr<Silence> silence;

  std::uint64_t size() const { return ps::unknown_size; }
  template <ps::HostSpace Where>
  ps::Filled read(ps::Batch<Number, Where> into, Told told) const {
    if (into.index() == 0) {
      std::fill_n(into.data(), into.size(), 1U);
      return ps::for_now(into.size());
    }
    silence->waits = true;
    if constexpr (Token) {
      std::mutex mutex;
      std::condition_variable_any stopped;
      std::unique_lock lock{mutex};
      stopped.wait(lock, told, [] { return false; });
    } else {
      told.readable(silence->ends[0]);
    }
    silence->waits = false;
    return ps::for_now(0);
  }
};

enum class Way { loop_break, loop_exception, stage_exception, stop, signal, token };

std::function<void()> on_signal;

/// Leaves so many runs, and returns how long each took, in seconds.
template <bool Token> std::vector<double> leave(Way way) {
  const auto silence = std::make_shared<Silence>();
  Clock::time_point began;
  std::size_t records = 0;
  const auto open = [&] {
    return ps::Reader{Silent<Token>{silence}, {.workers = 1, .depth = 4, .batch = slot}} |
           ps::Decoder{[&](In in, ps::Batch<Number, ps::Pageable> out) {
                         std::copy_n(in.data(), in.size(), out.data());
                         if (way == Way::stage_exception) {
                           silence->await();
                           began = Clock::now();
                           throw std::runtime_error{"on purpose"};
                         }
                       },
                       {.workers = 1}};
  };
  auto looped = open();
  auto run = open() | ps::Consumer{[&](In in) { records += in.size(); }};
  on_signal = [&] { run.stop(); };

  const auto loop = [&] {
    for (auto batch : looped.batches()) {
      records += batch.size();
      silence->await();
      began = Clock::now();
      if (way == Way::loop_break) {
        break;
      }
      throw std::runtime_error{"on purpose"};
    }
  };
  const auto stopped_run = [&] {
    std::stop_source stop;
    const std::jthread other{[&, here = ::pthread_self()] {
      silence->await();
      began = Clock::now();
      if (way == Way::stop) {
        run.stop();
      } else if (way == Way::token) {
        stop.request_stop();
      } else {
        ::pthread_kill(here, SIGUSR1);
      }
    }};
    run.run({.stop = stop.get_token()});
    return Clock::now();
  };

  std::vector<double> seconds;
  for (std::size_t round = 0; round <= rounds; ++round) {
    records = 0;
    bool thrown = false;
    Clock::time_point ended{};
    try {
      if (way == Way::loop_break || way == Way::loop_exception) {
        loop();
      } else if (way == Way::stage_exception) {
        run.run();
      } else {
        ended = stopped_run();
      }
    } catch (const std::runtime_error&) {
      thrown = true;
    }
    if (ended == Clock::time_point{}) {
      ended = Clock::now();
    }
    if (thrown != (way == Way::loop_exception || way == Way::stage_exception) || records > slot) {
      throw std::logic_error{"a run was not left as it should be"};
    }
    if (round != 0) { // the first prepares
      seconds.push_back(std::chrono::duration<double>(ended - began).count());
    }
  }
  std::ranges::sort(seconds);
  return seconds;
}

template <bool Token> void add(const std::string& name, Way way) {
  benchmark::RegisterBenchmark(("stop/" + name + (Token ? "/token" : "/poll")).c_str(),
                               [way](benchmark::State& state) {
                                 std::vector<double> seconds;
                                 for (auto _ : state) {
                                   seconds = leave<Token>(way);
                                   state.SetIterationTime(seconds[rounds / 2]);
                                 }
                                 state.counters["p50_us"] = 1e6 * seconds[rounds / 2];
                                 state.counters["p99_us"] = 1e6 * seconds[rounds * 99 / 100];
                                 state.counters["max_us"] = 1e6 * seconds.back();
                               })
      ->UseManualTime()
      ->Iterations(1)
      ->Unit(benchmark::kMicrosecond);
}

} // namespace

int main(int argc, char** argv) {
  std::signal(SIGUSR1, [](int) { on_signal(); });
  const std::pair<const char*, Way> ways[]{{"break", Way::loop_break},
                                           {"exception", Way::loop_exception},
                                           {"stage_exception", Way::stage_exception},
                                           {"stop", Way::stop},
                                           {"signal", Way::signal},
                                           {"run_token", Way::token}};
  for (const auto& [name, way] : ways) {
    add<false>(name, way);
    add<true>(name, way);
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
