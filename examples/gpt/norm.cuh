// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Layer norm, forward and backward, and sums over columns. A warp takes a row; a lane takes 16
// bytes of it at a time.

#include "launch.cuh"
#include "ops.hpp"

#include <penstock/data/float16.hpp>

#include <cstddef>

#include <cuda_runtime.h>

namespace transformer {

template <class T>
__global__ void norm_kernel(Norm<T> x, std::size_t rows, std::size_t width, float epsilon) {
  const std::size_t row = row_of_warp();
  if (row >= rows) {
    return;
  }
  const T* const in = x.in + row * width;
  float sum = 0;
  each_pack(in, width, [&](std::size_t, const Pack<T>& pack) {
    for (const T& value : pack.at) {
      sum += static_cast<float>(value);
    }
  });
  const float mean = warp_sum(sum) / static_cast<float>(width);
  float squares = 0;
  each_pack(in, width, [&](std::size_t, const Pack<T>& pack) { // from the cache, as below
    for (const T& value : pack.at) {
      const float off = static_cast<float>(value) - mean;
      squares += off * off;
    }
  });
  const float inverse = rsqrtf(warp_sum(squares) / static_cast<float>(width) + epsilon);
  each_pack(in, width, [&](std::size_t first, const Pack<T>& pack) {
    const Pack<T> weight = *reinterpret_cast<const Pack<T>*>(x.weight + first);
    const Pack<T> bias = *reinterpret_cast<const Pack<T>*>(x.bias + first);
    Pack<T> out;
    for (std::size_t i = 0; i < Pack<T>::size; ++i) {
      const float scaled = (static_cast<float>(pack.at[i]) - mean) * inverse;
      out.at[i] = static_cast<T>(scaled * static_cast<float>(weight.at[i]) +
                                 static_cast<float>(bias.at[i]));
    }
    *reinterpret_cast<Pack<T>*>(x.out + row * width + first) = out;
  });
  if (lane() == 0) {
    x.mean[row] = mean;
    x.inverse[row] = inverse;
  }
}

/// Computes d_in alone.
template <class T>
__global__ void norm_backward_kernel(NormBackward<T> x, std::size_t rows, std::size_t width) {
  const std::size_t row = row_of_warp();
  if (row >= rows) {
    return;
  }
  const float mean = x.mean[row];
  const float inverse = x.inverse[row];
  constexpr std::size_t size = Pack<T>::size;
  using Values = float[size];
  // Calls f(first, gradients of the scaled values, scaled values) for each of the lane's packs.
  const auto each = [&](auto f) {
    each_pack(x.in + row * width, width, [&](std::size_t first, const Pack<T>& in) {
      const Pack<T> d_out = *reinterpret_cast<const Pack<T>*>(x.d_out + row * width + first);
      const Pack<T> weight = *reinterpret_cast<const Pack<T>*>(x.weight + first);
      Values d;
      Values scaled;
      for (std::size_t i = 0; i < size; ++i) {
        d[i] = static_cast<float>(d_out.at[i]) * static_cast<float>(weight.at[i]);
        scaled[i] = (static_cast<float>(in.at[i]) - mean) * inverse;
      }
      f(first, d, scaled);
    });
  };
  float sum = 0;
  float sum_scaled = 0;
  each([&](std::size_t, const Values& d, const Values& scaled) {
    for (std::size_t i = 0; i < size; ++i) {
      sum += d[i];
      sum_scaled += d[i] * scaled[i];
    }
  });
  sum = warp_sum(sum) / static_cast<float>(width);
  sum_scaled = warp_sum(sum_scaled) / static_cast<float>(width);
  each([&](std::size_t first, const Values& d, const Values& scaled) {
    auto& at = *reinterpret_cast<Pack<T>*>(x.d_in + row * width + first);
    Pack<T> d_in{};
    if (x.adds) {
      d_in = at;
    }
    Pack<T> rest{};
    if (x.rest != nullptr) {
      rest = *reinterpret_cast<const Pack<T>*>(x.rest + row * width + first);
    }
    for (std::size_t i = 0; i < size; ++i) {
      const float all = static_cast<float>(d_in.at[i]) + static_cast<float>(rest.at[i]) +
                        (d[i] - sum - scaled[i] * sum_scaled) * inverse;
      d_in.at[i] = static_cast<T>(all);
      rest.at[i] = static_cast<T>(all - static_cast<float>(d_in.at[i]));
    }
    at = d_in;
    if (x.rest != nullptr) {
      *reinterpret_cast<Pack<T>*>(x.rest + row * width + first) = rest;
    }
  });
}

inline constexpr unsigned packs_a_block = warp; // of columns
inline constexpr unsigned rows_at_once = 8;
inline constexpr unsigned rows_a_block = 128;

/// Adds to f.to(k)[column] what f.add() sums up over all rows: a block takes some packs of columns,
/// a lane each, and some rows.
template <int Sums, class T, class F>
__global__ void __launch_bounds__(packs_a_block* rows_at_once)
    column_sums_kernel(std::size_t rows, std::size_t columns, F f) {
  constexpr unsigned size = Pack<T>::size;
  constexpr unsigned columns_a_block = packs_a_block * size;
  __shared__ __align__(16) float shared[Sums][rows_at_once][columns_a_block];
  const std::size_t begin_column = std::size_t{blockIdx.x} * columns_a_block;
  const std::size_t begin = std::size_t{blockIdx.y} * rows_a_block;
  const std::size_t end = min(begin + rows_a_block, rows);
  const unsigned first = threadIdx.x * size;
  float sums[Sums][size] = {};
  if (begin_column + first < columns) {
#pragma unroll 4
    for (std::size_t row = begin + threadIdx.y; row < end; row += rows_at_once) {
      f.add(sums, row, begin_column + first);
    }
  }
  for (int k = 0; k < Sums; ++k) {
    for (unsigned i = 0; i < size; ++i) {
      shared[k][threadIdx.y][first + i] = sums[k][i];
    }
  }
  __syncthreads();
  for (unsigned i = threadIdx.y * packs_a_block + threadIdx.x; i < columns_a_block;
       i += packs_a_block * rows_at_once) {
    if (begin_column + i < columns) {
      for (int k = 0; k < Sums; ++k) {
        float sum = 0;
        for (const auto& row : shared[k]) {
          sum += row[i];
        }
        atomicAdd(f.to(k) + begin_column + i, sum);
      }
    }
  }
}
template <int Sums, class T, class F>
void column_sums(cudaStream_t stream, std::size_t rows, std::size_t columns, F f) {
  constexpr std::size_t columns_a_block = packs_a_block * Pack<T>::size;
  const dim3 blocks{static_cast<unsigned>((columns + columns_a_block - 1) / columns_a_block),
                    static_cast<unsigned>((rows + rows_a_block - 1) / rows_a_block)};
  column_sums_kernel<Sums, T>
      <<<blocks, dim3{packs_a_block, rows_at_once}, 0, stream>>>(rows, columns, f);
  check(cudaGetLastError(), "column_sums_kernel");
}

/// Sums up the gradients of layer norm's weights and biases.
template <class T> struct NormSums {
  static constexpr std::size_t size = Pack<T>::size;
  NormBackward<T> x;
  std::size_t width;
  __device__ void add(float (&sums)[2][size], std::size_t row, std::size_t first) const {
    const auto d_out = *reinterpret_cast<const Pack<T>*>(x.d_out + row * width + first);
    const auto in = *reinterpret_cast<const Pack<T>*>(x.in + row * width + first);
    const float mean = x.mean[row];
    const float inverse = x.inverse[row];
    for (std::size_t i = 0; i < size; ++i) {
      const auto d = static_cast<float>(d_out.at[i]);
      sums[0][i] += d * (static_cast<float>(in.at[i]) - mean) * inverse;
      sums[1][i] += d;
    }
  }
  __device__ float* to(int sum) const { return sum == 0 ? x.d_weight : x.d_bias; }
};
/// Sums up the gradient of a bias.
template <class T> struct BiasSums {
  static constexpr std::size_t size = Pack<T>::size;
  const T* d_out;
  float* d_bias;
  std::size_t width;
  __device__ void add(float (&sums)[1][size], std::size_t row, std::size_t first) const {
    const auto d = *reinterpret_cast<const Pack<T>*>(d_out + row * width + first);
    for (std::size_t i = 0; i < size; ++i) {
      sums[0][i] += static_cast<float>(d.at[i]);
    }
  }
  __device__ float* to(int) const { return d_bias; }
};

} // namespace transformer
