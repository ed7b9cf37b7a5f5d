// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// A CUDA runtime of one GPU that needs none: it takes the place of cudart in the one program that
// includes it. All work is done at once, by the thread that enqueues it. It has CUDA's rules on
// latched errors and captures, as tried on an H200 with driver 580 and CUDA 13.0:
//
// - some calls may not be made beside a capture in global mode, unless the thread's mode is
//   relaxed: cudaMalloc, cudaFree, page-locking, questions and waits, cudaGraphInstantiate. They
//   fail with 900, and break the capture off; cudaGraphExecDestroy breaks it off without a word;
// - cudaDeviceSynchronize fails in the same way beside any capture, in any mode;
// - an event recorded in a capture must not be asked (907), and a stream that captures cannot wait
//   for another (905), nor be waited for (900): each breaks the capture off;
// - a refused launch latches its error, and breaks off the capture that it was to be in; "not
//   ready" is not latched.

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace fake_cuda {

using Work = std::vector<std::function<void()>>;

struct Capture {
  cudaStreamCaptureMode mode;
  const void* thread;
  bool broken_off = false;
  Work work;
};

struct Runtime {
  std::mutex mutex;
  std::map<cudaStream_t, Capture> captures;
  std::set<cudaEvent_t> captured_events;
  std::map<cudaStream_t, int> records; // events recorded on a stream
  int device_syncs = 0;
  int not_ready = 0; // so many questions get this answer
  int live = 0;      // streams, events, graphs, memory
  // Made so far, given back or not.
  int events = 0;
  std::size_t device_bytes = 0;
};
inline Runtime& runtime() {
  static Runtime one;
  return one;
}

inline thread_local cudaError_t latched = cudaSuccess;
inline thread_local cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
// A thread has a context once it has called the runtime; the driver refuses a thread without one.
inline thread_local bool has_context = false;
inline const void* this_thread() {
  return &mode;
}

inline cudaError_t latch(cudaError_t status) {
  latched = status != cudaSuccess ? status : latched;
  return status;
}
inline cudaError_t break_off(Capture& capture, cudaError_t status) {
  capture.broken_off = true;
  return status;
}

/// Returns the answer to a call that may not belong into a capture.
inline cudaError_t unsafe() {
  Runtime& cuda = runtime();
  const std::scoped_lock lock{cuda.mutex};
  cudaError_t status = cudaSuccess;
  for (auto& [stream, capture] : cuda.captures) {
    const bool minded =
        capture.mode == cudaStreamCaptureModeGlobal ||
        (capture.mode == cudaStreamCaptureModeThreadLocal && capture.thread == this_thread());
    if (minded && mode != cudaStreamCaptureModeRelaxed && !capture.broken_off) {
      status = break_off(capture, cudaErrorStreamCaptureUnsupported);
    }
  }
  return latch(status);
}

/// Does the work, or keeps it if the stream captures.
inline cudaError_t enqueue(cudaStream_t stream, std::function<void()> work) {
  Runtime& cuda = runtime();
  {
    const std::scoped_lock lock{cuda.mutex};
    if (const auto at = cuda.captures.find(stream); at != cuda.captures.end()) {
      at->second.work.push_back(std::move(work));
      return cudaSuccess;
    }
  }
  work();
  return cudaSuccess;
}
/// A launch that CUDA refuses.
inline void refused_launch(cudaStream_t stream) {
  Runtime& cuda = runtime();
  const std::scoped_lock lock{cuda.mutex};
  if (const auto at = cuda.captures.find(stream); at != cuda.captures.end()) {
    at->second.broken_off = true;
  }
  latch(cudaErrorInvalidConfiguration);
}

template <class Handle> cudaError_t make(Handle* to) {
  *to = static_cast<Handle>(std::malloc(64));
  const std::scoped_lock lock{runtime().mutex};
  ++runtime().live;
  return cudaSuccess;
}
inline cudaError_t drop(void* handle) {
  std::free(handle);
  const std::scoped_lock lock{runtime().mutex};
  --runtime().live;
  return cudaSuccess;
}

} // namespace fake_cuda

