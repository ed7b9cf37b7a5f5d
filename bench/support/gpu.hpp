// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// CUDA for the contenders written by hand, without penstock.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>

#include <cuda_runtime_api.h>

namespace penstock_bench {

/// Throws if a CUDA call has failed; `call` is its name.
inline void check(cudaError_t status, const char* call) {
  if (status != cudaSuccess) {
    cudaGetLastError();
    throw std::runtime_error{std::string{call} + ": " + cudaGetErrorString(status)};
  }
}

/// Owners.
/// @{
struct FreePinned {
  void operator()(std::uint8_t* at) const { cudaFreeHost(at); }
};
struct FreeOnDevice {
  void operator()(std::uint8_t* at) const { cudaFree(at); }
};
struct DestroyStream {
  void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
};
struct DestroyEvent {
  void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
};
using PinnedBytes = std::unique_ptr<std::uint8_t[], FreePinned>;
using DeviceBytes = std::unique_ptr<std::uint8_t[], FreeOnDevice>;
using Stream = std::unique_ptr<std::remove_pointer_t<cudaStream_t>, DestroyStream>;
using Event = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, DestroyEvent>;
/// @}

/// Zeroed page-locked memory.
inline PinnedBytes make_pinned(std::size_t bytes) {
  void* at = nullptr;
  check(cudaMallocHost(&at, bytes), "cudaMallocHost");
  std::memset(at, 0, bytes);
  return PinnedBytes{static_cast<std::uint8_t*>(at)};
}
/// Zeroed memory of the GPU.
inline DeviceBytes make_on_device(std::size_t bytes) {
  void* at = nullptr;
  check(cudaMalloc(&at, bytes), "cudaMalloc");
  DeviceBytes made{static_cast<std::uint8_t*>(at)};
  check(cudaMemset(at, 0, bytes), "cudaMemset");
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  return made;
}
/// A stream that does not wait for the default stream.
inline Stream make_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  return Stream{stream};
}
/// An event without timing.
inline Event make_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  return Event{event};
}

inline void copy_to_device(void* to, const void* from, std::size_t bytes, const Stream& stream) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream.get()), "cudaMemcpyAsync");
}
inline void record(const Event& event, const Stream& stream) {
  check(cudaEventRecord(event.get(), stream.get()), "cudaEventRecord");
}
inline void wait(const Stream& stream, const Event& event) {
  check(cudaStreamWaitEvent(stream.get(), event.get(), 0), "cudaStreamWaitEvent");
}
inline bool is_done(const Event& event) {
  const cudaError_t status = cudaEventQuery(event.get());
  if (status == cudaErrorNotReady) {
    cudaGetLastError();
    return false;
  }
  check(status, "cudaEventQuery");
  return true;
}
inline void sync(const Stream& stream) {
  check(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize");
}

} // namespace penstock_bench
