// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/diagnose/detail/cupti_calls.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <cupti.h>

namespace penstock::detail {

/// Follows how much memory a program has allocated on the device, and page-locked on the host, by
/// its calls. For one thread at a time.
class AllocatedMemory {
 public:
  /// Notes a call that has ended. Throws std::bad_alloc.
  void add(const SeenCall& call) {
    const void* const given = call.data->functionParams;
    if (call.domain == CUPTI_CB_DOMAIN_RUNTIME_API) {
      if (*static_cast<const cudaError_t*>(call.data->functionReturnValue) == cudaSuccess) {
        runtime(call.id, given);
      }
    } else if (*static_cast<const CUresult*>(call.data->functionReturnValue) == CUDA_SUCCESS) {
      driver(call.id, given);
    }
  }

  std::uint64_t device_bytes{}; ///< Now.
  std::uint64_t device_most{};  ///< At the most.
  std::uint64_t page_locked{};  ///< All that was page-locked.

 private:
  template <class Params> static const Params& as(const void* given) {
    return *static_cast<const Params*>(given);
  }
  void runtime(CUpti_CallbackId id, const void* given) {
    switch (id) {
    case CUPTI_RUNTIME_TRACE_CBID_cudaMalloc_v3020:
      return allocated(*as<cudaMalloc_v3020_params>(given).devPtr,
                       as<cudaMalloc_v3020_params>(given).size);
    case CUPTI_RUNTIME_TRACE_CBID_cudaMallocPitch_v3020: {
      const auto& is = as<cudaMallocPitch_v3020_params>(given);
      return allocated(*is.devPtr, *is.pitch * is.height);
    }
    case CUPTI_RUNTIME_TRACE_CBID_cudaMalloc3D_v3020: {
      const auto& is = as<cudaMalloc3D_v3020_params>(given);
      return allocated(is.pitchedDevPtr->ptr,
                       is.pitchedDevPtr->pitch * is.extent.height * is.extent.depth);
    }
    case CUPTI_RUNTIME_TRACE_CBID_cudaMallocManaged_v6000:
      return allocated(*as<cudaMallocManaged_v6000_params>(given).devPtr,
                       as<cudaMallocManaged_v6000_params>(given).size);
    case CUPTI_RUNTIME_TRACE_CBID_cudaMallocAsync_v11020:
    case CUPTI_RUNTIME_TRACE_CBID_cudaMallocAsync_ptsz_v11020:
      return allocated(*as<cudaMallocAsync_v11020_params>(given).devPtr,
                       as<cudaMallocAsync_v11020_params>(given).size);
    case CUPTI_RUNTIME_TRACE_CBID_cudaMallocFromPoolAsync_v11020:
    case CUPTI_RUNTIME_TRACE_CBID_cudaMallocFromPoolAsync_ptsz_v11020:
      return allocated(*as<cudaMallocFromPoolAsync_v11020_params>(given).ptr,
                       as<cudaMallocFromPoolAsync_v11020_params>(given).size);
    case CUPTI_RUNTIME_TRACE_CBID_cudaFree_v3020:
      return released(as<cudaFree_v3020_params>(given).devPtr);
    case CUPTI_RUNTIME_TRACE_CBID_cudaFreeAsync_v11020:
    case CUPTI_RUNTIME_TRACE_CBID_cudaFreeAsync_ptsz_v11020:
      return released(as<cudaFreeAsync_v11020_params>(given).devPtr);
    case CUPTI_RUNTIME_TRACE_CBID_cudaHostAlloc_v3020:
      page_locked += as<cudaHostAlloc_v3020_params>(given).size;
      return;
    case CUPTI_RUNTIME_TRACE_CBID_cudaMallocHost_v3020:
      page_locked += as<cudaMallocHost_v3020_params>(given).size;
      return;
    case CUPTI_RUNTIME_TRACE_CBID_cudaHostRegister_v4000:
      page_locked += as<cudaHostRegister_v4000_params>(given).size;
      return;
    default:
      return;
    }
  }
  void driver(CUpti_CallbackId id, const void* given) {
    // A handle, as cuMemCreate() gives it, takes a pointer's place.
    const auto at = [](unsigned long long pointer) {
      return reinterpret_cast<const void*>(pointer);
    };
    switch (id) {
    case CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2:
      return allocated(at(*as<cuMemAlloc_v2_params>(given).dptr),
                       as<cuMemAlloc_v2_params>(given).bytesize);
    case CUPTI_DRIVER_TRACE_CBID_cuMemAllocPitch_v2: {
      const auto& is = as<cuMemAllocPitch_v2_params>(given);
      return allocated(at(*is.dptr), *is.pPitch * is.Height);
    }
    case CUPTI_DRIVER_TRACE_CBID_cuMemAllocManaged:
      return allocated(at(*as<cuMemAllocManaged_params>(given).dptr),
                       as<cuMemAllocManaged_params>(given).bytesize);
    case CUPTI_DRIVER_TRACE_CBID_cuMemAllocFromPoolAsync:
    case CUPTI_DRIVER_TRACE_CBID_cuMemAllocFromPoolAsync_ptsz:
      return allocated(at(*as<cuMemAllocFromPoolAsync_params>(given).dptr),
                       as<cuMemAllocFromPoolAsync_params>(given).bytesize);
    case CUPTI_DRIVER_TRACE_CBID_cuMemCreate:
      if (const auto& is = as<cuMemCreate_params>(given);
          is.prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
        allocated(at(*is.handle), is.size);
      }
      return;
    case CUPTI_DRIVER_TRACE_CBID_cuMemRelease:
      return released(at(as<cuMemRelease_params>(given).handle));
    case CUPTI_DRIVER_TRACE_CBID_cuMemAllocAsync:
    case CUPTI_DRIVER_TRACE_CBID_cuMemAllocAsync_ptsz:
      return allocated(at(*as<cuMemAllocAsync_params>(given).dptr),
                       as<cuMemAllocAsync_params>(given).bytesize);
    case CUPTI_DRIVER_TRACE_CBID_cuMemFree_v2:
      return released(at(as<cuMemFree_v2_params>(given).dptr));
    case CUPTI_DRIVER_TRACE_CBID_cuMemFreeAsync:
    case CUPTI_DRIVER_TRACE_CBID_cuMemFreeAsync_ptsz:
      return released(at(as<cuMemFreeAsync_params>(given).dptr));
    case CUPTI_DRIVER_TRACE_CBID_cuMemHostAlloc:
      page_locked += as<cuMemHostAlloc_params>(given).bytesize;
      return;
    case CUPTI_DRIVER_TRACE_CBID_cuMemAllocHost_v2:
      page_locked += as<cuMemAllocHost_v2_params>(given).bytesize;
      return;
    case CUPTI_DRIVER_TRACE_CBID_cuMemHostRegister_v2:
      page_locked += as<cuMemHostRegister_v2_params>(given).bytesize;
      return;
    default:
      return;
    }
  }
  void allocated(const void* at, std::size_t bytes) {
    bytes_of_.insert_or_assign(at, bytes);
    device_bytes += bytes;
    device_most = std::max(device_most, device_bytes);
  }
  void released(const void* at) {
    if (const auto found = bytes_of_.find(at); found != bytes_of_.end()) {
      device_bytes -= found->second;
      bytes_of_.erase(found);
    }
  }

  std::unordered_map<const void*, std::size_t> bytes_of_;
};

} // namespace penstock::detail
