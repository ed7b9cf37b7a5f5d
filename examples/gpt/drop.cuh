// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Dropout outside of attention.

#include "dropout.hpp"
#include "launch.cuh"
#include "ops.hpp"

#include <cstddef>
#include <cstdint>

#include <cuda_runtime.h>

namespace transformer {

/// What dropout multiplies the values of a row by: each by 1 if nothing is dropped.
template <bool Dropping> class RowFactors {
 public:
  __device__ RowFactors(const Drops& drops, std::size_t row) {
    if constexpr (Dropping) {
      row_ = drops.row(row);
      scale_ = drops.scale();
    }
  }
  __device__ float at(std::size_t column) const {
    if constexpr (Dropping) {
      return row_.keeps(static_cast<std::uint32_t>(column)) ? scale_ : 0.0F;
    } else {
      return 1;
    }
  }

 private:
  DropRow row_{};
  float scale_ = 1;
};

/// A warp takes a row.
template <class T> __global__ void drop_kernel(Drop<T> x, std::size_t rows, std::size_t width) {
  const std::size_t row = row_of_warp();
  if (row >= rows) {
    return;
  }
  const RowFactors<true> factors{x.drops, row};
  each_pack(x.in + row * width, width, [&](std::size_t first, const Pack<T>& in) {
    const std::size_t at = row * width + first;
    Pack<T> residual{};
    if (x.residual != nullptr) {
      residual = *reinterpret_cast<const Pack<T>*>(x.residual + at);
    }
    Pack<T> out;
    for (std::size_t i = 0; i < Pack<T>::size; ++i) {
      const float value = static_cast<float>(in.at[i]) * factors.at(first + i);
      out.at[i] = static_cast<T>(value + static_cast<float>(residual.at[i]));
    }
    *reinterpret_cast<Pack<T>*>(x.out + at) = out;
  });
}

/// Drops some of the probabilities of queries, which may be any number of tokens long. The first of
/// the queries is number `first` of the batch. A warp takes a query.
template <class T>
__global__ void drop_probabilities_kernel(const T* in, T* out, Drops drops, std::size_t first,
                                          std::size_t queries, unsigned tokens) {
  const std::size_t query = row_of_warp();
  if (query >= queries) {
    return;
  }
  const RowFactors<true> factors{drops, first + query};
  for (unsigned key = lane(); key < tokens; key += warp) {
    const std::size_t at = query * tokens + key;
    out[at] = static_cast<T>(static_cast<float>(in[at]) * factors.at(key));
  }
}

} // namespace transformer
