// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/cuda/detail/launch.cuh>
#include <penstock/cuda/detail/pack.cuh>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <cuda_runtime.h>

// As cuda/convert.cuh, which includes it.
namespace penstock {

namespace detail {

inline constexpr unsigned tile_bits = 10;
inline constexpr unsigned tile_elements = 1U << tile_bits;
/// A shared memory's banks: what lies so many words apart is in the same one.
inline constexpr unsigned banks = 32;

/// A tile is 2^row_bits rows of 2^column_bits columns. Rows of the matrix that are narrower than a
/// tile's are read without a gap between them, all the same.
template <class T>
__global__ void __launch_bounds__(block_threads)
    transpose_kernel(const T* in, std::size_t rows, std::size_t columns, T* out, unsigned row_bits,
                     unsigned column_bits, std::size_t tiles) {
  // One place left out after each `banks`, so that neither way threads meet in a bank.
  alignas(T) __shared__ unsigned char bytes[(tile_elements + tile_elements / banks) * sizeof(T)];
  T* const tile = reinterpret_cast<T*>(bytes);
  const std::size_t tiles_across = ((columns - 1) >> column_bits) + 1;
  const unsigned elements = 1U << (row_bits + column_bits);
  for (std::size_t number = blockIdx.x; number < tiles; number += gridDim.x) {
    const std::size_t row = number / tiles_across << row_bits;
    const std::size_t column = number % tiles_across << column_bits;
    for (unsigned e = threadIdx.x; e < elements; e += block_threads) {
      const std::size_t r = row + (e >> column_bits);
      const std::size_t c = column + (e & ((1U << column_bits) - 1));
      if (r < rows && c < columns) {
        tile[e + e / banks] = in[r * columns + c];
      }
    }
    __syncthreads();
    for (unsigned e = threadIdx.x; e < elements; e += block_threads) {
      const unsigned tile_row = e & ((1U << row_bits) - 1);
      const unsigned tile_column = e >> row_bits;
      if (row + tile_row < rows && column + tile_column < columns) {
        const unsigned from = (tile_row << column_bits) + tile_column;
        out[(column + tile_column) * rows + row + tile_row] = tile[from + from / banks];
      }
    }
    __syncthreads(); // before the next tile takes the place of this one
  }
}

/// Few arrays, so many `planes`: a thread takes as many records as fill one access to each array,
/// out of the records, or back into them.
template <class T, unsigned planes, bool apart>
__global__ void __launch_bounds__(block_threads)
    planes_kernel(const T* in, std::size_t records, T* out) {
  constexpr unsigned side = widest_access / sizeof(T);
  using Access = Pack<T, side>;
  const std::size_t step = std::size_t{gridDim.x} * block_threads;
  for (std::size_t pack = std::size_t{blockIdx.x} * block_threads + threadIdx.x;
       pack < records / side; pack += step) {
    Access from[planes];
    Access to[planes];
#pragma unroll
    for (unsigned plane = 0; plane < planes; ++plane) {
      from[plane] = Access::load(apart ? in + (pack * planes + plane) * side
                                       : in + plane * records + pack * side);
    }
#pragma unroll
    for (unsigned e = 0; e < side * planes; ++e) {
      const unsigned plane = e % planes;
      const unsigned record = e / planes;
      if constexpr (apart) {
        to[plane].elements[record] = from[e / side].elements[e % side];
      } else {
        to[e / side].elements[e % side] = from[plane].elements[record];
      }
    }
#pragma unroll
    for (unsigned plane = 0; plane < planes; ++plane) {
      to[plane].store(apart ? out + plane * records + pack * side
                            : out + (pack * planes + plane) * side);
    }
  }
}

template <class T, unsigned planes>
void transpose_planes(cudaStream_t stream, const T* in, std::size_t records, T* out, bool apart) {
  launch(stream, records / (widest_access / sizeof(T)), block_threads,
         apart ? planes_kernel<T, planes, true> : planes_kernel<T, planes, false>, in, records,
         out);
}
/// Whether it could, with 2 to 4 planes whose every array begins where an access may.
template <class T>
bool transpose_few(cudaStream_t stream, const T* in, std::size_t rows, std::size_t columns,
                   T* out) {
  if constexpr (std::has_single_bit(sizeof(T)) && sizeof(T) <= 4) {
    const bool apart = columns <= rows;
    const std::size_t records = apart ? rows : columns;
    const auto at = reinterpret_cast<std::uintptr_t>(in) | reinterpret_cast<std::uintptr_t>(out) |
                    records * sizeof(T);
    if (at % widest_access != 0) {
      return false;
    }
    switch (apart ? columns : rows) {
    case 2:
      transpose_planes<T, 2>(stream, in, records, out, apart);
      return true;
    case 3:
      transpose_planes<T, 3>(stream, in, records, out, apart);
      return true;
    case 4:
      transpose_planes<T, 4>(stream, in, records, out, apart);
      return true;
    }
  }
  return false;
}

} // namespace detail

/// out[c * rows + r] = in[r * columns + c]: of `rows` records, each of `columns` values, makes
/// `columns` arrays of `rows` values each. With the two numbers swapped it makes records of arrays.
/// Both are device memory, and must not overlap. T has 32 bytes at most. It goes through shared
/// memory, so that both sides are read and written in order; the colours of an image, 2 to 4 arrays
/// of values of at most 4 bytes, through registers, 16 bytes at once, if `in`, `out` and every
/// array begin at a multiple of 16 bytes.
template <class T>
void transpose(cudaStream_t stream, const T* in, std::size_t rows, std::size_t columns, T* out) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 32,
                "penstock: values are copied byte by byte through shared memory, so T must be "
                "trivially copyable and of at most 32 bytes.");
  using namespace detail;
  if (rows == 0 || columns == 0 || transpose_few(stream, in, rows, columns, out)) {
    return;
  }
  // A square, but where the matrix is narrower: then a longer one.
  const auto bits_for = [](std::size_t extent, unsigned most) {
    return std::min(static_cast<unsigned>(std::bit_width(extent - 1)), most);
  };
  unsigned column_bits = bits_for(columns, tile_bits / 2);
  const unsigned row_bits = bits_for(rows, tile_bits - column_bits);
  column_bits = bits_for(columns, tile_bits - row_bits);
  const std::size_t tiles = (((rows - 1) >> row_bits) + 1) * (((columns - 1) >> column_bits) + 1);
  launch(stream, tiles, 1, transpose_kernel<T>, in, rows, columns, out, row_bits, column_bits,
         tiles);
}

} // namespace penstock
