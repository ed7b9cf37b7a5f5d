// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// What does a run cost the processor?
//
// cpu/CONTENDER/BATCH: CPU seconds, user and system, of the whole process for each GB (getrusage
// around a run), as cpu_s_per_GB. The file lies in the page cache.
//   run          file -> pinned -> device -> light kernel, by run()
//   pread        the same file by pread alone, as many threads, the same reads of 1 MiB into
//                pinned memory of the same size, as fast as it goes
//   pread_paced  the same at the pace of the pipeline's last run: each thread sleeps until its next
//                read is due
// A run reads with as many threads as a Reader takes by itself.
//
// submission/CONTENDER/64KiB: what the threads of the process spend inside CUDA's calls for each
// batch of 64 KiB, in microseconds: submit_us in what enqueues (launches, graph launches, copies,
// event records, stream waits), of which launch_us in launches, and beside it query_us in event
// queries, wait_us in calls that wait for the GPU and other_us in the rest; submit_calls for each
// batch. Each call is timed between CUPTI's callbacks at its entry and its exit, in a run of its
// own, so whatever a stage calls is in it, on whichever thread. That adds to each call what bias_ns
// says: a call's time as CUPTI's callbacks have it, less its time without them, for cudaEventRecord
// on an idle stream.
//   run, replayed                from the file; replayed in 4 lanes
//   run_memory, replayed_memory  from memory that is full already
//
// Each pipeline is checked by what its kernels wrote, in two runs, before it is timed.
//
//   cost_bench [--file=PATH] [--bytes=N] --benchmark_repetitions=5
//              --benchmark_enable_random_interleaving=true

#include "support/file.hpp"
#include "support/pipelines.hpp"

#include <penstock/cuda.hpp>
#include <penstock/cuda/cupti.hpp>
#include <penstock/replayed.hpp>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <cupti.h>
#include <sys/resource.h>

namespace {

namespace ps = penstock;
using namespace penstock_bench;
using Clock = std::chrono::steady_clock;

constexpr std::size_t KiB = 1024;
constexpr std::size_t MiB = 1024 * KiB;

struct Size {
  const char* name;
  std::size_t batch;
  std::size_t record;
};
constexpr Size sizes[] = {{"1MiB", MiB, 16 * KiB}, {"37.6MB", image_batch_bytes, image_bytes}};
constexpr Size small{"64KiB", 64 * KiB, 16 * KiB};

/// As many as a Reader takes if it is told nothing.
unsigned readers() {
  return std::clamp(std::thread::hardware_concurrency() * 5 / 8, 2U, 12U);
}

double cpu_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

/// What a run took.
struct Spent {
  double seconds{};
  double cpu_s{};
};
Spent spent_by(Contender& contender) {
  const double before = cpu_seconds();
  const auto start = Clock::now();
  contender.run();
  const std::chrono::duration<double> took = Clock::now() - start;
  return {took.count(), cpu_seconds() - before};
}

/// pread alone, into pinned memory.
class PreadAlone : public Contender {
 public:
  /// `seconds` tells how long all of it is to take; 0 is as short as can be.
  PreadAlone(ps::CudaDevice& gpu, const OpenFile& file, std::uint64_t bytes,
             std::function<double()> seconds)
      : gpu_{gpu}, file_{file}, bytes_{bytes}, seconds_{std::move(seconds)} {}
  ~PreadAlone() override { gpu_.deallocate_pinned(pool_, pool_bytes); }

  /// Gives how many bytes were read.
  std::uint64_t run() override {
    const double seconds = seconds_();
    std::atomic<std::uint64_t> next{0};
    std::atomic<std::uint64_t> total{0};
    std::mutex mutex;
    std::exception_ptr failure;
    const auto start = Clock::now();
    const auto read = [&] {
      try {
        for (std::uint64_t at = next.fetch_add(MiB); at < bytes_; at = next.fetch_add(MiB)) {
          const std::chrono::duration<double> due{seconds * static_cast<double>(at) /
                                                  static_cast<double>(bytes_)};
          if (seconds > 0) {
            std::this_thread::sleep_until(start + std::chrono::duration_cast<Clock::duration>(due));
          }
          const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(MiB, bytes_ - at));
          file_.read(at, {pool_ + at % pool_bytes, size});
          total.fetch_add(size);
        }
      } catch (...) {
        const std::lock_guard lock{mutex};
        failure = std::current_exception();
      }
    };
    {
      std::vector<std::jthread> threads;
      for (unsigned i = 0; i < readers(); ++i) {
        threads.emplace_back(read);
      }
    }
    if (failure) {
      std::rethrow_exception(failure);
    }
    return total;
  }