extern "C" {
cudaError_t cudaGetLastError() {
  return std::exchange(fake_cuda::latched, cudaSuccess);
}
cudaError_t cudaPeekAtLastError() {
  return fake_cuda::latched;
}
const char* cudaGetErrorName(cudaError_t) {
  return "cudaErrorOfTest";
}
const char* cudaGetErrorString(cudaError_t) {
  return "a test's error";
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  return fake_cuda::latch(device == 0 ? cudaSuccess : cudaErrorInvalidDevice);
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  std::strcpy(properties->name, "Test GPU");
  return cudaSuccess;
}
cudaError_t cudaInitDevice(int, unsigned, unsigned) {
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, fake_cuda::mode);
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** at, std::size_t bytes) {
  if (const cudaError_t status = fake_cuda::unsafe(); status != cudaSuccess) {
    return status;
  }
  *at = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(*at, 0xCD, bytes);
  const std::scoped_lock lock{fake_cuda::runtime().mutex};
  ++fake_cuda::runtime().live;
  fake_cuda::runtime().device_bytes += bytes;
  return cudaSuccess;
}
cudaError_t cudaFree(void* at) {
  const cudaError_t status = fake_cuda::unsafe();
  return status == cudaSuccess ? fake_cuda::drop(at) : status;
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *free = *total = std::size_t{1} << 30;
  return cudaSuccess;
}
cudaError_t cudaHostRegister(void*, std::size_t, unsigned) {
  return fake_cuda::unsafe();
}
cudaError_t cudaHostUnregister(void*) {
  return fake_cuda::unsafe();
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  return fake_cuda::make(reinterpret_cast<void**>(stream));
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return fake_cuda::drop(stream);
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  {
    const std::scoped_lock lock{fake_cuda::runtime().mutex};
    ++fake_cuda::runtime().events;
  }
  return fake_cuda::make(reinterpret_cast<void**>(event));
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return fake_cuda::drop(event);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  auto& cuda = fake_cuda::runtime();
  const std::scoped_lock lock{cuda.mutex};
  ++cuda.records[stream];
  if (cuda.captures.count(stream) != 0) {
    cuda.captured_events.insert(event);
  } else {
    cuda.captured_events.erase(event);
  }
  return cudaSuccess;
}
static bool is_busy() {
  auto& cuda = fake_cuda::runtime();
  const std::scoped_lock lock{cuda.mutex};
  return cuda.not_ready > 0 && cuda.not_ready-- > 0;
}
static cudaError_t ask_event(cudaEvent_t event) {
  auto& cuda = fake_cuda::runtime();
  {
    const std::scoped_lock lock{cuda.mutex};
    if (cuda.captured_events.count(event) != 0) {
      for (auto& [stream, capture] : cuda.captures) {
        capture.broken_off = true;
      }
      return fake_cuda::latch(cudaErrorCapturedEvent);
    }
  }
  return fake_cuda::unsafe();
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return is_busy() ? cudaErrorNotReady : ask_event(event);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return ask_event(event);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  auto& cuda = fake_cuda::runtime();
  const std::scoped_lock lock{cuda.mutex};
  const auto at = cuda.captures.find(stream);
  return at != cuda.captures.end() && cuda.captured_events.count(event) == 0
             ? fake_cuda::latch(fake_cuda::break_off(at->second, cudaErrorStreamCaptureIsolation))
             : cudaSuccess;
}
static cudaError_t ask_stream(cudaStream_t stream) {
  auto& cuda = fake_cuda::runtime();
  {
    const std::scoped_lock lock{cuda.mutex};
    if (const auto at = cuda.captures.find(stream); at != cuda.captures.end()) {
      return fake_cuda::latch(fake_cuda::break_off(at->second, cudaErrorStreamCaptureUnsupported));
    }
  }
  return fake_cuda::unsafe();
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return is_busy() ? cudaErrorNotReady : ask_stream(stream);
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return ask_stream(stream);
}
cudaError_t cudaDeviceSynchronize() {
  auto& cuda = fake_cuda::runtime();
  const std::scoped_lock lock{cuda.mutex};
  ++cuda.device_syncs;
  cudaError_t status = cudaSuccess;
  for (auto& [stream, capture] : cuda.captures) {
    status = fake_cuda::break_off(capture, cudaErrorStreamCaptureUnsupported);
  }
  return fake_cuda::latch(status);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  return fake_cuda::enqueue(stream, [=] { std::memcpy(to, from, bytes); });
}
cudaError_t cudaMemcpyBatchAsync(void* const* to, const void* const* from, const std::size_t* bytes,
                                 std::size_t count, cudaMemcpyAttributes*, std::size_t*,
                                 std::size_t, cudaStream_t) {
  for (std::size_t i = 0; i < count; ++i) {
    std::memcpy(to[i], from[i], bytes[i]);
  }
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  auto& cuda = fake_cuda::runtime();
  const std::scoped_lock lock{cuda.mutex};
  const bool begun =
      cuda.captures.emplace(stream, fake_cuda::Capture{mode, fake_cuda::this_thread(), false, {}})
          .second;
  return fake_cuda::latch(begun ? cudaSuccess : cudaErrorIllegalState);
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  fake_cuda::has_context = true;
  auto& cuda = fake_cuda::runtime();
  const std::scoped_lock lock{cuda.mutex};
  const auto at = cuda.captures.find(stream);
  *status = at == cuda.captures.end() ? cudaStreamCaptureStatusNone
            : at->second.broken_off   ? cudaStreamCaptureStatusInvalidated
                                      : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char*, void** function, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  const auto ask = [](CUstream stream, CUstreamCaptureStatus* answer) {
    if (!fake_cuda::has_context) {
      return CUDA_ERROR_INVALID_CONTEXT;
    }
    cudaStreamCaptureStatus status{};
    const cudaError_t asked = cudaStreamIsCapturing(stream, &status);
    *answer = static_cast<CUstreamCaptureStatus>(status);
    return static_cast<CUresult>(asked);
  };
  *function = reinterpret_cast<void*>(+ask);
  *result = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  auto& cuda = fake_cuda::runtime();
  const std::scoped_lock lock{cuda.mutex};
  const auto at = cuda.captures.find(stream);
  if (at == cuda.captures.end()) {
    return fake_cuda::latch(cudaErrorIllegalState);
  }
  const fake_cuda::Capture capture = std::move(at->second);
  cuda.captures.erase(at);
  *graph = nullptr;
  if (capture.broken_off) {
    return fake_cuda::latch(cudaErrorStreamCaptureInvalidated);
  }
  *graph = reinterpret_cast<cudaGraph_t>(new fake_cuda::Work{capture.work});
  ++cuda.live;
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  if (const cudaError_t status = fake_cuda::unsafe(); status != cudaSuccess) {
    return status;
  }
  const auto& work = *reinterpret_cast<fake_cuda::Work*>(graph);
  *exec = reinterpret_cast<cudaGraphExec_t>(new fake_cuda::Work{work});
  const std::scoped_lock lock{fake_cuda::runtime().mutex};
  ++fake_cuda::runtime().live;
  return cudaSuccess;
}
static cudaError_t drop_work(void* work) {
  delete static_cast<fake_cuda::Work*>(work);
  const std::scoped_lock lock{fake_cuda::runtime().mutex};
  --fake_cuda::runtime().live;
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return drop_work(graph);
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  const cudaError_t before = fake_cuda::latched;
  fake_cuda::unsafe();
  fake_cuda::latched = before; // this call latches no error
  return drop_work(exec);
}
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) {
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  const auto& work = *reinterpret_cast<fake_cuda::Work*>(exec);
  for (const auto& one : work) {
    fake_cuda::enqueue(stream, one);
  }
  return cudaSuccess;
}
}
