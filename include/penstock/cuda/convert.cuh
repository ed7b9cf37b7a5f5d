// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/cuda/detail/launch.cuh>
#include <penstock/host/convert.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <cuda_runtime.h>

// Work on a GPU's stream, with the signatures that host/convert.hpp has for a HostStream&. What
// cuda/algorithm.cuh says of its algorithms holds for these too. For nvcc alone.
namespace penstock {

namespace detail {

/// How many elements a thread takes at once: those of the larger type fill a widest access, so that
/// the threads of a warp read and write adjacent memory, whatever the other type.
template <class T, class R> constexpr std::size_t elements_at_once() {
  constexpr std::size_t larger = std::max(sizeof(T), sizeof(R));
  constexpr bool powers = std::has_single_bit(sizeof(T)) && std::has_single_bit(sizeof(R));
  return powers && larger <= widest_access ? widest_access / larger : 1;
}

/// How many packs a thread loads before it stores the first, so that enough loads are under way.
inline constexpr unsigned packs_at_once = 4;

/// Takes the first `head` elements, and those after the last whole pack, one by one.
template <std::size_t size, class T, class R, class Op>
__global__ void __launch_bounds__(block_threads)
    transform_kernel(const T* in, std::size_t n, R* out, std::size_t head, Op op) {
  const std::size_t packs = (n - head) / size;
  const std::size_t packed = packs * size;
  const std::size_t thread = std::size_t{blockIdx.x} * block_threads + threadIdx.x;
  if (thread < n - packed) {
    const std::size_t i = thread < head ? thread : thread + packed;
    out[i] = op(in[i]);
  }
  in += head;
  out += head;
  constexpr std::size_t block_packs = std::size_t{block_threads} * packs_at_once;
  for (std::size_t from = blockIdx.x * block_packs + threadIdx.x; from < packs;
       from += gridDim.x * block_packs) {
    Pack<T, size> taken[packs_at_once];
#pragma unroll
    for (unsigned k = 0; k < packs_at_once; ++k) {
      if (const std::size_t at = from + k * block_threads; at < packs) {
        taken[k] = Pack<T, size>::load(in + at * size);
      }
    }
#pragma unroll
    for (unsigned k = 0; k < packs_at_once; ++k) {
      if (const std::size_t at = from + k * block_threads; at < packs) {
        Pack<R, size> made;
#pragma unroll
        for (std::size_t element = 0; element < size; ++element) {
          made.elements[element] = op(taken[k].elements[element]);
        }
        made.store(out + at * size);
      }
    }
  }
}

} // namespace detail

/// Sets out[i] = op(in[i]) for each i from 0 to n - 1, in no order to rely on; both are device
/// memory. `out` may be `in` if T and R have the same size; else they must not overlap. `op` is
/// copied to the GPU, and what it points to must be there.
///
/// Types of 1, 2, 4, 8 and 16 bytes are read and written 16 bytes at once if `in` and `out` allow
/// it: both, or both after the same few elements, must be aligned to as many elements as fit into
/// 16 bytes.
template <class T, class R, class Op>
void transform(cudaStream_t stream, const T* in, std::size_t n, R* out, Op op) {
  static_assert(std::is_trivially_copyable_v<Op>,
                "penstock: a functor is copied to the GPU byte by byte, so it must be trivially "
                "copyable: let it hold pointers and numbers only.");
  using namespace detail;
  constexpr std::size_t size = elements_at_once<T, R>();
  constexpr std::size_t block_packs = std::size_t{block_threads} * packs_at_once;
  if (n == 0) {
    return;
  }
  if constexpr (size > 1) {
    for (std::size_t head = 0; head < std::min(size, n); ++head) {
      if (reinterpret_cast<std::uintptr_t>(in + head) % (size * sizeof(T)) == 0 &&
          reinterpret_cast<std::uintptr_t>(out + head) % (size * sizeof(R)) == 0) {
        launch(stream, n / size, block_packs, transform_kernel<size, T, R, Op>, in, n, out, head,
               op);
        return;
      }
    }
  }
  launch(stream, n, block_packs, transform_kernel<1, T, R, Op>, in, n, out, std::size_t{0}, op);
}

/// Sets out[i] = in[i] * scale + bias for each i from 0 to n - 1, as convert() on a HostStream&
/// does, to the last bit; both are device memory. `out` may be `in` if T and R have the same size;
/// else they must not overlap. It moves memory as transform() does.
template <class T, class R>
void convert(cudaStream_t stream, const T* in, std::size_t n, R* out, float scale = 1.0F,
             float bias = -0.0F) {
  transform(stream, in, n, out, detail::Rescale<T, R>{scale, bias});
}

} // namespace penstock