 private:
  static constexpr std::size_t pool_bytes = 48 * MiB;

  ps::CudaDevice& gpu_;
  const OpenFile& file_;
  std::uint64_t bytes_;
  std::function<double()> seconds_;
  std::uint8_t* pool_ = static_cast<std::uint8_t*>(gpu_.allocate_pinned(pool_bytes));
};

/// What the process spends in CUDA's runtime calls while this lives: one at a time.
class CudaCalls {
 public:
  struct Sum {
    std::uint64_t calls{};
    double us{};
  };

  CudaCalls() {
    ps::detail::cupti_check(cuptiSubscribe(&subscriber_, on_call, this), "cuptiSubscribe");
    const CUptiResult enabled = cuptiEnableDomain(1, subscriber_, CUPTI_CB_DOMAIN_RUNTIME_API);
    if (enabled != CUPTI_SUCCESS) {
      cuptiUnsubscribe(subscriber_);
      ps::detail::cupti_check(enabled, "cuptiEnableDomain");
    }
  }
  CudaCalls(const CudaCalls&) = delete;
  CudaCalls& operator=(const CudaCalls&) = delete;
  ~CudaCalls() { cuptiUnsubscribe(subscriber_); }

  /// The sum of the calls whose name, such as cudaEventQuery_v3020, fits.
  template <class Fits> Sum of(Fits fits) const {
    Sum sum;
    for (std::uint32_t id = 0; id < calls_.size(); ++id) {
      const char* name = nullptr;
      if (calls_[id].count != 0 &&
          cuptiGetCallbackName(CUPTI_CB_DOMAIN_RUNTIME_API, id, &name) == CUPTI_SUCCESS &&
          fits(std::string_view{name})) {
        sum.calls += calls_[id].count;
        sum.us += static_cast<double>(calls_[id].ns) / 1e3;
      }
    }
    return sum;
  }

 private:
  struct Call {
    std::atomic<std::uint64_t> count{0};
    std::atomic<std::uint64_t> ns{0};
  };

  static std::uint64_t now() {
    return static_cast<std::uint64_t>(Clock::now().time_since_epoch() /
                                      std::chrono::nanoseconds{1});
  }
  static void CUPTIAPI on_call(void* self, CUpti_CallbackDomain, CUpti_CallbackId id,
                               const void* data) {
    const std::uint64_t at = now();
    const auto* const call = static_cast<const CUpti_CallbackData*>(data);
    auto& calls = static_cast<CudaCalls*>(self)->calls_;
    if (call->callbackSite == CUPTI_API_EXIT && id < calls.size()) {
      calls[id].count.fetch_add(1, std::memory_order_relaxed);
      calls[id].ns.fetch_add(at - *call->correlationData, std::memory_order_relaxed);
    } else {
      *call->correlationData = now(); // without what this took
    }
  }

  CUpti_SubscriberHandle subscriber_{};
  std::array<Call, 1024> calls_; // by the callback's number
};

bool has(std::string_view name, std::string_view part) {
  return name.find(part) != std::string_view::npos;
}
bool waits(std::string_view name) {
  return has(name, "Synchronize");
}
bool asks(std::string_view name) {
  return has(name, "Query");
}
bool launches(std::string_view name) {
  return has(name, "cudaLaunch") || has(name, "GraphLaunch");
}
bool enqueues(std::string_view name) {
  return launches(name) || has(name, "Memcpy") || has(name, "EventRecord") ||
         has(name, "StreamWaitEvent");
}

