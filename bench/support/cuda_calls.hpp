// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/cuda/cupti.hpp>

#include <algorithm>
#include <cstdint>
#include <string_view>

#include <cupti.h>

namespace penstock_bench {

/// How often a program has called the CUDA runtime.
struct CallCounts {
  std::uint64_t syncs{};       ///< Calls that wait for the GPU: those named so, and cudaMemcpy.
  std::uint64_t allocations{}; ///< Of device memory or of page-locked memory, or page-locking.
  std::uint64_t launches{};    ///< Of kernels and of graphs, one each.
};

/// Counts calls of all threads from its making until stop(), by CUPTI's callbacks, which make calls
/// slower. One at a time.
class CudaCalls {
 public:
  CudaCalls() {
    using penstock::detail::cupti_check;
    cupti_check(cuptiSubscribe(&subscriber_, &called, this), "cuptiSubscribe");
    cupti_check(cuptiEnableDomain(1, subscriber_, CUPTI_CB_DOMAIN_RUNTIME_API),
                "cuptiEnableDomain");
  }
  CudaCalls(const CudaCalls&) = delete;
  CudaCalls& operator=(const CudaCalls&) = delete;
  ~CudaCalls() { end(); }

  CallCounts stop() {
    end();
    return {syncs_.load(Atomics::relaxed), allocations_.load(Atomics::relaxed),
            launches_.load(Atomics::relaxed)};
  }

 private:
  using Atomics = penstock::StdAtomics;

  void end() {
    if (subscriber_ != nullptr) {
      cuptiUnsubscribe(subscriber_);
      subscriber_ = nullptr;
    }
  }
  static void CUPTIAPI called(void* counter, CUpti_CallbackDomain, CUpti_CallbackId,
                              const void* data) {
    const auto& call = *static_cast<const CUpti_CallbackData*>(data);
    if (call.callbackSite == CUPTI_API_ENTER) {
      static_cast<CudaCalls*>(counter)->count(call.functionName);
    }
  }
  void count(std::string_view name) {
    name = name.substr(0, name.find('_')); // behind it stands a version
    const auto is_one_of = [name](auto... names) { return ((name == names) || ...); };
    if (is_one_of("cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize",
                  "cudaMemcpy")) {
      syncs_.fetch_add(1, Atomics::relaxed);
    } else if (is_one_of("cudaMalloc", "cudaMallocAsync", "cudaMallocManaged", "cudaMallocHost",
                         "cudaHostAlloc", "cudaHostRegister")) {
      allocations_.fetch_add(1, Atomics::relaxed);
    } else if (is_one_of("cudaLaunchKernel", "cudaLaunchKernelExC", "cudaGraphLaunch")) {
      launches_.fetch_add(1, Atomics::relaxed);
    }
  }

  CUpti_SubscriberHandle subscriber_{};
  Atomics::Atomic<std::uint64_t> syncs_{0};
  Atomics::Atomic<std::uint64_t> allocations_{0};
  Atomics::Atomic<std::uint64_t> launches_{0};
};

} // namespace penstock_bench
