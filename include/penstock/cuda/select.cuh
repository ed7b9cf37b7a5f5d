// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/callables/workspace.hpp>
#include <penstock/cuda/algorithm.cuh>
#include <penstock/cuda/error.hpp>
#include <penstock/host/select.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <cub/device/device_select.cuh>
#include <cuda_runtime.h>

// Work on a GPU's stream, with the signatures that host/select.hpp has for a HostStream&. What
// cuda/algorithm.cuh says of its algorithms holds for these too. For nvcc alone. Any n will do,
// also more than 2^31.
namespace penstock {

/// Copies those of in[0] to in[n - 1] for which `predicate` is true, in their order, to the front
/// of `out`, and writes their number to *count. All are device memory, and must not overlap; `out`
/// has room for n. `predicate(const T&)` is copied to the GPU, and what it points to must be there.
/// The workspace needs some 16 bytes for each thousand elements; throws Error if it has less.
template <class T, class Predicate>
void select(cudaStream_t stream, const T* in, std::size_t n, Predicate predicate, T* out,
            std::uint64_t* count, Workspace<CudaDevice>& workspace) {
  static_assert(std::is_trivially_copyable_v<Predicate>,
                "penstock: a functor is copied to the GPU byte by byte, so it must be trivially "
                "copyable: let it hold pointers and numbers only.");
  if (n == 0) {
    detail::cuda_check(cudaMemsetAsync(count, 0, sizeof *count, stream), "cudaMemsetAsync");
    return;
  }
  detail::with_scratch("select", workspace, 0, [&](void* scratch, std::size_t& bytes) {
    return cub::DeviceSelect::If(scratch, bytes, in, out, count, static_cast<std::int64_t>(n),
                                 predicate, stream);
  });
}

} // namespace penstock
