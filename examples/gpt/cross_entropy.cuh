// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// The loss of rows of logits, and its gradients in their place. A block takes a row, and reads it
// from memory once: it keeps the row in shared memory, if two blocks' rows fit there.

#include "launch.cuh"
#include "ops.hpp"

#include <algorithm>
#include <cfloat>
#include <cstddef>

#include <cuda_runtime.h>

namespace transformer {

/// The sum of exponentials, counted from the greatest.
struct ExponentialSum {
  float most;
  float sum;

  __device__ void meet(const ExponentialSum& other) {
    const float newest = fmaxf(most, other.most);
    sum = sum * __expf(most - newest) + other.sum * __expf(other.most - newest);
    most = newest;
  }
  /// Takes the first `count` values of a pack, at least 1.
  template <class T> __device__ void meet(const Pack<T>& pack, unsigned count) {
    float newest = most;
    for (unsigned i = 0; i < Pack<T>::size; ++i) {
      newest = i < count ? fmaxf(newest, static_cast<float>(pack.at[i])) : newest;
    }
    sum *= __expf(most - newest);
    for (unsigned i = 0; i < Pack<T>::size; ++i) {
      sum += i < count ? __expf(static_cast<float>(pack.at[i]) - newest) : 0.0F;
    }
    most = newest;
  }
};

namespace cross_entropy {

inline constexpr unsigned most_threads = 512;
inline constexpr std::size_t most_shared = std::size_t{110} << 10;
inline constexpr int at_once = 4; ///< Packs that a thread loads before it uses them.

/// Returns how many of `size` columns from `begin` on are in the vocabulary. In 32 bits, as each
/// value is held against it.
__device__ inline unsigned known(std::size_t begin, unsigned size, std::size_t vocabulary) {
  return vocabulary - begin < size ? static_cast<unsigned>(vocabulary - begin) : size;
}

/// Returns what all threads of the block have met.
__device__ inline ExponentialSum of_block(ExponentialSum own) {
  __shared__ ExponentialSum of_warp[most_threads / warp];
  for (unsigned lanes = warp / 2; lanes != 0; lanes /= 2) {
    own.meet(ExponentialSum{__shfl_xor_sync(0xffffffffU, own.most, lanes),
                            __shfl_xor_sync(0xffffffffU, own.sum, lanes)});
  }
  if (lane() == 0) {
    of_warp[threadIdx.x / warp] = own;
  }
  __syncthreads();
  own = of_warp[0];
  for (unsigned i = 1; i < blockDim.x / warp; ++i) {
    own.meet(of_warp[i]);
  }
  return own;
}

template <class T, bool Shared>
__global__ void __launch_bounds__(most_threads) kernel(CrossEntropy<T> x) {
  constexpr unsigned size = Pack<T>::size;
  extern __shared__ __align__(16) unsigned char row_memory[];
  auto* const kept = reinterpret_cast<Pack<T>*>(row_memory);
  const std::size_t row = blockIdx.x;
  auto* const packs = reinterpret_cast<Pack<T>*>(x.logits + row * x.columns);
  const auto target = static_cast<std::size_t>(x.targets[row]);
  // Read by now: gradients take its place.
  const auto of_target = static_cast<float>(x.logits[row * x.columns + target]);

  ExponentialSum all{-FLT_MAX, 0};
  const std::size_t count = (x.vocabulary + size - 1) / size; // packs that are not all padding
  for (std::size_t begin = threadIdx.x; begin < count; begin += at_once * blockDim.x) {
    Pack<T> loaded[at_once];
#pragma unroll
    for (int i = 0; i < at_once; ++i) {
      if (const std::size_t at = begin + i * blockDim.x; at < count) {
        loaded[i] = packs[at];
      }
    }
#pragma unroll
    for (int i = 0; i < at_once; ++i) {
      if (const std::size_t at = begin + i * blockDim.x; at < count) {
        if constexpr (Shared) {
          kept[at] = loaded[i]; // for this thread itself
        }
        all.meet(loaded[i], known(at * size, size, x.vocabulary));
      }
    }
  }
  all = of_block(all);
  if (threadIdx.x == 0) {
    x.losses[row] = all.most + logf(all.sum) - of_target;
  }
  if (!x.backward) {
    return;
  }
  const float share = x.scale / all.sum;
  for (std::size_t at = threadIdx.x; at < x.columns / size; at += blockDim.x) {
    Pack<T> d{};
    if (at < count) {
      const Pack<T> logits = Shared ? kept[at] : packs[at];
      const unsigned in_vocabulary = known(at * size, size, x.vocabulary);
      const unsigned of_pack = target / size == at ? static_cast<unsigned>(target % size) : size;
      for (unsigned i = 0; i < size; ++i) {
        float value =
            i < in_vocabulary ? __expf(static_cast<float>(logits.at[i]) - all.most) * share : 0;
        value -= i == of_pack ? x.scale : 0;
        d.at[i] = static_cast<T>(value);
      }
    }
    packs[at] = d;
  }
}

/// Lets the kernel have as much shared memory as it takes at most.
template <class T> void allow() {
  check(cudaFuncSetAttribute(reinterpret_cast<const void*>(&kernel<T, true>),
                             cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(most_shared)),
        "cudaFuncSetAttribute");
}

template <class T> void launch(const CrossEntropy<T>& x, cudaStream_t stream) {
  const std::size_t bytes = x.columns * sizeof(T);
  const std::size_t packs = x.columns / Pack<T>::size;
  const auto threads =
      static_cast<unsigned>(std::min<std::size_t>((packs + warp - 1) / warp * warp, most_threads));
  const auto blocks = static_cast<unsigned>(x.rows);
  if (x.backward && bytes <= most_shared) {
    kernel<T, true><<<blocks, threads, bytes, stream>>>(x);
  } else {
    kernel<T, false><<<blocks, threads, 0, stream>>>(x);
  }
  check(cudaGetLastError(), "cross_entropy::kernel");
}

} // namespace cross_entropy
} // namespace transformer
