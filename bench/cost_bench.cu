// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// What does a run cost the processor?
//
// cpu/CONTENDER/BATCH: CPU seconds, user and system, of the whole process for each GB (getrusage
// around a run), as cpu_s_per_GB. The file lies in the page cache.
//   run          file -> pinned -> device -> light kernel, by run()
//   pread        the same file by pread alone, as many threads, the same reads of 1 MiB into
//                pinned memory of the same size, as fast as it goes
//   pread_paced  pread at the pace of the pipeline's last run: each thread sleeps until its next
//                read is due
// A run reads with as many threads as a Reader uses by default.
//
// submission/CONTENDER/64KiB: the time that the threads of the process spend inside CUDA's calls
// for each batch of 64 KiB, in microseconds: submit_us in calls that enqueue (launches, graph
// launches, copies, event records, stream waits), launch_us in the launches among these, query_us
// in event queries, wait_us in calls that wait for the GPU, and other_us in the rest; submit_calls
// counts the calls for each batch. Each call is timed between CUPTI's callbacks at its entry and
// its exit, in a run of its own: every call of a stage counts, on any thread. Timing lengthens each
// call by bias_ns: the time of cudaEventRecord on an idle stream as the callbacks measure it, less
// its time without them.
//   run, replayed                from the file; replayed in 4 lanes
//   run_memory, replayed_memory  from memory that is full already
//
// Before a pipeline is timed, the output of its kernels in two runs is checked.
//
//   cost_bench [--file=PATH] [--bytes=N] --benchmark_repetitions=5
//              --benchmark_enable_random_interleaving=true

#include "support/cpu_time.hpp"
#include "support/cuda_calls.hpp"
#include "support/from_file.hpp"
#include "support/threads.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

namespace {

namespace ps = penstock;
using namespace penstock_bench;
using Clock = std::chrono::steady_clock;

constexpr Size small{"64KiB", 64 * KiB, 16 * KiB};

/// Returns as many as a Reader uses by default.
unsigned readers() {
  return std::clamp(std::thread::hardware_concurrency() * 5 / 8, 2U, 12U);
}

/// What a run cost.
struct Spent {
  double seconds{};
  double cpu_s{};
};
Spent spent_by(Contender& contender) {
  const double before = cpu_seconds();
  const double seconds = seconds_of_run(contender);
  return {seconds, cpu_seconds() - before};
}

/// pread alone, into pinned memory.
class PreadAlone : public Contender {
 public:
  /// `seconds` returns how long all of it is to take; 0 is as fast as possible.
  PreadAlone(ps::CudaDevice& gpu, const OpenFile& file, std::uint64_t bytes,
             std::function<double()> seconds)
      : gpu_{gpu}, file_{file}, bytes_{bytes}, seconds_{std::move(seconds)} {}
  ~PreadAlone() override { gpu_.deallocate_pinned(pool_, pool_bytes); }

  /// Returns how many bytes were read.
  std::uint64_t run() override {
    const double seconds = seconds_();
    std::atomic<std::uint64_t> next{0};
    std::atomic<std::uint64_t> total{0};
    const auto start = Clock::now();
    on_threads(readers(), [&](std::size_t) {
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
    });
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

/// Returns by how many nanoseconds CUPTI's callbacks lengthen a call.
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

class Cost : FromFile {
 public:
  explicit Cost(const FileOptions& options) : FromFile{options} {}

  void add_cpu(const Size& size) {
    const auto run = std::make_shared<Checked>(
        [=, this](bool checked) {
          return run_file(size, {.batch_bytes = size.batch, .checked = checked},
                          {.workers = readers()});
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
                          *last_run_s = seconds_of_run(*run->get());
                        }
                        return *last_run_s;
                      }));
  }

  void add_submission() {
    constexpr std::size_t batch = small.batch;
    constexpr std::size_t records = batch / small.record; // of the file or of memory
    static_assert(small.record == sizeof(Block));
    const auto file = [this] { return file_reader(small, {.workers = readers()}); };
    const auto alone = [](bool checked) {
      return WorkOptions{.batch_bytes = batch, .checked = checked};
    };
    const auto in_lanes = [](bool checked) {
      return WorkOptions{.batch_bytes = batch, .lanes = 4, .checked = checked};
    };
    add_submission_benchmark("run", of_file_, [=, this](bool checked) {
      return run_from<std::uint8_t>(file(), records, alone(checked));
    });
    add_submission_benchmark("run_memory", of_memory_, [=, this](bool checked) {
      return run_from<Block>(memory_reader(), records, alone(checked));
    });
    add_submission_benchmark("replayed", of_file_, [=, this](bool checked) {
      return replay_from<std::uint8_t>(file(), records, in_lanes(checked));
    });
    add_submission_benchmark("replayed_memory", of_memory_, [=, this](bool checked) {
      return replay_from<Block>(memory_reader(), records, in_lanes(checked));
    });
  }

 private:
  void add_cpu_benchmark(const std::string& contender, const Size& size,
                         const std::shared_ptr<Checked>& checked,
                         const std::shared_ptr<double>& last_s = nullptr) {
    const std::uint64_t bytes = options_.bytes;
    const std::string name = "cpu/" + contender + "/" + size.name;
    add_contender(name, checked, [=](benchmark::State& state, Contender& one) {
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
    });
  }

  void add_submission_benchmark(const std::string& contender, Expected& expected, Make make) {
    const auto checked = std::make_shared<Checked>(std::move(make), expected.of(small.batch));
    const std::uint64_t bytes = options_.bytes;
    const std::string name = "submission/" + contender + "/" + small.name;
    add_contender(name, checked, [=](benchmark::State& state, Contender& one) {
      static const double bias = bias_ns();
      const auto batches = static_cast<double>(bytes / small.batch);
      CudaCalls::Sum enqueue;
      CudaCalls::Sum launch;
      CudaCalls::Sum ask;
      CudaCalls::Sum wait;
      CudaCalls::Sum all;
      double alone_s = 0;
      for (auto _ : state) {
        alone_s = seconds_of_run(one);
        const CudaCalls calls;
        state.SetIterationTime(seconds_of_run(one));
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
};

} // namespace

int main(int argc, char** argv) {
  return program<FileOptions>(argc, argv, [](const FileOptions& options) {
    prepare_file(options);
    Cost all{options};
    all.add_cpu(mebibytes);
    all.add_cpu(images);
    all.add_submission();
    return run_all();
  });
}
