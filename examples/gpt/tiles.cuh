// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Tiles of bf16 in shared memory, and products of 16 x 8 out of 16 by a warp on the tensor cores.
// The PTX manual says which lane has what, "Matrix fragments for mma.m16n8k16": of a result, lane i
// has columns 2 (i % 4) and the next of row i / 4, and of the row 8 below.

#include "launch.cuh"

#include <cstddef>
#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#error "The tiles are for Hopper and later: compile with -arch=sm_90."
#endif

namespace transformer {

using Bf16 = __nv_bfloat16;

/// Stores two adjacent values, the first of them at an even place.
__device__ inline void store_two(Bf16* to, float first, float second) {
  *reinterpret_cast<__nv_bfloat162*>(to) = __floats2bfloat162_rn(first, second);
}

/// `Rows` rows of `Columns` values: 64 or 128. Pieces of 16 bytes are swapped within a row so that
/// eight rows' pieces of one column lie in different banks.
template <int Rows, int Columns> struct Tile {
  static constexpr int pieces = Columns / 8; // of a row
  static constexpr std::uint32_t pitch = Columns * sizeof(Bf16);
  static constexpr std::uint32_t bytes = Rows * pitch;

  std::uint32_t begin; // in shared memory, a multiple of 256
  int first = 0;       // of its pieces

  /// Returns the tile that begins at a row, a multiple of 8, and at a piece. From there on it has a
  /// power of 2 of pieces, and the piece is a multiple of that.
  __device__ Tile part(int row, int piece) const {
    return {begin + static_cast<std::uint32_t>(row) * pitch, first ^ piece};
  }
  /// Returns where piece `across` ^ `piece` of row 8 `down` + `row` lies. With constants for `down`
  /// and `across` it is one operation away from where other constants lead.
  __device__ std::uint32_t at(int down, int row, int across, int piece) const {
    const std::uint32_t known = begin + static_cast<std::uint32_t>(row) * pitch +
                                static_cast<std::uint32_t>(first ^ piece ^ (row & 7)) * 16;
    return (known ^ static_cast<std::uint32_t>(across * 16)) +
           static_cast<std::uint32_t>(8 * down) * pitch;
  }
};

/// Begins to copy a tile whose rows lie `stride` values apart, by all of the block's threads.
template <int Threads, int Rows, int Columns>
__device__ void begin_copy(const Tile<Rows, Columns>& to, const Bf16* from, std::size_t stride) {
  constexpr int pieces = Tile<Rows, Columns>::pieces;
  constexpr int at_once = Threads / pieces; // rows
  static_assert(Threads % (8 * pieces) == 0 && Rows % at_once == 0);
  const int row = static_cast<int>(threadIdx.x) / pieces;
  const int piece = static_cast<int>(threadIdx.x) % pieces;
  from += static_cast<std::size_t>(row) * stride + piece * 8;
  for (int down = 0; down < Rows; down += at_once) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to.at(down / 8, row, 0, piece)),
                 "l"(from + static_cast<std::size_t>(down) * stride)
                 : "memory");
  }
}
/// Begins to copy a float to shared memory.
__device__ inline void begin_copy(std::uint32_t to, const float* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
}
/// Waits until the copies that this thread has begun are done.
__device__ inline void wait_for_copies() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

/// Four matrices of 8 x 8. To load them each lane gives a row's address: lanes 0 to 7 of the first,
/// and so on.
/// @{
struct Fragment {
  std::uint32_t at[4];
};
__device__ inline Fragment load_matrices(std::uint32_t row) {
  Fragment f;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(f.at[0]), "=r"(f.at[1]), "=r"(f.at[2]), "=r"(f.at[3])
               : "r"(row)
               : "memory");
  return f;
}
__device__ inline Fragment load_transposed(std::uint32_t row) {
  Fragment f;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(f.at[0]), "=r"(f.at[1]), "=r"(f.at[2]), "=r"(f.at[3])
               : "r"(row)
               : "memory");
  return f;
}
/// @}

