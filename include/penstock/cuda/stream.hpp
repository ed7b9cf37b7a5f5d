// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/cuda/detail/capture_mode.hpp>
#include <penstock/cuda/error.hpp>
#include <penstock/cuda/event.hpp>

#include <cstddef>
#include <utility>

#include <cuda_runtime_api.h>

namespace penstock {

/// A stream that runs its work in order, and does not wait for the default stream.
/// CudaDevice::stream() makes it; names and semantics are those of CCCL's `cuda::stream`. It goes
/// wherever a cudaStream_t does.
///
/// It owns its stream, and moves; one moved from or released may only be assigned to or destroyed.
/// Any thread may call, one at a time. Calls throw CudaError.
class CudaStream {
 public:
  /// Makes one on the calling thread's current device.
  CudaStream() {
    detail::cuda_check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
                       "cudaStreamCreateWithFlags");
  }
  /// Takes over what `other` owns.
  CudaStream(CudaStream&& other) noexcept : stream_{std::exchange(other.stream_, nullptr)} {}
  /// Takes over the other's stream, and destroys its own.
  CudaStream& operator=(CudaStream&& other) noexcept {
    CudaStream old{std::move(*this)};
    stream_ = std::exchange(other.stream_, nullptr);
    return *this;
  }
  /// Destroys the stream. Never blocks, unlike HostStream's: queued work is still done, so what it
  /// uses must live until then. Never throws.
  ~CudaStream() {
    if (stream_ != nullptr) {
      detail::cuda_ignore(cudaStreamDestroy(stream_));
    }
  }

  /// Takes over a stream made elsewhere: this one destroys it.
  [[nodiscard]] static CudaStream from_native_handle(cudaStream_t stream) noexcept {
    return CudaStream{stream};
  }
  /// Refused: 0 and nullptr are the default stream, which nobody owns.
  static CudaStream from_native_handle(int) = delete;
  static CudaStream from_native_handle(std::nullptr_t) = delete;

  /// Makes later work wait for what `event` marks now; for nothing if it was never recorded.
  /// Returns at once.
  void wait(const CudaEvent& event) {
    detail::cuda_check(cudaStreamWaitEvent(stream_, event.get(), 0), "cudaStreamWaitEvent");
  }
  /// Blocks until all work enqueued before is done.
  void sync() const {
    const detail::RelaxedCapture relaxed;
    detail::cuda_check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  }
  /// Returns whether all work enqueued before is done. Never blocks.
  bool is_done() const {
    const detail::RelaxedCapture relaxed;
    return detail::cuda_is_done(cudaStreamQuery(stream_), "cudaStreamQuery");
  }

  /// Returns CUDA's handle; this stays its owner.
  cudaStream_t get() const noexcept { return stream_; }
  /// Returns CUDA's handle, where a cudaStream_t is wanted.
  operator cudaStream_t() const noexcept { return stream_; }
  /// Gives up the stream: the caller destroys it.
  [[nodiscard]] cudaStream_t release() noexcept { return std::exchange(stream_, nullptr); }

 private:
  explicit CudaStream(cudaStream_t stream) noexcept : stream_{stream} {}

  cudaStream_t stream_{};
};

} // namespace penstock
