// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/callables/workspace.hpp>
#include <penstock/config.hpp>
#include <penstock/cuda/detail/launch.cuh>
#include <penstock/cuda/device.hpp>
#include <penstock/cuda/error.hpp>
#include <penstock/host/algorithm.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <cub/device/device_histogram.cuh>
#include <cub/device/device_reduce.cuh>
#if CUDART_VERSION < 12080
#include <cub/iterator/transform_input_iterator.cuh>
#endif
#include <cub/device/device_select.cuh>
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

// Work on a GPU's stream, with the signatures that host/algorithm.hpp has for a HostStream&: code
// for both devices includes this header under nvcc, and that one otherwise. For nvcc alone, and an
// extra, since it takes seconds to compile.
//
// The stream's device must be the calling thread's current one (CudaDevice::attach()), as it is in
// a pipeline's callables. All functions return at once and run in the stream's order. Functors must
// be callable on the GPU: named ones, with PENSTOCK_HD. All throw CudaError if CUDA refuses the
// work.
namespace penstock {

namespace detail {

template <class R> struct ConvertTo {
  template <class T> PENSTOCK_HD R operator()(const T& value) const {
    return static_cast<R>(value);
  }
};

/// Throws CudaError if an error is pending before a call of CUB, which would take that error for
/// its own and clear it. The error stays pending.
inline void check_nothing_pending(const char* call_name) {
  if (const cudaError_t pending = cudaPeekAtLastError(); pending != cudaSuccess) {
    throw CudaError{"penstock: " + std::string{call_name} + " was called while an error of an " +
                        "earlier CUDA call was pending in this thread: " + cuda_text(pending) +
                        ". See to that call, and take the error by cudaGetLastError() first.",
                    call_name, pending};
  }
}

/// Runs `call(scratch, bytes)`, a function of CUB, with the workspace's memory from byte `from` on.
template <class Call>
void with_scratch(const char* call_name, Workspace<CudaDevice>& workspace, std::size_t from,
                  Call call) {
  check_nothing_pending(call_name);
  // To tell what it needs, CUB asks the driver for occupancies. So it is asked only if the
  // workspace will not do, which is cudaErrorInvalidValue. Null and 0 bytes would be the question.
  cudaError_t status = cudaErrorInvalidValue;
  if (workspace.size() > from) {
    std::size_t bytes = workspace.size() - from;
    status = call(static_cast<std::byte*>(workspace.data()) + from, bytes);
  }
  if (status == cudaErrorInvalidValue) {
    cudaGetLastError();
    std::size_t needed = 0;
    cuda_check(call(nullptr, needed), call_name);
    workspace.require(from + needed, call_name);
  }
  cuda_check(status, call_name);
}

} // namespace detail

/// Sets *out to op over `init` and in[0] to in[n - 1], each made an R; `in` and `out` are device
/// memory. `op(R, R)` must be associative and commutative: the GPU groups as it likes. The
/// workspace needs some hundred KiB at most, for an R of 8 bytes; throws Error if it has less.
template <class T, class R, class Op>
void reduce(cudaStream_t stream, const T* in, std::size_t n, R* out, R init, Op op,
            Workspace<CudaDevice>& workspace) {
  detail::with_scratch("reduce", workspace, 0, [&](void* scratch, std::size_t& bytes) {
#if CUDART_VERSION >= 12080
    return cub::DeviceReduce::TransformReduce(scratch, bytes, in, out, n, op,
                                              detail::ConvertTo<R>{}, init, stream);
#else
    const cub::TransformInputIterator<R, detail::ConvertTo<R>, const T*> converted{in, {}};
    return cub::DeviceReduce::Reduce(scratch, bytes, converted, out, n, op, init, stream);
#endif
  });
}

namespace detail {

/// Counts the values of a piece in 32 bits, the width that CUB is tuned for.
using PieceCount = unsigned;
/// The most bytes of a piece: a multiple of 256, so that pieces keep the alignment of the first.
inline constexpr std::size_t most_piece_bytes = std::size_t{1} << 30;

struct AddCounts {
  const PieceCount* piece;
  std::uint64_t* counts;
  PENSTOCK_HD void operator()(std::size_t value) const { counts[value] += piece[value]; }
};

} // namespace detail

/// Adds to counts[v] how often each byte value v occurs in in[0] to in[n - 1]; both are device
/// memory, `counts` 256 numbers. The workspace needs some hundred KiB; throws Error if it has less.
inline void histogram(cudaStream_t stream, const std::uint8_t* in, std::size_t n,
                      std::uint64_t* counts, Workspace<CudaDevice>& workspace) {
  using namespace detail;
  auto* const piece = static_cast<PieceCount*>(workspace.data());
  for (std::size_t done = 0; done < n; done += most_piece_bytes) {
    const int bytes = static_cast<int>(std::min(n - done, most_piece_bytes));
    with_scratch("histogram", workspace, byte_values * sizeof(PieceCount),
                 [&](void* scratch, std::size_t& scratch_bytes) {
                   return cub::DeviceHistogram::HistogramEven(scratch, scratch_bytes, in + done,
                                                              piece, int{byte_values} + 1, 0,
                                                              int{byte_values}, bytes, stream);
                 });
    for_each(stream, byte_values, AddCounts{piece, counts});
  }
}

} // namespace penstock

// Work on a GPU's stream, with the signatures that host/algorithm.hpp has for a HostStream&. What
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
