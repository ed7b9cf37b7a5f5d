// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Pipelines as contenders.

#include "support/checksum.cuh"
#include "support/contender.hpp"
#include "support/file.hpp"
#include "support/gpu.hpp"
#include "support/light.cuh"

#include <penstock/cuda.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>

namespace penstock_bench {

/// Returns the bytes of `batch`, of blocks or of single bytes.
template <class AnyBatch> const std::uint8_t* bytes_of(const AnyBatch& batch) {
  return reinterpret_cast<const std::uint8_t*>(batch.data());
}

/// A Consumer that does `work`.
template <class T> auto consumer(const Work& work) {
  return penstock::Consumer{
      [work](penstock::Batch<const T, penstock::Device> batch, cudaStream_t stream) {
        work(bytes_of(batch), batch.size_bytes(), stream);
      }};
}

/// Returns what held a run back, and the notes of its stages.
inline std::string label_of(const penstock::Report& report) {
  std::string label = "held back by " + report.limiting_stage;
  for (const penstock::StageReport& stage : report.stages) {
    if (!stage.note.empty()) {
      label += "; " + stage.name + ": " + stage.note;
    }
  }
  return label;
}

/// A pipeline driven by run().
template <class P> class RunPipeline : public Contender {
 public:
  RunPipeline(P pipeline, const Work& work) : pipeline_{std::move(pipeline)}, work_{work} {
    pipeline_.prepare();
  }
  std::uint64_t run() override {
    pipeline_.run();
    return work_.checksum();
  }
  std::string label() const override { return label_of(pipeline_.report()); }

 private:
  P pipeline_;
  Work work_;
};
template <class P> std::unique_ptr<Contender> by_run(P pipeline, const Work& work) {
  return std::make_unique<RunPipeline<P>>(std::move(pipeline), work);
}

/// An open pipeline driven by the application's own loop.
template <class P> class LoopPipeline : public Contender {
 public:
  LoopPipeline(P pipeline, const Work& work) : pipeline_{std::move(pipeline)}, work_{work} {
    pipeline_.prepare();
  }
  std::uint64_t run() override {
    for (auto batch : pipeline_.on(stream_.get())) {
      work_(bytes_of(batch), batch.size_bytes(), stream_.get());
    }
    return work_.checksum();
  }
  std::string label() const override { return label_of(pipeline_.report()); }

 private:
  // The pipeline is destroyed first.
  Stream stream_ = make_stream();
  P pipeline_;
  Work work_;
};
template <class P> std::unique_ptr<Contender> by_loop(P pipeline, const Work& work) {
  return std::make_unique<LoopPipeline<P>>(std::move(pipeline), work);
}

/// Blocks that are all alike, so that memory which has held one need not be written again.
class AlwaysFull {
 public:
  AlwaysFull() {
    for (std::size_t i = 0; i < sizeof(Block); ++i) {
      block_.bytes[i] = static_cast<std::uint8_t>(1 + i * i % 251);
    }
  }
  /// For generate(): writes only blocks that are not there yet. Blocks are written in order, so it
  /// looks at the last one.
  void operator()(std::span<Block> out, std::uint64_t /*first*/) const {
    if (out.back().bytes[0] == 0) {
      for (Block& block : out) {
        block = block_;
      }
    }
  }
  /// Copies the bytes from `at` on of a sequence of such blocks.
  void fill(std::uint64_t at, std::span<std::uint8_t> into) const {
    for (std::size_t i = 0; i < into.size(); ++i) {
      into[i] = block_.bytes[(at + i) % sizeof(Block)];
    }
  }

 private:
  Block block_{};
};

/// "The link": cudaMemcpyAsync of pieces of pinned memory, `bytes` in all. In a checked run each
/// piece is a batch.
class Link : public Contender {
 public:
  static constexpr std::size_t usual_piece = std::size_t{256} << 20;

  Link(std::uint64_t bytes, bool checked, std::size_t piece_bytes = usual_piece)
      : bytes_{bytes}, piece_bytes_{piece_bytes},
        work_{{.batch_bytes = checked ? piece_bytes : 16, .kernel = false, .checked = checked}} {
    AlwaysFull{}.fill(0, {pinned_.get(), piece_bytes_});
  }
  std::uint64_t run() override {
    for (std::uint64_t at = 0; at < bytes_; at += piece_bytes_) {
      const auto size =
          static_cast<std::size_t>(std::min<std::uint64_t>(piece_bytes_, bytes_ - at));
      copy_to_device(on_device_.get(), pinned_.get(), size, stream_);
      work_(on_device_.get(), size, stream_.get());
    }
    sync(stream_);
    return work_.checksum();
  }

 private:
  std::uint64_t bytes_;
  std::size_t piece_bytes_;
  Work work_;
  PinnedBytes pinned_ = make_pinned(piece_bytes_);
  DeviceBytes on_device_ = make_on_device(piece_bytes_);
  Stream stream_ = make_stream();
};

} // namespace penstock_bench