/// How much longer CUPTI's callbacks make a call look, in nanoseconds.
double bias_ns() {
  constexpr int times = 20'000;
  const Stream stream = make_stream();
  const Event event = make_event();
  const auto record_all = [&] {
    for (int i = 0; i < times; ++i) {
      record(event, stream);
    }
    sync(stream);
  };
  record_all();
  const auto start = Clock::now();
  for (int i = 0; i < times; ++i) {
    record(event, stream);
  }
  const std::chrono::duration<double, std::nano> alone = Clock::now() - start;
  sync(stream);
  const CudaCalls calls;
  record_all();
  const auto seen = calls.of([](std::string_view name) { return has(name, "EventRecord"); });
  if (seen.calls != times) {
    throw std::runtime_error{"CUPTI saw " + std::to_string(seen.calls) + " of " +
                             std::to_string(times) + " calls"};
  }
  return (1e3 * seen.us - alone.count()) / times;
}

template <class F> void add_benchmark(const std::string& name, F f) {
  benchmark::RegisterBenchmark(name.c_str(),
                               [f](benchmark::State& state) {
                                 try {
                                   f(state);
                                 } catch (const std::exception& error) {
                                   any_failed() = true;
                                   state.SkipWithError(error.what());
                                 }
                               })
      ->Iterations(1)
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
}

/// What the contenders share.
class Cost {
  // First, since what they return is deduced.
  auto reader(const Size& size) const {
    return ps::Reader{ps::records<std::uint8_t>(options_.path, {.record_bytes = size.record}),
                      ps::to_pinned,
                      {.workers = readers()}};
  }
  auto full_ring() const {
    return ps::Reader{ps::generate<Block>(options_.bytes / sizeof(Block), full_), ps::to_pinned};
  }
  auto copier(std::size_t records) { return ps::AsyncCopier{gpu_, {.batch = records}}; }
  static constexpr unsigned lanes = 4;
  template <class T> static auto replayed_consumer(const Work& work) {
    return ps::Consumer{ps::replayed(
        [work](ps::FrozenBatch<const T, ps::Device> batch, cudaStream_t stream) {
          work(bytes_of(batch), batch.size_bytes(), stream, batch.lane());
        },
        {.lanes = lanes})};
  }

 public:
  explicit Cost(const FileOptions& options)
      : options_{options}, file_{options.path, O_RDONLY},
        of_file_{options.bytes, [this](auto at, auto into) { file_.read(at, into); }},
        of_full_ring_{options.bytes, [this](auto at, auto into) { full_.fill(at, into); }} {}

  void add_cpu(const Size& size) {
    const auto run = std::make_shared<Checked>(
        [=, this](bool checked) {
          const Work work{{.batch_bytes = size.batch, .checked = checked}};
          return by_run(
              reader(size) | copier(size.batch / size.record) | consumer<std::uint8_t>(work), work);
        },
        of_file_.of(size.batch));
    const auto last_run_s = std::make_shared<double>(0);
    add_cpu_benchmark("run", size, run, last_run_s);
    const auto pread_for = [=, this](std::function<double()> seconds) {
      return std::make_shared<Checked>(
          [=, this](bool) {
            return std::make_unique<PreadAlone>(gpu_, file_, options_.bytes, seconds);
          },
          [this] { return options_.bytes; });
    };
    add_cpu_benchmark("pread", size, pread_for([] { return 0.0; }));
    add_cpu_benchmark("pread_paced", size, pread_for([=] {
                        if (*last_run_s == 0) {
                          *last_run_s = spent_by(*run->get()).seconds;
                        }
                        return *last_run_s;
                      }));
  }

