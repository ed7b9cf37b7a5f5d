// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Shared by the programs of this folder. Each does the same work in several ways; the first one,
// written in a hurry, blocks the GPU.
//
//   PROGRAM [--device=cuda|host] [--small] [--watch|--profile] --benchmark_repetitions=5
//           --benchmark_enable_random_interleaving=true
//
// Every way is checked, in two runs, before it is timed. `--watch` records with CUPTI what the GPU
// does in a run instead of timing it, in a run of its own, since recording slows calls down.
// `--profile` brackets a run by cudaProfilerStart() and cudaProfilerStop(), for tools that look on
// from outside, such as `17_doctor --run`; --benchmark_filter picks the way.
// `--device=host` is for machines without a GPU: its measurements do not count. Programs that have
// a meaning on the host are compiled without nvcc too, and then have no other device.

#include "support/contender.hpp"

#include <penstock/penstock.hpp>
#include <penstock/with_device.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#if defined(__CUDACC__)
#include "support/cuda_calls.hpp"

#include <penstock/cuda.hpp>
#include <penstock/diagnose/activity.hpp>

#include <cuda_profiler_api.h>
#endif

namespace penstock_bench {

/// An H200's greatest rates, for ceilings on a napkin. Measured: docs/benchmarks.md.
namespace napkin {
inline constexpr double link = 55.35e9;   ///< Bytes a second from pinned memory to the GPU.
inline constexpr double memory = 4.18e12; ///< Bytes a second, read and written, in a copy there.
} // namespace napkin

/// Returns the seconds since `start`.
inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct EventOptions {
  EventOptions(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) {
      const std::string_view arg = argv[i];
      if (arg == "--small") {
        small = true;
      } else if (arg == "--watch") {
        watch = true;
      } else if (arg == "--profile") {
        profile = true;
      } else if (arg == "--device=cuda" || arg == "--device=host") {
        device = arg.substr(arg.find('=') + 1);
      } else {
        throw std::runtime_error{
            "unknown option " + std::string{arg} +
            "; there are --device=cuda|host, --small, --watch, --profile and Google "
            "Benchmark's"};
      }
    }
    if ((watch || profile) && device == "host") {
      throw std::runtime_error{"--watch and --profile are about a GPU, and the host is none"};
    }
    if (watch && profile) {
      throw std::runtime_error{"--watch and --profile: only one of them can look on"};
    }
  }
  /// Picks one of two sizes of the work.
  template <class T> T pick(T usual, T for_tests) const { return small ? for_tests : usual; }

  std::string device = "cuda";
  bool small = false;
  bool watch = false;
  bool profile = false;
};

/// One way to do an event's work.
class Way : public Contender {
 public:
  /// Adds its counters besides its time.
  virtual void count(benchmark::UserCounters&) const {}
};

/// The work of a run.
struct Amount {
  std::uint64_t items{}; ///< Rates count these.
  double ceiling_s{};    ///< The least seconds, on the napkin.
};

/// An event: registers its ways as events/NAME/WAY, watched/NAME/WAY or profiled/NAME/WAY.
class Event {
 public:
  /// `expected` returns the right result of each run of each way.
  Event(std::string name, const EventOptions& options, Amount amount,
        std::function<std::uint64_t()> expected)
      : name_{std::move(name)}, options_{options}, amount_{amount}, expected_{std::move(expected)} {
  }

  /// `make()` returns a std::unique_ptr of a Way; called for each repetition.
  template <class Make> void add(const std::string& way, Make make) const {
    const auto checked =
        std::make_shared<Checked>([make = std::move(make)](bool) { return make(); }, expected_);
    const char* const kind =
        options_.watch ? "watched/" : (options_.profile ? "profiled/" : "events/");
    add_contender(
        kind + name_ + '/' + way, checked,
        [options = options_, amount = amount_](benchmark::State& state, Contender& contender) {
          auto& made = static_cast<Way&>(contender);
          if (options.watch) {
            watched(state, made);
          } else if (options.profile) {
            profiled(state, made);
          } else {
            timed(state, made, amount);
          }
        });
  }

