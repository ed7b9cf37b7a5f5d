// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/cuda/detail/capture_mode.hpp>
#include <penstock/cuda/error.hpp>
#include <penstock/cuda/event.hpp>
#include <penstock/cuda/stream.hpp>

#include <span>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>

namespace penstock {

/// Work captured on streams and launched by one call. CudaDevice::capture() makes it.
///
/// It owns its graph, and moves; one moved from may only be assigned to or destroyed. Any thread
/// may call, one at a time. Calls throw CudaError.
class CudaGraph {
 public:
  /// Takes over what `other` owns.
  CudaGraph(CudaGraph&& other) noexcept : graph_{std::exchange(other.graph_, nullptr)} {}
  /// Takes over the other's graph, and destroys its own.
  CudaGraph& operator=(CudaGraph&& other) noexcept {
    CudaGraph old{std::move(*this)};
    graph_ = std::exchange(other.graph_, nullptr);
    return *this;
  }
  /// Destroys the graph. Never blocks; launched work is still done.
  ~CudaGraph() {
    if (graph_ != nullptr) {
      // Without this, driver 580 breaks off other threads' captures here, silently, or crashes.
      const detail::RelaxedCapture relaxed;
      detail::cuda_ignore(cudaGraphExecDestroy(graph_));
    }
  }

  /// Captures what `f()` enqueues on `lanes`, at least one stream: work of one in order, that of
  /// two side by side. None of it runs. The streams' device must be current. Throws CudaError if
  /// the work cannot be captured, and what `f` throws; the streams are then as before.
  template <class F> static CudaGraph capture(std::span<CudaStream> lanes, F f) {
    const cudaStream_t first = lanes[0];
    // Only this thread's calls can spoil the capture: others may allocate meanwhile.
    detail::cuda_check(cudaStreamBeginCapture(first, cudaStreamCaptureModeThreadLocal),
                       "cudaStreamBeginCapture");
    cudaGraph_t captured = nullptr;
    try {
      const CudaEvent fork;
      CudaEvent join;
      detail::cuda_check(cudaEventRecord(fork.get(), first), "cudaEventRecord");
      for (CudaStream& lane : lanes.subspan(1)) {
        lane.wait(fork);
      }
      f();
      for (CudaStream& lane : lanes.subspan(1)) {
        join.record(lane);
        lanes[0].wait(join);
      }
      detail::cuda_check(cudaStreamEndCapture(first, &captured), "cudaStreamEndCapture");
    } catch (...) {
      cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
      detail::cuda_ignore(cudaStreamIsCapturing(first, &status));
      if (status != cudaStreamCaptureStatusNone) {
        detail::cuda_ignore(cudaStreamEndCapture(first, &captured));
      }
      destroy(captured);
      throw;
    }
    cudaGraphExec_t graph = nullptr;
    const detail::RelaxedCapture relaxed;
    const cudaError_t made = cudaGraphInstantiate(&graph, captured, 0);
    destroy(captured);
    detail::cuda_check(made, "cudaGraphInstantiate");
    CudaGraph owner{graph};
    detail::cuda_check(cudaGraphUpload(graph, first), "cudaGraphUpload");
    return owner;
  }

  /// Enqueues the whole graph on `stream`; returns at once.
  void launch(cudaStream_t stream) const {
    detail::cuda_check(cudaGraphLaunch(graph_, stream), "cudaGraphLaunch");
  }
  /// Returns CUDA's handle; this stays its owner.
  cudaGraphExec_t get() const noexcept { return graph_; }

 private:
  explicit CudaGraph(cudaGraphExec_t graph) noexcept : graph_{graph} {}
  static void destroy(cudaGraph_t graph) noexcept {
    if (graph != nullptr) {
      detail::cuda_ignore(cudaGraphDestroy(graph));
    }
  }

  cudaGraphExec_t graph_{};
};

} // namespace penstock
