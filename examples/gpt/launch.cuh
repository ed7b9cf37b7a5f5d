// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <type_traits>

#include <cuda_runtime.h>

namespace transformer {

inline constexpr unsigned warp = 32;

/// Throws if a call has failed; `what` is its name.
inline void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) {
    throw std::runtime_error{std::string{what} + ": " + cudaGetErrorString(status)};
  }
}

/// Enqueues `kernel(arguments...)` with a warp for each row; the last block may have some warps
/// more.
template <class... Parameters>
void launch_rows(cudaStream_t stream, std::size_t rows, void (*kernel)(Parameters...),
                 std::type_identity_t<Parameters>... arguments) {
  constexpr unsigned threads = 256;
  const auto blocks = static_cast<unsigned>((rows * warp + threads - 1) / threads);
  kernel<<<blocks, threads, 0, stream>>>(arguments...);
  check(cudaGetLastError(), "a kernel with a warp for each row");
}

/// Returns the row that this thread's warp takes.
__device__ inline std::size_t row_of_warp() {
  return (std::size_t{blockIdx.x} * blockDim.x + threadIdx.x) / warp;
}
__device__ inline unsigned lane() {
  return threadIdx.x % warp;
}

/// What a lane loads and stores at once; widths must be multiples of its size.
template <class T> struct alignas(16) Pack {
  static constexpr std::size_t size = 16 / sizeof(T);
  T at[size];
};

/// Calls f(first, pack) for each pack of a row that is this lane's; `first` is the number of its
/// first value.
template <class T, class F> __device__ void each_pack(const T* row, std::size_t width, F f) {
  constexpr std::size_t size = Pack<T>::size;
  for (std::size_t first = lane() * size; first < width; first += warp * size) {
    const Pack<T> pack = *reinterpret_cast<const Pack<T>*>(row + first); // by one load
    f(first, pack);
  }
}

/// Return the sum, or the greatest, of `Lanes` neighbouring lanes, a power of 2, to each of them.
/// @{
template <unsigned Lanes = warp> __device__ float warp_sum(float value) {
  for (unsigned lanes = Lanes / 2; lanes != 0; lanes /= 2) {
    value += __shfl_xor_sync(0xffffffffU, value, lanes);
  }
  return value;
}
template <unsigned Lanes = warp> __device__ float warp_max(float value) {
  for (unsigned lanes = Lanes / 2; lanes != 0; lanes /= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffffU, value, lanes));
  }
  return value;
}
/// @}

} // namespace transformer