/// The factors of products, as this lane has them. Rows and columns are counted in tiles of 16.
/// @{
/// Returns a left factor: 16 rows of the tile by 16 columns.
template <int R, int C> __device__ Fragment left(const Tile<R, C>& tile, int row, int column) {
  const int l = static_cast<int>(lane());
  return load_matrices(tile.at(2 * row, l % 16, 2 * column, l / 16));
}
/// Returns a left factor: the transpose of 16 rows by 16 columns, so that the tile's columns are
/// its rows.
template <int R, int C>
__device__ Fragment left_transposed(const Tile<R, C>& tile, int row, int column) {
  const int l = static_cast<int>(lane());
  return load_transposed(tile.at(2 * row, l % 8 + l / 16 * 8, 2 * column, l / 8 % 2));
}
/// Returns two right factors, side by side: the transpose of 16 rows by 16 columns, so that the
/// product has a column for each of the tile's rows.
template <int R, int C>
__device__ Fragment right_transposed(const Tile<R, C>& tile, int row, int column) {
  const int l = static_cast<int>(lane());
  return load_matrices(tile.at(2 * row, l % 8 + l / 16 * 8, 2 * column, l / 8 % 2));
}
/// Returns two right factors, side by side: 16 rows by 16 columns as they are.
template <int R, int C> __device__ Fragment right(const Tile<R, C>& tile, int row, int column) {
  const int l = static_cast<int>(lane());
  return load_transposed(tile.at(2 * row, l % 16, 2 * column, l / 16));
}
/// @}

/// 16 rows by `Columns`, in floats. In each eight columns this lane has two columns of two rows.
template <int Columns> struct Sums {
  static constexpr int eights = Columns / 8;
  float at[eights][4];

  __device__ void clear() {
    for (auto& eight : at) {
      for (float& value : eight) {
        value = 0;
      }
    }
  }
  /// Calls f(value, row, column) for each value that this lane has: rows of 0 to 15.
  template <class F> __device__ void each(F f) {
    const int l = static_cast<int>(lane());
    for (int eight = 0; eight < eights; ++eight) {
      for (int i = 0; i < 4; ++i) {
        f(at[eight][i], l / 4 + i / 2 * 8, 8 * eight + 2 * (l % 4) + i % 2);
      }
    }
  }
  /// Multiplies value by value.
  __device__ void multiply(const Sums& by) {
    for (int eight = 0; eight < eights; ++eight) {
      for (int i = 0; i < 4; ++i) {
        at[eight][i] *= by.at[eight][i];
      }
    }
  }
  /// Adds left * right, for columns 16 `sixteen` to 16 `sixteen` + 15.
  __device__ void add(int sixteen, const Fragment& a, const Fragment& b) {
    add(at[2 * sixteen], a, b.at[0], b.at[1]);
    add(at[2 * sixteen + 1], a, b.at[2], b.at[3]);
  }
  /// Returns a left factor, in bf16: columns 16 `sixteen` to 16 `sixteen` + 15.
  __device__ Fragment as_left(int sixteen) const {
    const float(&low)[4] = at[2 * sixteen];
    const float(&high)[4] = at[2 * sixteen + 1];
    return {{pair(low[0], low[1]), pair(low[2], low[3]), pair(high[0], high[1]),
             pair(high[2], high[3])}};
  }
  /// Stores the sums to a tile in bf16, from its row 16 `sixteen` and its first column on.
  template <int R, int C> __device__ void store(const Tile<R, C>& to, int sixteen) const {
    const int l = static_cast<int>(lane());
    for (int i = 0; i < eights; ++i) {
      for (int half = 0; half < 2; ++half) {
        asm volatile(
            "st.shared.b32 [%0], %1;" ::"r"(to.at(2 * sixteen + half, l / 4, i, 0) + l % 4 * 4),
            "r"(pair(at[i][2 * half], at[i][2 * half + 1]))
            : "memory");
      }
    }
  }

 private:
  __device__ static std::uint32_t pair(float first, float second) {
    const __nv_bfloat162 both = __floats2bfloat162_rn(first, second);
    return *reinterpret_cast<const std::uint32_t*>(&both);
  }
  __device__ static void add(float (&c)[4], const Fragment& a, std::uint32_t b0, std::uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a.at[0]), "r"(a.at[1]), "r"(a.at[2]), "r"(a.at[3]), "r"(b0), "r"(b1));
  }
};

} // namespace transformer
