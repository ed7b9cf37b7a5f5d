// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/cuda/detail/launch.cuh>
#include <penstock/host/algorithm.hpp>

#include <cstddef>
#include <type_traits>

#include <cuda_runtime.h>

// The part of cuda/algorithm.cuh that needs no CUB, so that it compiles in less time. All that is
// said there holds for it.
namespace penstock {

namespace detail {

template <class F> __global__ void __launch_bounds__(block_threads)
    for_each_kernel(std::size_t n, F f) {
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step) {
    f(i);
  }
}

} // namespace detail

/// Calls f(i) for each i from 0 to n - 1, in no order to rely on. `f` is copied to the GPU, and
/// what it points to must be there.
template <class F> void for_each(cudaStream_t stream, std::size_t n, F f) {
  static_assert(std::is_trivially_copyable_v<F>,
                "penstock: a functor is copied to the GPU byte by byte, so it must be trivially "
                "copyable: let it hold pointers and numbers only.");
  if (n == 0) {
    return;
  }
  detail::launch(stream, n, detail::block_threads, detail::for_each_kernel<F>, n, f);
}

} // namespace penstock