 private:
  static void timed(benchmark::State& state, Way& way, const Amount& amount) {
    for (auto _ : state) {
      state.SetIterationTime(seconds_of_run(way));
    }
    state.SetItemsProcessed(static_cast<std::int64_t>(amount.items));
    state.counters["ceiling_ms"] = amount.ceiling_s * 1e3;
    way.count(state.counters);
  }

#if defined(__CUDACC__)
  static bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
    return std::ranges::find(names, name.substr(0, name.find('_'))) != names.end(); // a version
  }
  /// Returns whether a call waits for the GPU: calls named so, and cudaMemcpy.
  static bool waits(std::string_view name) {
    return is_one_of(name, {"cudaDeviceSynchronize", "cudaStreamSynchronize",
                            "cudaEventSynchronize", "cudaMemcpy"});
  }
  /// Returns whether a call allocates device memory or page-locked memory, or page-locks some.
  static bool allocates(std::string_view name) {
    return is_one_of(name, {"cudaMalloc", "cudaMallocAsync", "cudaMallocManaged", "cudaMallocHost",
                            "cudaHostAlloc", "cudaHostRegister"});
  }
  /// Returns whether a call launches a kernel or a graph: each counts as one.
  static bool launches_work(std::string_view name) {
    return is_one_of(name, {"cudaLaunchKernel", "cudaLaunchKernelExC", "cudaGraphLaunch"});
  }

  static void watched(benchmark::State& state, Way& way) {
    double seconds = 0;
    std::uint64_t syncs = 0;
    std::uint64_t allocations = 0;
    std::uint64_t launches = 0;
    penstock::GpuActivitySummary whole;
    penstock::GpuActivitySummary steady;
    for (auto _ : state) {
      penstock::GpuActivity activity;
      {
        const CudaCalls calls;
        seconds = seconds_of_run(way);
        syncs = calls.of(waits).calls;
        allocations = calls.of(allocates).calls;
        launches = calls.of(launches_work).calls;
      }
      whole = activity.stop();
      steady = activity.between(0.05, 0.95);
      state.SetIterationTime(seconds);
    }
    if (whole.dropped != 0) {
      throw std::runtime_error{"CUPTI lost " + std::to_string(whole.dropped) + " records"};
    }
    const auto set = [&](const char* name, auto value) {
      state.counters[name] = static_cast<double>(value);
    };
    set("idle", 1 - whole.busy_s / seconds);
    set("kernels_busy", whole.kernel_s / seconds);
    set("idle_steady", steady.idle_share());
    set("kernels_busy_steady", steady.kernel_share());
    set("syncs", syncs);
    set("allocations", allocations);
    set("launches", launches);
    set("kernels", whole.kernels);
    set("copies", whole.copies_to_device + whole.copies_to_host + whole.other_copies);
    set("bytes_to_device", whole.bytes_to_device);
    set("bytes_to_host", whole.bytes_to_host);
  }

  static void profiled(benchmark::State& state, Way& way) {
    for (auto _ : state) {
      penstock::detail::cuda_check(cudaProfilerStart(), "cudaProfilerStart");
      state.SetIterationTime(seconds_of_run(way));
      penstock::detail::cuda_check(cudaProfilerStop(), "cudaProfilerStop");
    }
  }
#else
  static void watched(benchmark::State&, Way&) {
    throw std::runtime_error{"--watch: this program was compiled without nvcc"};
  }
  static void profiled(benchmark::State&, Way&) {
    throw std::runtime_error{"--profile: this program was compiled without nvcc"};
  }
#endif

  std::string name_;
  EventOptions options_;
  Amount amount_;
  std::function<std::uint64_t()> expected_;
};

/// The main() of an event that has a meaning on both devices: all(device, options) registers its
/// ways, and returns what run_all() does.
template <class F> int event_on_any_device(int argc, char** argv, F all) {
  return program<EventOptions>(argc, argv, [&](const EventOptions& options) {
    return penstock::with_device(options.device, [&](auto& device) {
      const auto here = device.attach();
      return all(device, options);
    });
  });
}

#if defined(__CUDACC__)
/// The main() of an event that is about CUDA's own functions: all(gpu, options). Without a GPU it
/// does nothing, and returns 77, like a skipped test.
template <class F> int event_on_gpu(int argc, char** argv, F all) {
  return program<EventOptions>(argc, argv, [&](const EventOptions& options) {
    if (options.device == "host") {
      throw std::runtime_error{"--device=host: this event is about CUDA's own functions"};
    }
    if (penstock::CudaDevice::count() == 0) {
      std::cerr << "there is no GPU\n";
      return 77;
    }
    penstock::CudaDevice gpu;
    const auto here = gpu.attach();
    return all(gpu, options);
  });
}
#endif

} // namespace penstock_bench
