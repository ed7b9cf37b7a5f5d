// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// What does the CPU do while data goes to the GPU?
//
// 1 GiB of host memory goes to the GPU in 16 pieces, each of which is summed there. Meanwhile the
// CPU has work of its own, a sixteenth of it with each piece: arithmetic in its cache, which takes
// as long as the link takes for the bytes. Both results are checked.
//
//   pageable             cudaMemcpy of a std::vector's memory
//   pageable_async       cudaMemcpyAsync of it, which still waits until its bytes have been read
//   pinned               cudaMemcpyAsync of memory that has been page-locked from the start
//   pipeline             from the std::vector: Reader | PinnedStager | AsyncCopier, in a loop
//   pipeline_to_pinned   pipeline with one hop less: the Reader copies into page-locked memory
//
// For the ways by hand, the counter `in_calls` is the share of a run that the CPU spends in calls
// that copy. It needs a GPU.

#include "add.hpp"
#include "event.hpp"
#include "pinned_array.hpp"

#include <penstock/device/device_array.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace {

namespace ps = penstock;
using namespace penstock_bench;

using Clock = std::chrono::steady_clock;

constexpr std::size_t pieces = 16;

/// The CPU's own work: arithmetic on 32 KiB, `rounds` times over with each piece.
class OwnWork {
 public:
  explicit OwnWork(std::size_t rounds) : rounds_{rounds} {}

  void do_a_piece() {
    for (std::size_t round = 0; round < rounds_; ++round) {
      for (std::uint64_t& number : numbers_) {
        number = number * 6364136223846793005 + 1442695040888963407;
      }
    }
  }
  std::uint64_t result() const {
    return std::accumulate(numbers_.begin(), numbers_.end(), std::uint64_t{0});
  }

 private:
  std::size_t rounds_;
  std::vector<std::uint64_t> numbers_ = std::vector<std::uint64_t>(4096, 1);
};

/// Returns how many rounds with each piece take `seconds` in all.
std::size_t rounds_for(double seconds) {
  constexpr std::size_t rounds = 2000;
  OwnWork work{rounds};
  double best = 1e9;
  for (int repetition = 0; repetition < 10; ++repetition) {
    const auto start = Clock::now();
    work.do_a_piece();
    best = std::min(best, seconds_since(start));
  }
  benchmark::DoNotOptimize(work.result());
  return std::max<std::size_t>(static_cast<std::size_t>(seconds / pieces / best * rounds), 1);
}

/// The words to send, in both kinds of memory, and how much work the CPU has.
class Task {
 public:
  Task(ps::CudaDevice& gpu, std::size_t bytes)
      : piece_words{bytes / pieces / sizeof(std::uint64_t)}, pageable(pieces * piece_words),
        rounds{rounds_for(static_cast<double>(bytes) / napkin::link)},
        pinned_{gpu, pageable.size()} {
    for (std::size_t i = 0; i < pageable.size(); ++i) {
      pageable[i] = i * 0x9e3779b97f4a7c15;
    }
    std::copy(pageable.begin(), pageable.end(), pinned_.data());
  }

  std::span<const std::uint64_t> pinned() const { return pinned_.span(); }

  const std::size_t piece_words;
  std::vector<std::uint64_t> pageable;
  const std::size_t rounds;

 private:
  PinnedArray<std::uint64_t, ps::CudaDevice> pinned_;
};

/// Also depends on which sum is whose.
std::uint64_t checksum_of(const std::vector<std::uint64_t>& sums) {
  std::uint64_t sum = 0;
  for (std::size_t piece = 0; piece < sums.size(); ++piece) {
    sum += (2 * piece + 1) * sums[piece];
  }
  return sum;
}
/// Computed by plain loops.
std::uint64_t expected_of(const Task& task) {
  std::vector<std::uint64_t> sums(pieces);
  OwnWork work{task.rounds};
  for (std::size_t i = 0; i < task.pageable.size(); ++i) {
    sums[i / task.piece_words] += task.pageable[i];
  }
  for (std::size_t piece = 0; piece < pieces; ++piece) {
    work.do_a_piece();
  }
  return checksum_of(sums) + work.result();
}

/// The GPU's sums of the pieces.
class Sums {
 public:
  Sums(ps::CudaDevice& gpu, const Task& task)
      : piece_words_{task.piece_words}, sums_{gpu, pieces}, workspace_{gpu} {}

  /// Enqueues the sum of a piece that the GPU has.
  void add_up(const std::uint64_t* on_gpu, std::size_t piece, cudaStream_t stream) {
    ps::reduce(stream, on_gpu, piece_words_, sums_.data() + piece, std::uint64_t{0}, Add{},
               workspace_);
  }
  /// Blocks until the stream is done.
  std::uint64_t checksum(cudaStream_t stream) const { return checksum_of(sums_.read(stream)); }

 private:
  std::size_t piece_words_;
  ps::DeviceArray<std::uint64_t, ps::CudaDevice> sums_;
  ps::Workspace<ps::CudaDevice> workspace_;
};

/// Copies from `words`.
class ByHand : public Way {
 public:
  enum class How { blocking, async };

