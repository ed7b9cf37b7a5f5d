// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/contender.hpp"
#include "support/gpu.hpp"
#include "support/light.cuh"
#include "support/pipelines.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace penstock_bench {

/// By hand, what a replayed Consumer does to a ring on the device: graphs of 64 batches each, in
/// lanes, launched one after the other. Without `copies` the ring is full from the beginning, and
/// nothing but graphs is enqueued; with them pinned memory, full as well, is copied into it first,
/// 8 MiB at a time. No thread waits before the end.
class GraphLoop : public Contender {
 public:
  GraphLoop(std::uint64_t bytes, const WorkOptions& options, bool copies)
      : bytes_{bytes}, options_{options}, work_{options}, copies_{copies}, lanes_(options.lanes),
        forked_{make_event()}, joined_(options.lanes), copied_(pieces), used_(pieces) {
    std::generate(lanes_.begin(), lanes_.end(), make_stream);
    for (auto* events : {&joined_, &copied_, &used_}) {
      std::generate(events->begin(), events->end(), make_event);
    }
    AlwaysFull{}.fill(0, {pinned_.get(), ring_bytes});
    copy_to_device(ring_.get(), pinned_.get(), ring_bytes, copying_);
    sync(copying_);
    for (std::size_t first = 0; first != ring_bytes; first += group_bytes()) {
      graphs_.push_back(capture(first));
    }
  }
  ~GraphLoop() override {
    for (cudaGraphExec_t graph : graphs_) {
      cudaGraphExecDestroy(graph);
    }
  }

  std::uint64_t run() override {
    std::uint64_t at = 0;
    for (; at + group_bytes() <= bytes_; at += group_bytes()) {
      const std::size_t place = at % ring_bytes;
      const std::size_t piece = place / piece_bytes;
      if (copies_ && at % piece_bytes == 0) {
        wait(copying_, used_[piece]);
        copy_to_device(ring_.get() + place, pinned_.get() + place, piece_bytes, copying_);
        record(copied_[piece], copying_);
        wait(lanes_[0], copied_[piece]);
      }
      check(cudaGraphLaunch(graphs_[place / group_bytes()], lanes_[0].get()), "cudaGraphLaunch");
      if (copies_ && (at + group_bytes()) % piece_bytes == 0) {
        record(used_[piece], lanes_[0]);
      }
    }
    for (; at < bytes_; at += options_.batch_bytes) {
      work_(ring_.get() + at % ring_bytes,
            static_cast<std::size_t>(std::min<std::uint64_t>(options_.batch_bytes, bytes_ - at)),
            lanes_[0].get());
    }
    sync(lanes_[0]);
    sync(copying_);
    return work_.checksum();
  }

 private:
  static constexpr std::size_t piece_bytes = std::size_t{8} << 20;
  static constexpr std::size_t pieces = 8;
  static constexpr std::size_t ring_bytes = pieces * piece_bytes;

  std::size_t group_bytes() const { return 64 * options_.batch_bytes; }
  cudaGraphExec_t capture(std::size_t first) {
    check(cudaStreamBeginCapture(lanes_[0].get(), cudaStreamCaptureModeThreadLocal),
          "cudaStreamBeginCapture");
    record(forked_, lanes_[0]);
    for (std::size_t i = 1; i < lanes_.size(); ++i) {
      wait(lanes_[i], forked_);
    }
    for (std::size_t i = 0; i < 64; ++i) {
      const auto lane = static_cast<unsigned>(i % lanes_.size());
      work_(ring_.get() + first + i * options_.batch_bytes, options_.batch_bytes,
            lanes_[lane].get(), lane);
    }
    for (std::size_t i = 1; i < lanes_.size(); ++i) {
      record(joined_[i], lanes_[i]);
      wait(lanes_[0], joined_[i]);
    }
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(lanes_[0].get(), &graph), "cudaStreamEndCapture");
    cudaGraphExec_t made = nullptr;
    const cudaError_t status = cudaGraphInstantiate(&made, graph, 0);
    cudaGraphDestroy(graph);
    check(status, "cudaGraphInstantiate");
    return made;
  }

  std::uint64_t bytes_;
  WorkOptions options_;
  Work work_;
  bool copies_;
  PinnedBytes pinned_ = make_pinned(ring_bytes);
  DeviceBytes ring_ = make_on_device(ring_bytes);
  Stream copying_ = make_stream();
  std::vector<Stream> lanes_; // the first launches the graphs
  Event forked_;
  std::vector<Event> joined_;
  std::vector<Event> copied_; // by piece
  std::vector<Event> used_;
  std::vector<cudaGraphExec_t> graphs_; // by group
};

} // namespace penstock_bench
