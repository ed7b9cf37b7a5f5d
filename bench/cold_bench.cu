// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// How fast does a file that is not in the page cache get to the GPU, compared with the disk?
//
// Before each run, untimed, the file is dropped from the cache (posix_fadvise), and the program
// checks that it is gone. A run is all of the file, 1.1 GB by default, from call to return. Every
// contender is checked once (by a checksum of all bytes, in two runs). For each repetition it is
// made and warmed by one run; repetitions of all contenders are interleaved:
//
//   cold_bench [--file=PATH] [--bytes=N] --benchmark_repetitions=5
//              --benchmark_enable_random_interleaving=true
//
// The file must lie on a disk. cold/CONTENDER/GRAIN, with penstock; the labels say how the file was
// finally read:
//   pipeline       Reader{records} to_pinned | AsyncCopier | Consumer with a light kernel
//   pipeline_4     pipeline with 4 readers
//   buffered       pipeline through the page cache (DirectReads::none)
// and without penstock, the slowest stage alone:
//   direct_T       T threads, each of which reads the next piece with O_DIRECT into a pinned pool
//                  as large as the Reader's, without a GPU; pieces of 1 and of 4 MiB

#include "support/cold_file.hpp"
#include "support/file.hpp"
#include "support/pipelines.hpp"
#include "support/threads.hpp"

#include <penstock/cuda.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>

namespace {

namespace ps = penstock;
using namespace penstock_bench;

constexpr std::size_t record = 16 * KiB;
constexpr std::size_t batch = 4 * MiB;
constexpr std::size_t pool_bytes = 48 * MiB;

/// A pipeline, and how it reads.
class Labelled : public Contender {
 public:
  Labelled(std::unique_ptr<Contender> of, std::string how)
      : of_{std::move(of)}, how_{std::move(how)} {}
  std::uint64_t run() override { return of_->run(); }
  std::string label() const override { return how_ + ", " + of_->label(); }

 private:
  std::unique_ptr<Contender> of_;
  std::string how_;
};

std::unique_ptr<Contender> make_pipeline(ps::CudaDevice& gpu, const FileOptions& file,
                                         ps::DirectReads reads, unsigned workers, bool checked) {
  auto source = ps::records<std::uint8_t>(file.path, {.record_bytes = record, .direct = reads});
  source.open();
  const bool direct = source.direct_files() != 0;
  const Work work{{.batch_bytes = batch, .checked = checked}};
  return std::make_unique<Labelled>(by_run(ps::Reader{source, ps::to_pinned, {.workers = workers}} |
                                               ps::AsyncCopier{gpu, {.batch = batch / record}} |
                                               consumer<std::uint8_t>(work),
                                           work),
                                    direct ? "direct" : "buffered");
}

std::uint64_t sum_of_words(std::span<const std::uint8_t> bytes) {
  std::uint64_t sum = 0;
  std::uint64_t word = 0;
  for (std::size_t i = 0; i + sizeof word <= bytes.size(); i += sizeof word) {
    std::memcpy(&word, bytes.data() + i, sizeof word);
    sum += word;
  }
  return sum;
}

/// Threads that only read. If checked, returns the sum of all words.
class DirectLoop : public Contender {
 public:
  DirectLoop(const FileOptions& file, unsigned threads, std::size_t grain, bool checked)
      : bytes_{file.bytes}, file_{file.path, O_RDONLY | O_DIRECT}, threads_{threads}, grain_{grain},
        checked_{checked} {}

  std::uint64_t run() override {
    std::atomic<std::uint64_t> next{0};
    std::atomic<std::uint64_t> sum{0};
    on_threads(threads_, [&](std::size_t) { read_pieces(next, sum); });
    return sum;
  }

 private:
  // Nobody uses the data, so the next round may write over them. In a checked run each thread has
  // memory of its own.
  void read_pieces(std::atomic<std::uint64_t>& next, std::atomic<std::uint64_t>& sum) {
    const std::size_t places = pool_bytes / grain_;
    std::vector<std::uint8_t> own;
    std::uint8_t* aligned = nullptr;
    if (checked_) {
      own.resize(grain_ + 4 * KiB);
      aligned = own.data() + (4 * KiB - reinterpret_cast<std::uintptr_t>(own.data()) % (4 * KiB));
    }
    for (std::uint64_t piece = next++; piece * grain_ < bytes_; piece = next++) {
      const std::uint64_t at = piece * grain_;
      const std::span<std::uint8_t> into{
          checked_ ? aligned : pool_.get() + piece % places * grain_,
          static_cast<std::size_t>(std::min<std::uint64_t>(grain_, bytes_ - at))};
      file_.read(at, into);
      if (checked_) {
        sum += sum_of_words(into);
      }
    }
  }

  std::uint64_t bytes_;
  OpenFile file_;
  unsigned threads_;
  std::size_t grain_;
  bool checked_;
  PinnedBytes pool_ = make_pinned(pool_bytes);
};

/// Does what add() of contender.hpp does, but drops the file from the cache before each run.
void add_cold(const std::string& name, const FileOptions& file,
              std::function<std::uint64_t()> expected, Make make) {
  const auto checked = std::make_shared<Checked>(std::move(make), std::move(expected));
  add_contender(name, checked, [&file](benchmark::State& state, Contender& contender) {
    for (auto _ : state) {
      drop(file);
      state.SetIterationTime(seconds_of_run(contender));
    }
    state.SetBytesProcessed(static_cast<std::int64_t>(file.bytes));
  });
}

/// A file of its own, an eighth as large as the others: the disk takes seconds for it.
struct ColdOptions : FileOptions {
  ColdOptions(int argc, char** argv) : FileOptions{argc, argv, "penstock-bench-cold.bin", 7} {}
};

int run_cold(const FileOptions& file) {
  prepare_file(file);
  const OpenFile opened{file.path, O_RDONLY};
  Expected of_batches{file.bytes, [&](auto at, auto into) { opened.read(at, into); }};
  auto of_words = [&, sum = std::uint64_t{0}, known = false]() mutable {
    if (!known) {
      std::atomic<std::uint64_t> all{0};
      in_chunks(file.bytes, [&](std::uint64_t at, std::span<std::uint8_t> buffer) {
        opened.read(at, buffer);
        all += sum_of_words(buffer);
      });
      sum = all;
      known = true;
    }
    return sum;
  };
  ps::CudaDevice gpu;
  using enum ps::DirectReads;
  const auto add_pipeline = [&](const char* name, ps::DirectReads reads, unsigned workers) {
    add_cold("cold/" + std::string{name} + "/1MiB", file, of_batches.of(batch),
             [=, &gpu, &file](bool checked) {
               return make_pipeline(gpu, file, reads, workers, checked);
             });
  };
  add_pipeline("pipeline", always, 0);
  add_pipeline("pipeline_4", always, 4);
  add_pipeline("buffered", none, 0);
  for (const unsigned threads : {1U, 4U, 8U}) {
    for (const std::size_t grain : {MiB, 4 * MiB}) {
      add_cold("cold/direct_" + std::to_string(threads) + '/' + std::to_string(grain / MiB) + "MiB",
               file, std::ref(of_words), [=, &file](bool checked) {
                 return std::make_unique<DirectLoop>(file, threads, grain, checked);
               });
    }
  }
  return run_all();
}

} // namespace

int main(int argc, char** argv) {
  return program<ColdOptions>(argc, argv, run_cold);
}
