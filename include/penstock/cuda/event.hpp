// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/cuda/detail/capture_mode.hpp>
#include <penstock/cuda/error.hpp>

#include <cstddef>
#include <utility>

#include <cuda_runtime_api.h>

namespace penstock {

/// A point of a stream, marked without timing, which would make it slower. CudaDevice::event()
/// makes it; names and semantics are those of CCCL's `cuda::event`.
///
/// It owns its event, and moves; one moved from or released may only be assigned to or destroyed.
/// You may record it again or destroy it while streams wait for it. Any thread may call. Calls
/// throw CudaError.
class CudaEvent {
 public:
  /// Makes one on the calling thread's current device.
  CudaEvent() {
    detail::cuda_check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming),
                       "cudaEventCreateWithFlags");
  }
  /// Takes over what `other` owns.
  CudaEvent(CudaEvent&& other) noexcept : event_{std::exchange(other.event_, nullptr)} {}
  /// Takes over the other's event, and destroys its own.
  CudaEvent& operator=(CudaEvent&& other) noexcept {
    CudaEvent old{std::move(*this)};
    event_ = std::exchange(other.event_, nullptr);
    return *this;
  }
  /// Destroys the event. Never blocks, and never throws.
  ~CudaEvent() {
    if (event_ != nullptr) {
      detail::cuda_ignore(cudaEventDestroy(event_));
    }
  }

  /// Takes over an event made elsewhere: this one destroys it.
  [[nodiscard]] static CudaEvent from_native_handle(cudaEvent_t event) noexcept {
    return CudaEvent{event};
  }
  /// Refused: 0 and nullptr are no events.
  static CudaEvent from_native_handle(int) = delete;
  static CudaEvent from_native_handle(std::nullptr_t) = delete;

  /// Marks the point after everything enqueued on `stream` so far, which must be of the event's
  /// device. Never blocks.
  void record(cudaStream_t stream) {
    detail::cuda_check(cudaEventRecord(event_, stream), "cudaEventRecord");
  }
  /// Returns whether the latest point recorded was reached; true if there is none. Never blocks.
  bool is_done() const {
    const detail::RelaxedCapture relaxed;
    return detail::cuda_is_done(cudaEventQuery(event_), "cudaEventQuery");
  }
  /// Blocks until the latest point recorded at the call is reached.
  void sync() const {
    const detail::RelaxedCapture relaxed;
    detail::cuda_check(cudaEventSynchronize(event_), "cudaEventSynchronize");
  }

  /// Returns CUDA's handle; this stays its owner.
  cudaEvent_t get() const noexcept { return event_; }
  /// Gives up the event: the caller destroys it.
  [[nodiscard]] cudaEvent_t release() noexcept { return std::exchange(event_, nullptr); }

 private:
  explicit CudaEvent(cudaEvent_t event) noexcept : event_{event} {}

  cudaEvent_t event_{};
};

} // namespace penstock
