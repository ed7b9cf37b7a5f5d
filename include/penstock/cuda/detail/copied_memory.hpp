// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/cuda/detail/cupti_calls.hpp>
#include <penstock/cuda/error.hpp>

#include <cstddef>
#include <cstdint>

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

/// Returns the bytes of a copy in one dimension if it goes from or to pageable memory, else 0. The
/// call must be about to begin.
inline std::uint64_t pageable_bytes(const SeenCall& call) noexcept {
  const auto of = [&](const auto& copy) -> std::uint64_t {
    return is_pageable(copy.src) || is_pageable(copy.dst) ? copy.count : 0;
  };
  const void* const given = call.data->functionParams;
  if (call.domain == CUPTI_CB_DOMAIN_RUNTIME_API) {
    switch (call.id) {
    case CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy_v3020:
      return of(*static_cast<const cudaMemcpy_v3020_params*>(given));
    case CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy_ptds_v7000:
      return of(*static_cast<const cudaMemcpy_ptds_v7000_params*>(given));
    case CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020:
      return of(*static_cast<const cudaMemcpyAsync_v3020_params*>(given));
    case CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_ptsz_v7000:
      return of(*static_cast<const cudaMemcpyAsync_ptsz_v7000_params*>(given));
    default:
      return 0;
    }
  }
  const auto of_host = [](const void* host, std::size_t bytes) -> std::uint64_t {
    return is_pageable(host) ? bytes : 0;
  };
  switch (call.id) {
  case CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoD_v2: {
    const auto& copy = *static_cast<const cuMemcpyHtoD_v2_params*>(given);
    return of_host(copy.srcHost, copy.ByteCount);
  }
  case CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2: {
    const auto& copy = *static_cast<const cuMemcpyHtoDAsync_v2_params*>(given);
    return of_host(copy.srcHost, copy.ByteCount);
  }
  case CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoH_v2: {
    const auto& copy = *static_cast<const cuMemcpyDtoH_v2_params*>(given);
    return of_host(copy.dstHost, copy.ByteCount);
  }
  case CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync_v2: {
    const auto& copy = *static_cast<const cuMemcpyDtoHAsync_v2_params*>(given);
    return of_host(copy.dstHost, copy.ByteCount);
  }
  default:
    return 0;
  }
}

} // namespace penstock::detail
