// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/diagnose/detail/activity_intervals.hpp>
#include <penstock/diagnose/detail/activity_records.hpp>
#include <penstock/diagnose/detail/call_names.hpp>
#include <penstock/diagnose/detail/cupti_calls.hpp>
#include <penstock/diagnose/detail/idle_sweep.hpp>
#include <penstock/diagnose/detail/watch_timeline.hpp>
#include <penstock/diagnose/gpu_watch_summary.hpp>
#include <penstock/machine/usable.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <cupti.h>
#include <sys/resource.h>

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

/// What the process has used so far.
struct ProcessUse {
  double cpu_s{};             ///< Processor seconds, in the system too.
  std::uint64_t peak_bytes{}; ///< Most memory it had at once.
  unsigned processors{};      ///< Processors that it may use.

  static ProcessUse now() noexcept {
    ProcessUse use;
    rusage used{};
    if (getrusage(RUSAGE_SELF, &used) == 0) {
      const auto seconds = [](const timeval& time) {
        return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
      };
      use.cpu_s = seconds(used.ru_utime) + seconds(used.ru_stime);
      use.peak_bytes = static_cast<std::uint64_t>(used.ru_maxrss) * 1024;
    }
    use.processors = usable_processors();
    return use;
  }
};

/// What a watch counts from its beginning on, or from the first cudaProfilerStart(). A copy can be
/// summed up while the watch goes on.
class WatchSums {
 public:
  void add(const SeenCall& call, double seconds) noexcept {
    WatchedCalls& function = functions_[number(call.domain)][call.id];
    ++function.calls;
    function.seconds += seconds;
    loop_.add(call.kind, seconds);
  }
  /// Fills in all that is counted here, and what CUPTI's records say. `use`: what the process has
  /// used by now.
  void finish(WatchSummary& sum, const ProcessUse& use, ActivityRecords& records) {
    sum.gpu.dropped = records.dropped;
    timeline.finish(sum);
    sum.loop = loop_.later();
    for (const CUpti_CallbackDomain domain :
         {CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_CB_DOMAIN_DRIVER_API}) {
      for (std::uint32_t id = 0; id != CallSubscription::most_ids; ++id) {
        if (const WatchedCalls& calls = functions_[number(domain)][id]; calls.calls != 0) {
          add_function(sum, CallSubscription::name_of(domain, id), calls);
        }
      }
    }
    for (auto& [name, kernel] : records.kernels) {
      kernel.sum.sizes = kernel.sizes.size();
      sum.kernels.push_back(std::move(kernel.sum));
    }
    std::ranges::stable_sort(sum.functions, [](const auto& a, const auto& b) {
      return a.calls.seconds > b.calls.seconds;
    });
    std::ranges::stable_sort(sum.kernels,
                             [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
    sum.device_memory = records.device_memory;
    sum.memory_bytes_per_s = records.memory_bytes_per_s;
    sum.host_peak_bytes = use.peak_bytes;
    sum.cpu_s = use.cpu_s - before_.cpu_s;
    sum.processors = use.processors;
  }

  WatchTimeline timeline; ///< What happened when.

 private:
  static std::size_t number(CUpti_CallbackDomain domain) noexcept {
    return domain == CUPTI_CB_DOMAIN_DRIVER_API ? 1 : 0;
  }
  static void add_function(WatchSummary& sum, const char* name, const WatchedCalls& calls) {
    const std::string plain{plain_name(name)};
    const auto same = std::ranges::find(sum.functions, plain, &WatchedFunction::name);
    WatchedFunction& function = same != sum.functions.end()
                                    ? *same
                                    : sum.functions.emplace_back(WatchedFunction{plain, {}});
    const auto add = [&](WatchedCalls& to) {
      to.calls += calls.calls;
      to.seconds += calls.seconds;
    };
    add(function.calls);
    switch (cuda_call(name)) {
    case CudaCall::launch:
      return add(sum.launches);
    case CudaCall::wait:
      return add(sum.waits);
    case CudaCall::page_lock:
      add(sum.page_locks);
      return add(sum.allocations);
    case CudaCall::allocation:
      return add(sum.allocations);
    case CudaCall::release:
      return add(sum.releases);
    case CudaCall::copy:
      return add(sum.copies);
    case CudaCall::other:
      return;
    }
  }

  std::array<std::array<WatchedCalls, CallSubscription::most_ids>, 2> functions_{};
  LoopCalls loop_;
  ProcessUse before_{ProcessUse::now()};
};

} // namespace penstock::detail
