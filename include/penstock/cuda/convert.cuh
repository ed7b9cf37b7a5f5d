// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/convert.hpp>
#include <penstock/cuda/algorithm.cuh>
#include <penstock/detail/launch.cuh>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <cuda_runtime.h>

// Work on a GPU's stream, with the signatures that convert.hpp has for a HostStream&: what
// cuda/algorithm.cuh says of its algorithms holds for these. For nvcc alone.
namespace penstock {

namespace detail {

/// The most that one instruction loads or stores.
inline constexpr std::size_t widest_access = 16;

/// How many elements a thread takes at once: the larger type's fill a widest access, so that the
/// threads of a warp read and write what lies side by side, whatever the other type.
template <class T, class R> constexpr std::size_t elements_at_once() {
  constexpr std::size_t larger = std::max(sizeof(T), sizeof(R));
  constexpr bool powers = std::has_single_bit(sizeof(T)) && std::has_single_bit(sizeof(R));
  return powers && larger <= widest_access ? widest_access / larger : 1;
}

template <std::size_t bytes> struct Access;
template <> struct Access<2> {
  using type = std::uint16_t;
};
template <> struct Access<4> {
  using type = std::uint32_t;
};
template <> struct Access<8> {
  using type = uint2;
};
template <> struct Access<16> {
  using type = uint4;
};

/// `size` elements that lie side by side, aligned as a whole. Loaded and stored as one word: arrays
/// of small elements compilers take apart.
template <class T, std::size_t size> struct Pack {
  T elements[size];

  __device__ static Pack load(const T* from) {
    Pack pack;
    if constexpr (size == 1) {
      pack.elements[0] = *from;
    } else {
      using Word = typename Access<sizeof(Pack)>::type;
      const Word word = *reinterpret_cast<const Word*>(from);
      std::memcpy(&pack, &word, sizeof word);
    }
    return pack;
  }
  __device__ void store(T* to) const {
    if constexpr (size == 1) {
      *to = elements[0];
    } else {
      using Word = typename Access<sizeof(Pack)>::type;
      Word word;
      std::memcpy(&word, this, sizeof word);
      __stwb(reinterpret_cast<Word*>(to), word); // an assignment may be taken apart, too
    }
  }
};

/// Packs that a thread loads before it stores the first, so that enough loads are under way.
inline constexpr unsigned packs_at_once = 4;

/// The first `head` elements and those after the last whole pack are taken one by one.
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

/// out[i] = op(in[i]) for each i of 0 to n - 1, in no order to rely on; both are device memory.
/// `out` may be `in` if T and R have the same size; else they must not overlap. `op` is copied to
/// the GPU, and what it points to must be there.
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

/// out[i] = in[i] * scale + bias for each i of 0 to n - 1, as convert() on a HostStream& makes it,
/// to the last bit; both are device memory. `out` may be `in` if T and R have the same size; else
/// they must not overlap. It moves memory as transform() does.
template <class T, class R>
void convert(cudaStream_t stream, const T* in, std::size_t n, R* out, float scale = 1.0F,
             float bias = -0.0F) {
  transform(stream, in, n, out, detail::Rescale<T, R>{scale, bias});
}

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

} // namespace detail

/// out[c * rows + r] = in[r * columns + c]: of `rows` records, each of `columns` values, makes
/// `columns` arrays of `rows` values each. With the two numbers swapped it makes records of arrays.
/// Both are device memory, and must not overlap. T has 32 bytes at most. It goes through shared
/// memory, so that both sides are read and written in order.
template <class T>
void transpose(cudaStream_t stream, const T* in, std::size_t rows, std::size_t columns, T* out) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 32,
                "penstock: values are copied byte by byte through shared memory, so T must be "
                "trivially copyable and of at most 32 bytes.");
  using namespace detail;
  if (rows == 0 || columns == 0) {
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
