// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/cuda/convert.cuh>
#include <penstock/cuda/detail/launch.cuh>
#include <penstock/data/column.hpp>
#include <penstock/host/normalize.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <cuda_runtime.h>

// Work on a GPU's stream, with the signatures that host/normalize.hpp has for a HostStream&. What
// cuda/algorithm.cuh says of its algorithms holds for these too. For nvcc alone.
namespace penstock {

namespace detail {

/// Each turn of a block is a piece of one plane, so that its channel is looked up once.
template <std::size_t size, class R, std::size_t channels>
__global__ void __launch_bounds__(block_threads)
    normalize_kernel(const std::uint8_t* in, std::size_t planes, std::size_t pixels, R* out,
                     NormalizedChannels<R, channels> by) {
  constexpr std::size_t block_packs = std::size_t{block_threads} * packs_at_once;
  const std::size_t packs = pixels / size;
  const std::size_t pieces = (packs + block_packs - 1) / block_packs;
  for (std::size_t turn = blockIdx.x; turn < planes * pieces; turn += gridDim.x) {
    const std::size_t plane = turn / pieces;
    const std::size_t from = turn % pieces * block_packs + threadIdx.x;
    const Normalized<R> op = by.of[plane % channels];
    const std::uint8_t* const plane_in = in + plane * pixels;
    R* const plane_out = out + plane * pixels;
    Pack<std::uint8_t, size> taken[packs_at_once];
#pragma unroll
    for (unsigned k = 0; k < packs_at_once; ++k) {
      if (const std::size_t at = from + k * block_threads; at < packs) {
        taken[k] = Pack<std::uint8_t, size>::load(plane_in + at * size);
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
        made.store(plane_out + at * size);
      }
    }
  }
}

} // namespace detail

/// Sets each value of `out` to (in / 255 - mean) / deviation of its channel, as normalize() on a
/// HostStream& does, to the last bit; both are device memory, and must not overlap. 16 bytes are
/// written at once if `pixels` is a multiple of the elements in 16 bytes, and `in` and `out` are
/// aligned to as many.
template <std::size_t Channels, class R>
void normalize(cudaStream_t stream, const std::uint8_t* in, std::size_t images, std::size_t pixels,
               R* out, const ChannelScale<Channels>& by) {
  using namespace detail;
  constexpr std::size_t size = elements_at_once<std::uint8_t, R>();
  constexpr std::size_t block_packs = std::size_t{block_threads} * packs_at_once;
  if (images == 0 || pixels == 0) {
    return;
  }
  const std::size_t planes = images * Channels;
  const NormalizedChannels<R, Channels> channels{by};
  const auto turns = [&](std::size_t packs) {
    return planes * ((packs + block_packs - 1) / block_packs);
  };
  const bool in_packs = pixels % size == 0 && reinterpret_cast<std::uintptr_t>(in) % size == 0 &&
                        reinterpret_cast<std::uintptr_t>(out) % (size * sizeof(R)) == 0;
  if (in_packs) {
    launch(stream, turns(pixels / size), 1, normalize_kernel<size, R, Channels>, in, planes, pixels,
           out, channels);
  } else {
    launch(stream, turns(pixels), 1, normalize_kernel<1, R, Channels>, in, planes, pixels, out,
           channels);
  }
}
/// Does so to a batch's column of pictures.
template <class T, std::size_t Channels, std::size_t Height, std::size_t Width, class R>
  requires(std::is_same_v<std::remove_const_t<T>, std::uint8_t> && Channels != dynamic)
void normalize(cudaStream_t stream, const Column<T, Channels, Height, Width>& images, R* out,
               const std::type_identity_t<ChannelScale<Channels>>& by) {
  normalize(stream, static_cast<const std::uint8_t*>(images.data()), images.size(),
            images.elements() / Channels, out, by);
}

} // namespace penstock
