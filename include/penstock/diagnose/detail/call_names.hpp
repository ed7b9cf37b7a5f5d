// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace penstock::detail {

/// What a function of CUDA's runtime or driver is for.
enum class CudaCall : std::uint8_t { other, launch, wait, allocation, page_lock, release, copy };

/// Returns the name without the version that CUPTI adds: cudaMalloc for cudaMalloc_v3020,
/// cuMemAlloc for cuMemAlloc_v2, and cudaLaunchKernel for __cudaLaunchKernel_v13000.
constexpr std::string_view plain_name(std::string_view name) noexcept {
  for (const std::string_view suffix : {"_v", "_ptsz", "_ptds"}) {
    if (const auto at = name.find(suffix); at != name.npos && at != 0) {
      name = name.substr(0, at);
    }
  }
  // What <<<>>> calls is __cudaLaunchKernel() from CUDA 13 on.
  return name.substr(std::min(name.find_first_not_of('_'), name.size()));
}

/// Tells by its name what a function is for. The names say it: both APIs are regular.
constexpr CudaCall cuda_call(std::string_view name) noexcept {
  name = plain_name(name);
  const auto begins = [&](auto... with) { return (name.starts_with(with) || ...); };
  const auto is = [&](auto... one) { return ((name == std::string_view{one}) || ...); };
  if (name.ends_with("Synchronize")) {
    return CudaCall::wait;
  }
  // Not cudaLaunchHostFunc(), which nothing on the GPU follows.
  if (begins("cudaLaunch", "cudaGraphLaunch", "cuLaunch", "cuGraphLaunch") &&
      !begins("cudaLaunchHostFunc", "cuLaunchHostFunc")) {
    return CudaCall::launch;
  }
  if (begins("cudaMemcpy", "cudaMemset", "cudaMemPrefetch", "cudaMemDiscardAndPrefetch", "cuMemcpy",
             "cuMemset", "cuMemPrefetch", "cuMemDiscardAndPrefetch")) {
    return CudaCall::copy;
  }
  if (is("cudaHostAlloc", "cudaMallocHost", "cudaHostRegister", "cuMemHostAlloc", "cuMemAllocHost",
         "cuMemHostRegister")) {
    return CudaCall::page_lock;
  }
  if (begins("cudaMalloc", "cuMemAlloc") ||
      is("cuMemCreate", "cuArrayCreate", "cuArray3DCreate", "cuMipmappedArrayCreate")) {
    return CudaCall::allocation;
  }
  if (begins("cudaFree", "cuMemFree") ||
      is("cudaHostUnregister", "cuMemHostUnregister", "cuMemRelease", "cuArrayDestroy",
         "cuMipmappedArrayDestroy", "cudaMemPoolTrimTo", "cuMemPoolTrimTo")) {
    return CudaCall::release;
  }
  return CudaCall::other;
}

/// Whether such a function copies between the host and the GPU, and returns when that is done. A
/// memset and a copy within the GPU return before.
constexpr bool copy_waits(std::string_view name) noexcept {
  name = plain_name(name);
  const auto has = [&](auto... part) { return ((name.find(part) != name.npos) || ...); };
  return (name.starts_with("cudaMemcpy") || name.starts_with("cuMemcpy")) &&
         !has("Async", "Peer", "DtoD", "DtoA", "AtoD", "AtoA", "ArrayToArray");
}

/// Whether a kernel of that name multiplies matrices, or convolves: as cuBLAS, cuDNN, CUTLASS and
/// those who write their own name them.
constexpr bool is_product(std::string_view kernel) noexcept {
  for (const std::string_view part : {"gemm", "GEMM", "Gemm", "matmul", "nvjet", "cutlass", "xmma",
                                      "convolve", "winograd", "wgrad", "dgrad", "fprop"}) {
    if (kernel.find(part) != kernel.npos) {
      return true;
    }
  }
  return false;
}

} // namespace penstock::detail
