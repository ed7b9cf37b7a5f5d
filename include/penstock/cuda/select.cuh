// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/cuda/algorithm.cuh>
#include <penstock/cuda/detail/launch.cuh>
#include <penstock/cuda/error.hpp>
#include <penstock/host/select.hpp>
#include <penstock/workspace.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <cub/device/device_scan.cuh>
#include <cub/device/device_select.cuh>
#include <cuda/std/functional>
#include <cuda_runtime.h>
#include <thrust/iterator/transform_iterator.h>

// Work on a GPU's stream, with the signatures that select.hpp has for a HostStream&: what
// cuda/algorithm.cuh says of its algorithms holds for these. For nvcc alone. Any n will do: more
// than 2^31 too.
namespace penstock {

namespace detail {

/// Reads each T as an R, since CUB adds up in the type that it reads.
template <class R, class T> auto read_as(const T* in) {
  if constexpr (std::is_same_v<T, R>) {
    return in;
  } else {
    return thrust::transform_iterator<ConvertTo<R>, const T*, R, R>{in, ConvertTo<R>{}};
  }
}

/// With scratch from byte `from` of the workspace on.
template <class T, class R>
void inclusive_sum(const char* call_name, cudaStream_t stream, const T* in, std::size_t n, R* out,
                   Workspace<CudaDevice>& workspace, std::size_t from) {
  with_scratch(call_name, workspace, from, [&](void* scratch, std::size_t& bytes) {
    return cub::DeviceScan::InclusiveScan(scratch, bytes, read_as<R>(in), out, cuda::std::plus<R>{},
                                          n, stream);
  });
}

} // namespace detail

/// out[i] = in[0] + ... + in[i - 1], added up as R, and 0 for the first; both are device memory, of
/// n elements. `out` may be `in` if T is R; else they must not overlap. How sums of floating-point
/// numbers are grouped, and so rounded, is not fixed. The workspace needs some 16 bytes for each
/// thousand elements; Error tells if it has less.
template <class T, class R>
void exclusive_sum(cudaStream_t stream, const T* in, std::size_t n, R* out,
                   Workspace<CudaDevice>& workspace) {
  if (n == 0) {
    return;
  }
  detail::with_scratch("exclusive_sum", workspace, 0, [&](void* scratch, std::size_t& bytes) {
    return cub::DeviceScan::ExclusiveScan(scratch, bytes, detail::read_as<R>(in), out,
                                          cuda::std::plus<R>{}, R{}, n, stream);
  });
}

/// out[i] = in[0] + ... + in[i]; all else as exclusive_sum().
template <class T, class R>
void inclusive_sum(cudaStream_t stream, const T* in, std::size_t n, R* out,
                   Workspace<CudaDevice>& workspace) {
  if (n != 0) {
    detail::inclusive_sum("inclusive_sum", stream, in, n, out, workspace, 0);
  }
}

/// Copies those of in[0] to in[n - 1] for which `predicate` is true, in their order, to the front
/// of `out`, and writes to *count how many they are. All are device memory, and must not overlap;
/// `out` has room for n. `predicate(const T&)` is copied to the GPU, and what it points to must be
/// there. The workspace needs some 16 bytes for each thousand elements; Error tells if it has less.
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

namespace detail {

/// What a block decodes at once.
inline constexpr std::size_t decoded_at_once = 4096;

/// The first of the runs `first` to `last` that ends behind `position`; the last one does.
__device__ inline std::size_t run_at(const std::uint64_t* ends, std::size_t first, std::size_t last,
                                     std::uint64_t position) {
  while (first < last) {
    const std::size_t middle = first + (last - first) / 2;
    if (ends[middle] > position) {
      last = middle;
    } else {
      first = middle + 1;
    }
  }
  return first;
}

/// `ends[run]` is the sum of the lengths up to that run. Each block finds the runs of its first and
/// its last element among all; its threads search between those two, which lie in the cache.
template <class T>
__global__ void __launch_bounds__(block_threads)
    run_length_kernel(const T* values, const std::uint64_t* ends, std::size_t runs, T* out,
                      std::size_t capacity, std::uint64_t* total) {
  const std::uint64_t all = ends[runs - 1];
  const std::size_t decoded = all < capacity ? all : capacity;
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    *total = all;
  }
  __shared__ std::size_t outer_runs[2];
  for (std::size_t from = blockIdx.x * decoded_at_once; from < decoded;
       from += gridDim.x * decoded_at_once) {
    const std::size_t to = decoded - from < decoded_at_once ? decoded : from + decoded_at_once;
    if (threadIdx.x < 2) {
      outer_runs[threadIdx.x] = run_at(ends, 0, runs - 1, threadIdx.x == 0 ? from : to - 1);
    }
    __syncthreads();
    for (std::size_t i = from + threadIdx.x; i < to; i += block_threads) {
      out[i] = values[run_at(ends, outer_runs[0], outer_runs[1], i)];
    }
    __syncthreads(); // before the next two runs take the place of these
  }
}

} // namespace detail

/// Writes values[0] lengths[0] times, then values[1] lengths[1] times, and so on, for `runs` runs;
/// a length may be 0 and must not be negative. Only the first `capacity` elements are written, but
/// *total becomes the sum of all lengths: more than `capacity` if some did not fit. All are device
/// memory, and must not overlap. The workspace needs 8 bytes for each run, and what
/// inclusive_sum() needs for them; Error tells if it has less.
template <class T, class Length>
void run_length_decode(cudaStream_t stream, const T* values, const Length* lengths,
                       std::size_t runs, T* out, std::size_t capacity, std::uint64_t* total,
                       Workspace<CudaDevice>& workspace) {
  static_assert(std::is_integral_v<Length>, "penstock: lengths are integers.");
  using namespace detail;
  if (runs == 0) {
    cuda_check(cudaMemsetAsync(total, 0, sizeof *total, stream), "cudaMemsetAsync");
    return;
  }
  auto* const ends = static_cast<std::uint64_t*>(workspace.data());
  const std::size_t scratch_from = (runs * sizeof *ends + 255) / 256 * 256;
  inclusive_sum("run_length_decode", stream, lengths, runs, ends, workspace, scratch_from);
  launch(stream, capacity, decoded_at_once, run_length_kernel<T>, values,
         static_cast<const std::uint64_t*>(ends), runs, out, capacity, total);
}

} // namespace penstock
