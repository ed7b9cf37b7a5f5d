// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What does a run ask of the GPU, and what does the GPU do? It needs CUPTI, which comes with the
// CUDA toolkit, and -lcupti.

#include <penstock/cuda/error.hpp>
#include <penstock/detail/measure/times.hpp>
#include <penstock/diagnose/activity.hpp>
#include <penstock/diagnose/detail/cupti_calls.hpp>
#include <penstock/diagnose/host_observer.hpp>
#include <penstock/run/report.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <cupti.h>

namespace penstock::detail {

/// Whether memory is host memory that CUDA has not page-locked and does not manage.
inline bool is_pageable(const void* at) noexcept {
  cudaPointerAttributes is{};
  const cudaError_t status = cudaPointerGetAttributes(&is, at);
  cuda_ignore(status); // else the program would find the error
  return status == cudaSuccess && is.type == cudaMemoryTypeUnregistered;
}

/// The two sides of a copy, by their pointers; null for a side that is no memory of the host's.
struct CopySides {
  const void* from{};
  const void* to{};
  std::uint64_t bytes{};

  std::uint64_t pageable_bytes() const noexcept {
    const bool is = (from != nullptr && is_pageable(from)) || (to != nullptr && is_pageable(to));
    return is ? bytes : 0;
  }
};

/// Reads the parameters of the runtime's copies. With _ptds and _ptsz, the stream of each thread,
/// functions have the same parameters.
inline CopySides runtime_copy(CUpti_CallbackId id, const void* given) noexcept {
  const auto one = [](const auto& copy) -> CopySides { return {copy.src, copy.dst, copy.count}; };
  const auto two = [](const auto& copy) -> CopySides {
    return {copy.src, copy.dst, copy.width * copy.height};
  };
  const auto three = [](const cudaMemcpy3DParms& copy) -> CopySides {
    const cudaPitchedPtr& host = copy.srcArray != nullptr ? copy.dstPtr : copy.srcPtr;
    // With an array the extent is in its elements, which may have any size.
    const bool of_array = copy.srcArray != nullptr || copy.dstArray != nullptr;
    return {copy.srcArray != nullptr ? nullptr : copy.srcPtr.ptr,
            copy.dstArray != nullptr ? nullptr : copy.dstPtr.ptr,
            (of_array ? host.pitch : copy.extent.width) * copy.extent.height * copy.extent.depth};
  };
  switch (id) {
  case CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy_v3020:
  case CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy_ptds_v7000:
    return one(*static_cast<const cudaMemcpy_v3020_params*>(given));
  case CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020:
  case CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_ptsz_v7000:
    return one(*static_cast<const cudaMemcpyAsync_v3020_params*>(given));
  case CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy2D_v3020:
  case CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy2D_ptds_v7000:
    return two(*static_cast<const cudaMemcpy2D_v3020_params*>(given));
  case CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy2DAsync_v3020:
  case CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy2DAsync_ptsz_v7000:
    return two(*static_cast<const cudaMemcpy2DAsync_v3020_params*>(given));
  case CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy3D_v3020:
  case CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy3D_ptds_v7000:
    return three(*static_cast<const cudaMemcpy3D_v3020_params*>(given)->p);
  case CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy3DAsync_v3020:
  case CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy3DAsync_ptsz_v7000:
    return three(*static_cast<const cudaMemcpy3DAsync_v3020_params*>(given)->p);
  // An asynchronous copy from or to a symbol or an array begins with the parameters of the other.
  case CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyToSymbol_v3020:
  case CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyToSymbol_ptds_v7000:
  case CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyToSymbolAsync_v3020:
  case CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyToSymbolAsync_ptsz_v7000: {
    const auto& copy = *static_cast<const cudaMemcpyToSymbol_v3020_params*>(given);
    return {copy.src, nullptr, copy.count};
  }
  case CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyFromSymbol_v3020:
  case CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyFromSymbol_ptds_v7000:
  case CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyFromSymbolAsync_v3020:
  case CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyFromSymbolAsync_ptsz_v7000: {
    const auto& copy = *static_cast<const cudaMemcpyFromSymbol_v3020_params*>(given);
    return {nullptr, copy.dst, copy.count};
  }
  case CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy2DToArray_v3020:
  case CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy2DToArray_ptds_v7000:
  case CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy2DToArrayAsync_v3020:
  case CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy2DToArrayAsync_ptsz_v7000: {
    const auto& copy = *static_cast<const cudaMemcpy2DToArray_v3020_params*>(given);
    return {copy.src, nullptr, copy.width * copy.height};
  }
  case CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy2DFromArray_v3020:
  case CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy2DFromArray_ptds_v7000:
  case CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy2DFromArrayAsync_v3020:
  case CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy2DFromArrayAsync_ptsz_v7000: {
    const auto& copy = *static_cast<const cudaMemcpy2DFromArray_v3020_params*>(given);
    return {nullptr, copy.dst, copy.width * copy.height};
  }
  default:
    return {};
  }
}

/// Reads the parameters of the driver's copies; an asynchronous one begins with those of the other.
inline CopySides driver_copy(CUpti_CallbackId id, const void* given) noexcept {
  const auto at = [](CUdeviceptr pointer) { return reinterpret_cast<const void*>(pointer); };
  // Of unified memory the pointer of the device's side may be anything.
  const auto side = [&](CUmemorytype type, const void* host, CUdeviceptr device) -> const void* {
    return type == CU_MEMORYTYPE_HOST ? host : type == CU_MEMORYTYPE_UNIFIED ? at(device) : nullptr;
  };
  const auto sides = [&](const auto& copy, std::uint64_t depth) -> CopySides {
    return {side(copy.srcMemoryType, copy.srcHost, copy.srcDevice),
            side(copy.dstMemoryType, copy.dstHost, copy.dstDevice),
            copy.WidthInBytes * copy.Height * depth};
  };
  switch (id) {
  case CUPTI_DRIVER_TRACE_CBID_cuMemcpy:
  case CUPTI_DRIVER_TRACE_CBID_cuMemcpy_ptds:
  case CUPTI_DRIVER_TRACE_CBID_cuMemcpyAsync:
  case CUPTI_DRIVER_TRACE_CBID_cuMemcpyAsync_ptsz: {
    const auto& copy = *static_cast<const cuMemcpy_params*>(given);
    return {at(copy.src), at(copy.dst), copy.ByteCount};
  }
  case CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoD_v2:
  case CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoD_v2_ptds:
  case CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2:
  case CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2_ptsz: {
    const auto& copy = *static_cast<const cuMemcpyHtoD_v2_params*>(given);
    return {copy.srcHost, nullptr, copy.ByteCount};
  }
  case CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoH_v2:
  case CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoH_v2_ptds:
  case CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync_v2:
  case CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync_v2_ptsz: {
    const auto& copy = *static_cast<const cuMemcpyDtoH_v2_params*>(given);
    return {nullptr, copy.dstHost, copy.ByteCount};
  }
  case CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoA_v2:
  case CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoA_v2_ptds:
  case CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoAAsync_v2:
  case CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoAAsync_v2_ptsz: {
    const auto& copy = *static_cast<const cuMemcpyHtoA_v2_params*>(given);
    return {copy.srcHost, nullptr, copy.ByteCount};
  }
  case CUPTI_DRIVER_TRACE_CBID_cuMemcpyAtoH_v2:
  case CUPTI_DRIVER_TRACE_CBID_cuMemcpyAtoH_v2_ptds:
  case CUPTI_DRIVER_TRACE_CBID_cuMemcpyAtoHAsync_v2:
  case CUPTI_DRIVER_TRACE_CBID_cuMemcpyAtoHAsync_v2_ptsz: {
    const auto& copy = *static_cast<const cuMemcpyAtoH_v2_params*>(given);
    return {nullptr, copy.dstHost, copy.ByteCount};
  }
  case CUPTI_DRIVER_TRACE_CBID_cuMemcpy2D_v2:
  case CUPTI_DRIVER_TRACE_CBID_cuMemcpy2D_v2_ptds:
  case CUPTI_DRIVER_TRACE_CBID_cuMemcpy2DUnaligned_v2:
  case CUPTI_DRIVER_TRACE_CBID_cuMemcpy2DUnaligned_v2_ptds:
  case CUPTI_DRIVER_TRACE_CBID_cuMemcpy2DAsync_v2:
  case CUPTI_DRIVER_TRACE_CBID_cuMemcpy2DAsync_v2_ptsz:
    return sides(*static_cast<const cuMemcpy2D_v2_params*>(given)->pCopy, 1);
  case CUPTI_DRIVER_TRACE_CBID_cuMemcpy3D_v2:
  case CUPTI_DRIVER_TRACE_CBID_cuMemcpy3D_v2_ptds:
  case CUPTI_DRIVER_TRACE_CBID_cuMemcpy3DAsync_v2:
  case CUPTI_DRIVER_TRACE_CBID_cuMemcpy3DAsync_v2_ptsz: {
    const CUDA_MEMCPY3D& copy = *static_cast<const cuMemcpy3D_v2_params*>(given)->pCopy;
    return sides(copy, copy.Depth);
  }
  default:
    return {};
  }
}

/// Returns the bytes of a copy if it goes from or to pageable memory, else 0; 0 also for a batch of
/// copies. The call must be about to begin.
inline std::uint64_t pageable_bytes(const SeenCall& call) noexcept {
  const void* const given = call.data->functionParams;
  const CopySides sides = call.domain == CUPTI_CB_DOMAIN_RUNTIME_API ? runtime_copy(call.id, given)
                                                                     : driver_copy(call.id, given);
  return sides.pageable_bytes();
}

} // namespace penstock::detail

