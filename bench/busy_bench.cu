// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// How much of the time is the GPU busy with kernels when the kernel is what takes longest?
//
// A file in the page cache goes through Reader to_pinned | AsyncCopier | Consumer, by run(), with a
// kernel of 1.5 ms a batch of 37.6 MB and one of 100 us a batch of 1 MiB, measured alone: more than
// twice and five times what the copies take. The GPU's intervals are recorded by CUPTI
// (cuda/activity.hpp) in a run of their own, since recording slows down launches; the time of a run
// without it is beside it. Of a recording the steady state is what lies between 5 % and 95 % of its
// span. As a share of that:
//
//   busy_kernels   in which a kernel ran
//   busy_union     in which a kernel or a copy ran
//   overlap        in which a kernel and a copy ran at once
// and of the whole span, fill and drain included, busy_kernels_whole.
//
// busy/CONTENDER/BATCH:
//   run            the pipeline
//   replayed       the pipeline with a replayed Consumer in one lane
//   kernels_alone  the same kernels, as many, launched one after the other on one stream, from a
//                  batch that is there already: what launches and CUPTI leave at most
//
// Each contender is checked by what its kernels wrote, in two runs, before it is timed, and CUPTI
// must have seen one kernel a batch and lost none.
//
//   busy_bench [--file=PATH] [--bytes=N] --benchmark_repetitions=5
//              --benchmark_enable_random_interleaving=true

#include "support/file.hpp"
#include "support/pipelines.hpp"

#include <penstock/cuda.hpp>
#include <penstock/cuda/activity.hpp>
#include <penstock/replayed.hpp>

#include <benchmark/benchmark.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

namespace {

namespace ps = penstock;
using namespace penstock_bench;
using Clock = std::chrono::steady_clock;

struct Size {
  const char* name;
  std::size_t batch;
  std::size_t record;
  double kernel_s;
};
constexpr Size sizes[] = {{"37.6MB", image_batch_bytes, image_bytes, 1.5e-3},
                          {"1MiB", std::size_t{1} << 20, std::size_t{16} << 10, 100e-6}};

/// Kernels on one batch that lies on the GPU, as many as a run has batches.
class KernelsAlone : public Contender {
 public:
  KernelsAlone(const OpenFile& file, std::uint64_t launches, const WorkOptions& options)
      : launches_{launches}, bytes_{options.batch_bytes}, work_{options} {
    const PinnedBytes first = make_pinned(bytes_);
    file.read(0, {first.get(), bytes_});
    copy_to_device(batch_.get(), first.get(), bytes_, stream_);
    sync(stream_);
  }
  std::uint64_t run() override {
    for (std::uint64_t i = 0; i < launches_; ++i) {
      work_(batch_.get(), bytes_, stream_.get());
    }
    sync(stream_);
    return work_.checksum();
  }

 private:
  std::uint64_t launches_;
  std::size_t bytes_;
  Work work_;
  DeviceBytes batch_ = make_on_device(bytes_);
  Stream stream_ = make_stream();
};

double seconds_of_run(Contender& contender) {
  const auto start = Clock::now();
  contender.run();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void busy(benchmark::State& state, Checked& checked, std::uint64_t bytes,
          std::uint64_t kernels) try {
  const std::unique_ptr<Contender> made = checked.get();
  Contender& contender = *made;
  ps::GpuActivitySummary whole;
  ps::GpuActivitySummary steady;
  double unwatched_s = 0;
  for (auto _ : state) {
    unwatched_s = seconds_of_run(contender);
    ps::GpuActivity activity;
    state.SetIterationTime(seconds_of_run(contender));
    whole = activity.stop();
    steady = activity.between(0.05, 0.95);
  }
  if (whole.dropped != 0 || whole.kernels != kernels) {
    throw std::runtime_error{"CUPTI saw " + std::to_string(whole.kernels) + " of " +
                             std::to_string(kernels) + " kernels, and lost " +
                             std::to_string(whole.dropped) + " records"};
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes));
  state.SetLabel(contender.label());
  state.counters["busy_kernels"] = steady.kernel_share();
  state.counters["busy_union"] = steady.busy_share();
  state.counters["overlap"] = steady.overlap_s / steady.seconds;
  state.counters["busy_kernels_whole"] = whole.kernel_share();
  state.counters["kernel_us"] = 1e6 * whole.kernel_s / static_cast<double>(whole.kernels);
  state.counters["unwatched_ms"] = 1e3 * unwatched_s;
} catch (const std::exception& error) {
  any_failed() = true;
  state.SkipWithError(error.what());
}

/// What the contenders share.
class Busy {
  // First, since what they return is deduced.
  auto reader(const Size& size) const {
    return ps::Reader{ps::records<std::uint8_t>(options_.path, {.record_bytes = size.record}),
                      ps::to_pinned};
  }
  auto copier(const Size& size) {
    return ps::AsyncCopier{gpu_, {.batch = size.batch / size.record}};
  }

 public:
  explicit Busy(const FileOptions& options)
      : options_{options}, file_{options.path, O_RDONLY},
        of_file_{options.bytes, [this](auto at, auto into) { file_.read(at, into); }} {}

  void add(const Size& size) {
    const int rounds = rounds_for(size.kernel_s, size.batch);
    add_one("run", size, of_file_.of(size.batch), [=, this](bool checked) {
      const Work work{{.batch_bytes = size.batch, .rounds = rounds, .checked = checked}};
      return by_run(reader(size) | copier(size) | consumer<std::uint8_t>(work), work);
    });
    add_one("replayed", size, of_file_.of(size.batch), [=, this](bool checked) {
      const Work work{{.batch_bytes = size.batch, .rounds = rounds, .checked = checked}};
      return by_run(reader(size) | copier(size) |
                        ps::Consumer{ps::replayed(
                            [work](ps::FrozenBatch<const std::uint8_t, ps::Device> batch,
                                   cudaStream_t stream) {
                              work(bytes_of(batch), batch.size_bytes(), stream);
                            })},
                    work);
    });
    const std::uint64_t kernels = options_.bytes / size.batch;
    const auto sum_of_first = [=, this] {
      Expected first{size.batch, [this](auto at, auto into) { file_.read(at, into); }};
      return kernels * first.sum(size.batch);
    };
    add_one("kernels_alone", size, sum_of_first, [=, this](bool checked) {
      const WorkOptions work{.batch_bytes = size.batch, .rounds = rounds, .checked = checked};
      return std::make_unique<KernelsAlone>(file_, kernels, work);
    });
  }

 private:
  void add_one(const std::string& contender, const Size& size,
               std::function<std::uint64_t()> expected, Make make) {
    auto checked = std::make_shared<Checked>(std::move(make), std::move(expected));
    const std::uint64_t bytes = options_.bytes;
    const std::uint64_t kernels = bytes / size.batch;
    benchmark::RegisterBenchmark(
        ("busy/" + contender + "/" + size.name).c_str(),
        [=](benchmark::State& state) { busy(state, *checked, bytes, kernels); })
        ->Iterations(1)
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond);
  }

  FileOptions options_;
  OpenFile file_;
  Expected of_file_;
  ps::CudaDevice gpu_;
};

} // namespace

int main(int argc, char** argv) try {
  benchmark::Initialize(&argc, argv);
  const FileOptions options{argc, argv};
  prepare_file(options);
  Busy all{options};
  for (const Size& size : sizes) {
    all.add(size);
  }
  return run_all();
} catch (const std::exception& error) {
  std::fprintf(stderr, "busy_bench: %s\n", error.what());
  return 1;
}
