// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// How much of the time is the GPU busy with kernels if the kernel takes longest?
//
// A file in the page cache goes through Reader to_pinned | AsyncCopier | Consumer, by run(), with a
// kernel of 1.5 ms a batch of 37.6 MB and one of 100 us a batch of 1 MiB, measured alone: more than
// twice and five times what the copies take. CUPTI (diagnose/activity.hpp) records the GPU's
// intervals in a run of their own, since recording slows down launches; the time of a run without
// recording is given beside them. The steady state of a recording lies between 5 % and 95 % of its
// span. Shares of the steady state:
//
//   busy_kernels   a kernel ran
//   busy_union     a kernel or a copy ran
//   overlap        a kernel and a copy ran at once
// A share of the whole span, fill and drain included: busy_kernels_whole.
//
// busy/CONTENDER/BATCH:
//   run            the pipeline
//   replayed       the pipeline with a replayed Consumer in one lane
//   kernels_alone  the same kernels, as many, launched one after the other on one stream, from a
//                  batch that is there already: what launches and CUPTI leave at most
//
// Before a contender is timed, the output of its kernels in two runs is checked, and CUPTI must
// have seen one kernel a batch and lost none.
//
//   busy_bench [--file=PATH] [--bytes=N] --benchmark_repetitions=5
//              --benchmark_enable_random_interleaving=true

#include "support/from_file.hpp"

#include <penstock/diagnose/activity.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

namespace {

namespace ps = penstock;
using namespace penstock_bench;

/// Runs kernels on one batch that lies on the GPU, as many as a run has batches.
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

void busy(benchmark::State& state, Contender& contender, std::uint64_t bytes,
          std::uint64_t kernels) {
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
  state.counters["busy_kernels"] = steady.kernel_share();
  state.counters["busy_union"] = steady.busy_share();
  state.counters["overlap"] = steady.overlap_s / steady.seconds;
  state.counters["busy_kernels_whole"] = whole.kernel_share();
  state.counters["kernel_us"] = 1e6 * whole.kernel_s / static_cast<double>(whole.kernels);
  state.counters["unwatched_ms"] = 1e3 * unwatched_s;
}

class Busy : FromFile {
 public:
  explicit Busy(const FileOptions& options) : FromFile{options} {}

  void add(const Size& size, double kernel_s) {
    const int rounds = rounds_for(kernel_s, size.batch);
    add_one("run", size, of_file_.of(size.batch), [=, this](bool checked) {
      return run_file(size, {.batch_bytes = size.batch, .rounds = rounds, .checked = checked});
    });
    add_one("replayed", size, of_file_.of(size.batch), [=, this](bool checked) {
      return replay_from<std::uint8_t>(
          file_reader(size), size.batch / size.record,
          {.batch_bytes = size.batch, .rounds = rounds, .checked = checked});
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
    const auto checked = std::make_shared<Checked>(std::move(make), std::move(expected));
    const std::uint64_t bytes = options_.bytes;
    const std::uint64_t kernels = bytes / size.batch;
    add_contender(
        "busy/" + contender + "/" + size.name, checked,
        [=](benchmark::State& state, Contender& one) { busy(state, one, bytes, kernels); });
  }
};

} // namespace

int main(int argc, char** argv) {
  return program<FileOptions>(argc, argv, [](const FileOptions& options) {
    prepare_file(options);
    Busy all{options};
    all.add(images, 1.5e-3);
    all.add(mebibytes, 100e-6);
    return run_all();
  });
}