namespace penstock {

namespace detail {

/// Notes the calls that callables make, where calls_here says.
class CallsOfCallables final : public CallListener {
  using Clock = std::chrono::steady_clock;

 public:
  static CallsOfCallables& only() {
    static CallsOfCallables& listener = *new CallsOfCallables;
    return listener;
  }

  void enter(const SeenCall& call) noexcept override {
    CallCounts* const counts = counts_here();
    if (counts == nullptr) {
      return;
    }
    now = {counts, call.kind == CudaCall::copy ? pageable_bytes(call) : 0, {}};
    now.begin = Clock::now();
  }
  void leave(const SeenCall& call) noexcept override {
    CallCounts* const counts = now.counts;
    now.counts = nullptr;
    if (counts == nullptr || counts != calls_here || call.kind == CudaCall::other) {
      return;
    }
    const auto ns = (Clock::now() - now.begin) / std::chrono::nanoseconds{1};
    counts->add(kind_of(call.kind), static_cast<std::uint64_t>(ns), now.pageable_bytes);
  }

 private:
  struct Now {
    CallCounts* counts;
    std::uint64_t pageable_bytes;
    Clock::time_point begin;
  };
  inline static constinit thread_local Now now{};

  CallsOfCallables() = default;

  static CallKind kind_of(CudaCall kind) noexcept {
    switch (kind) {
    case CudaCall::launch:
      return CallKind::launch;
    case CudaCall::wait:
      return CallKind::wait;
    case CudaCall::copy:
      return now.pageable_bytes != 0 ? CallKind::pageable_copy : CallKind::copy;
    default:
      return CallKind::allocation;
    }
  }
};

} // namespace detail

/// Observes runs with CUPTI: `pipeline.run({.observe = &observer})`. The Report then says what
/// callables asked of CUDA (StageReport::calls), what the GPU did (Report::gpu), and what
/// HostObserver tells.
///
/// A call counts once, whatever CUDA's runtime calls for it; a call that is captured into a graph
/// counts when it is captured. Batches of copies count as copies of page-locked memory. It makes
/// calls and launches slower: time in one run, and observe in another. It keeps 32 bytes for each
/// kernel and copy of the run. Only one may be at work, and no GpuActivity, Watch or other profiler
/// in the process.
class GpuObserver : public HostObserver {
 public:
  /// Observes GPU `device`, as CUDA numbers them; calls count whatever their device.
  explicit GpuObserver(int device = 0) : device_{device} {}

  /// Throws CudaError, CuptiError, Error or std::bad_alloc if it cannot look on, and then holds
  /// nothing of CUPTI's.
  void begin() override {
    detail::CallSubscription::only().start(detail::CallsOfCallables::only());
    try {
      activity_.emplace(device_);
      HostObserver::begin();
    } catch (...) {
      activity_.reset();
      detail::CallSubscription::only().stop();
      throw;
    }
  }
  void end(Report& report) noexcept override {
    HostObserver::end(report);
    detail::CallSubscription::only().stop();
    try {
      report.gpu = activity_->stop();
    } catch (const std::exception&) { // the Report says so by having none
    }
    activity_.reset();
  }

 private:
  int device_;
  std::optional<GpuActivity> activity_;
};

} // namespace penstock