  void add_submission() {
    const std::size_t batch = small.batch;
    add_submission_benchmark("run", of_file_.of(batch), [=, this](bool checked) {
      const Work work{{.batch_bytes = batch, .checked = checked}};
      return by_run(reader(small) | copier(batch / small.record) | consumer<std::uint8_t>(work),
                    work);
    });
    add_submission_benchmark("run_memory", of_full_ring_.of(batch), [=, this](bool checked) {
      const Work work{{.batch_bytes = batch, .checked = checked}};
      return by_run(full_ring() | copier(batch / sizeof(Block)) | consumer<Block>(work), work);
    });
    add_submission_benchmark("replayed", of_file_.of(batch), [=, this](bool checked) {
      const Work work{{.batch_bytes = batch, .lanes = lanes, .checked = checked}};
      return by_run(reader(small) | copier(batch / small.record) |
                        replayed_consumer<std::uint8_t>(work),
                    work);
    });
    add_submission_benchmark("replayed_memory", of_full_ring_.of(batch), [=, this](bool checked) {
      const Work work{{.batch_bytes = batch, .lanes = lanes, .checked = checked}};
      return by_run(full_ring() | copier(batch / sizeof(Block)) | replayed_consumer<Block>(work),
                    work);
    });
  }

 private:
  void add_cpu_benchmark(const std::string& contender, const Size& size,
                         std::shared_ptr<Checked> checked,
                         std::shared_ptr<double> last_s = nullptr) {
    const std::uint64_t bytes = options_.bytes;
    add_benchmark("cpu/" + contender + "/" + size.name, [=](benchmark::State& state) {
      const std::unique_ptr<Contender> made = checked->get();
      Contender& one = *made;
      Spent spent;
      for (auto _ : state) {
        spent = spent_by(one);
        state.SetIterationTime(spent.seconds);
      }
      if (last_s != nullptr) {
        *last_s = spent.seconds;
      }
      state.SetBytesProcessed(static_cast<std::int64_t>(bytes));
      state.counters["cpu_s_per_GB"] = spent.cpu_s / (static_cast<double>(bytes) / 1e9);
      state.counters["cores"] = spent.cpu_s / spent.seconds;
      state.SetLabel(one.label());
    });
  }

  void add_submission_benchmark(const std::string& contender,
                                std::function<std::uint64_t()> expected, Make make) {
    auto checked = std::make_shared<Checked>(std::move(make), std::move(expected));
    const std::uint64_t bytes = options_.bytes;
    add_benchmark("submission/" + contender + "/" + small.name, [=](benchmark::State& state) {
      static const double bias = bias_ns();
      const std::unique_ptr<Contender> made = checked->get();
      Contender& one = *made;
      const auto batches = static_cast<double>(bytes / small.batch);
      CudaCalls::Sum enqueue;
      CudaCalls::Sum launch;
      CudaCalls::Sum ask;
      CudaCalls::Sum wait;
      CudaCalls::Sum all;
      double alone_s = 0;
      for (auto _ : state) {
        alone_s = spent_by(one).seconds;
        const CudaCalls calls;
        state.SetIterationTime(spent_by(one).seconds);
        enqueue = calls.of(enqueues);
        launch = calls.of(launches);
        ask = calls.of(asks);
        wait = calls.of(waits);
        all = calls.of([](std::string_view) { return true; });
      }
      if (launch.calls == 0) {
        throw std::runtime_error{"CUPTI saw no launch"};
      }
      state.SetBytesProcessed(static_cast<std::int64_t>(bytes));
      state.SetLabel(one.label());
      state.counters["submit_us"] = enqueue.us / batches;
      state.counters["submit_calls"] = static_cast<double>(enqueue.calls) / batches;
      state.counters["launch_us"] = launch.us / batches;
      state.counters["query_us"] = ask.us / batches;
      state.counters["wait_us"] = wait.us / batches;
      state.counters["other_us"] = (all.us - enqueue.us - ask.us - wait.us) / batches;
      state.counters["bias_ns"] = bias;
      state.counters["alone_ms"] = 1e3 * alone_s;
    });
  }

  FileOptions options_;
  OpenFile file_;
  AlwaysFull full_;
  Expected of_file_;
  Expected of_full_ring_;
  ps::CudaDevice gpu_;
};

} // namespace

int main(int argc, char** argv) try {
  benchmark::Initialize(&argc, argv);
  const FileOptions options{argc, argv};
  prepare_file(options);
  Cost all{options};
  for (const Size& size : sizes) {
    all.add_cpu(size);
  }
  all.add_submission();
  return run_all();
} catch (const std::exception& error) {
  std::fprintf(stderr, "cost_bench: %s\n", error.what());
  return 1;
}