  ByHand(ps::CudaDevice& gpu, const Task& task, std::span<const std::uint64_t> words, How how)
      : rounds_{task.rounds}, piece_words_{task.piece_words}, words_{words}, how_{how},
        on_gpu_{gpu, words.size()}, sums_{gpu, task}, stream_{gpu.stream()} {}

  std::uint64_t run() override {
    OwnWork work{rounds_};
    seconds_in_calls_ = 0;
    const auto start = Clock::now();
    const std::uint64_t sum = how_ == How::blocking ? blocking(work) : async(work);
    in_calls_ = seconds_in_calls_ / seconds_since(start);
    return sum + work.result();
  }
  void count(benchmark::UserCounters& counters) const override { counters["in_calls"] = in_calls_; }

 private:
  std::uint64_t blocking(OwnWork& work) {
    const cudaStream_t stream = cudaStreamLegacy; // the stream in which cudaMemcpy copies
    for (std::size_t piece = 0; piece < pieces; ++piece) {
      timed([&] { return cudaMemcpy(to(piece), from(piece), bytes(), cudaMemcpyHostToDevice); });
      sums_.add_up(to(piece), piece, stream);
      work.do_a_piece();
    }
    // page: end
    return sums_.checksum(stream);
  }
  std::uint64_t async(OwnWork& work) {
    const cudaStream_t stream = stream_.get();
    for (std::size_t piece = 0; piece < pieces; ++piece) {
      timed([&] {
        return cudaMemcpyAsync(to(piece), from(piece), bytes(), cudaMemcpyHostToDevice, stream);
      });
      sums_.add_up(to(piece), piece, stream);
      work.do_a_piece();
    }
    return sums_.checksum(stream);
  }

  template <class Copy> void timed(Copy copy) {
    const auto start = Clock::now();
    ps::detail::cuda_check(copy(), "a copy to the GPU");
    seconds_in_calls_ += seconds_since(start);
  }
  const std::uint64_t* from(std::size_t piece) const {
    return words_.data() + piece * piece_words_;
  }
  std::uint64_t* to(std::size_t piece) const { return on_gpu_.data() + piece * piece_words_; }
  std::size_t bytes() const { return piece_words_ * sizeof(std::uint64_t); }

  std::size_t rounds_;
  std::size_t piece_words_;
  std::span<const std::uint64_t> words_;
  How how_;
  ps::DeviceArray<std::uint64_t, ps::CudaDevice> on_gpu_;
  Sums sums_;
  ps::CudaStream stream_;
  double seconds_in_calls_{};
  double in_calls_{};
};

/// A batch of the pipeline is a piece.
template <class P> class FromPipeline : public Way {
 public:
  FromPipeline(ps::CudaDevice& gpu, const Task& task, P pipeline)
      : rounds_{task.rounds}, piece_words_{task.piece_words}, sums_{gpu, task},
        stream_{gpu.stream()}, pipeline_{std::move(pipeline)} {
    pipeline_.prepare();
  }

  std::uint64_t run() override {
    OwnWork work{rounds_};
    for (auto batch : pipeline_.on(stream_)) { // the next ones come while this one is worked on
      sums_.add_up(batch.data(), batch.index() / piece_words_, stream_);
      work.do_a_piece();
    }
    return sums_.checksum(stream_) + work.result();
  }

 private:
  std::size_t rounds_;
  std::size_t piece_words_;
  Sums sums_;
  ps::CudaStream stream_; // outlives the pipeline
  P pipeline_;
};

} // namespace

int main(int argc, char** argv) {
  return event_on_gpu(argc, argv, [](ps::CudaDevice& gpu, const EventOptions& options) {
    const std::size_t bytes = options.pick(std::size_t{1} << 30, std::size_t{64} << 20);
    const Task task{gpu, bytes};
    const Event event{"01_pageable_copies",
                      options,
                      {bytes, static_cast<double>(bytes) / napkin::link},
                      [sum = expected_of(task)] { return sum; }};
    const auto by_hand = [&](std::span<const std::uint64_t> words, ByHand::How how) {
      return [&gpu, &task, words, how] { return std::make_unique<ByHand>(gpu, task, words, how); };
    };
    const auto from = [&]<class P>(P pipeline) {
      return std::make_unique<FromPipeline<P>>(gpu, task, std::move(pipeline));
    };
    event.add("pageable", by_hand(task.pageable, ByHand::How::blocking));
    event.add("pageable_async", by_hand(task.pageable, ByHand::How::async));
    event.add("pinned", by_hand(task.pinned(), ByHand::How::async));
    event.add("pipeline", [&] {
      // page: pipeline
      auto pipeline = ps::Reader{ps::memory(task.pageable)} // the std::vector's memory
                      | ps::PinnedStager{}                  // page-locks its ring alone
                      | ps::AsyncCopier{gpu, {.batch = task.piece_words}};
      // page: end
      return from(std::move(pipeline));
    });
    event.add("pipeline_to_pinned", [&] {
      return from(ps::Reader{ps::memory(task.pageable), ps::to_pinned} |
                  ps::AsyncCopier{gpu, {.batch = task.piece_words}});
    });
    return run_all();
  });
}
