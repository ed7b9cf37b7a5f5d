// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#if !defined(__CUDACC__)
#error "penstock: a header that ends in .cuh needs nvcc or clang for CUDA: name your file .cu."
#include "penstock: see the error above" // no such file
#endif

#include <penstock/cuda/error.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <cuda_runtime.h>

namespace penstock::detail {

/// The most bytes that one instruction loads or stores.
inline constexpr std::size_t widest_access = 16;

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

/// `size` adjacent elements, aligned as a whole. Loaded and stored as one word: compilers take
/// arrays of small elements apart.
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
#if defined(__NVCC__)
      __stwb(reinterpret_cast<Word*>(to), word); // nvcc may take an assignment apart, too
#else
      *reinterpret_cast<Word*>(to) = word; // clang has no such call
#endif
    }
  }
};

inline constexpr unsigned block_threads = 256;
/// More blocks than any GPU holds at once; with more work, each thread takes several pieces.
inline constexpr std::size_t most_blocks = std::size_t{1} << 16;

/// Enqueues `kernel(args...)` with blocks of `block_threads` threads: one for each `block_work` of
/// `work` pieces, at least 1 and at most `most_blocks`. The kernel must take the work beyond those
/// by turns.
template <class... Parameters>
void launch(cudaStream_t stream, std::size_t work, std::size_t block_work,
            void (*kernel)(Parameters...), Parameters... args) {
  const std::size_t blocks = work / block_work + (work % block_work != 0);
  cudaLaunchConfig_t launch{};
  launch.gridDim = dim3{static_cast<unsigned>(std::clamp(blocks, std::size_t{1}, most_blocks))};
  launch.blockDim = dim3{block_threads};
  launch.stream = stream;
  // Unlike <<<>>>, it says whether this launch failed, and not an earlier call.
  cuda_check(cudaLaunchKernelEx(&launch, kernel, args...), "cudaLaunchKernelEx");
}

} // namespace penstock::detail
