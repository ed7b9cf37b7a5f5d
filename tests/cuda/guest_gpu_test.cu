// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The suite of guests on a GPU.

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include <cuda_runtime.h>

__global__ void plus_one_kernel(const std::uint32_t* in, std::uint32_t* out, std::size_t n) {
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) {
    out[i] = in[i] + 1;
  }
}
__global__ void set_kernel(std::uint64_t* to, std::uint64_t value) {
  *to = value;
}

inline void plus_one(cudaStream_t stream, const std::uint32_t* in, std::uint32_t* out,
                     std::size_t n) {
  plus_one_kernel<<<static_cast<unsigned>((n + 255) / 256), 256, 0, stream>>>(in, out, n);
}
inline void count_all(cudaStream_t stream, std::uint64_t* count, std::size_t n) {
  set_kernel<<<1, 1, 0, stream>>>(count, n);
}
// No block may have this many threads.
inline constexpr cudaError_t refused_launch_code = cudaErrorInvalidValue;
inline void refused_launch(cudaStream_t stream) {
  set_kernel<<<1, 4096, 0, stream>>>(nullptr, 0);
}
inline std::size_t captures_beside() {
  return 1000;
}

#include "suite/guest_suite.hpp"

namespace suite {

__global__ void spin_kernel(long long ticks) {
  for (const long long start = clock64(); clock64() - start < ticks;) {
  }
}
__global__ void count_others_kernel(const U* in, std::size_t n, U first,
                                    unsigned long long* others) {
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n && in[i] != first + i) {
    atomicAdd(others, 1ULL);
  }
}

// Batches so large that the ring comes round while a slow second stream still reads.
std::uint64_t wrong_on(ps::CudaDevice& gpu, cudaStream_t second, bool said) {
  constexpr std::size_t large = std::size_t{1} << 20;
  static const auto all = [] {
    std::vector<U> from_zero(40 * large);
    std::iota(from_zero.begin(), from_zero.end(), 0U);
    return from_zero;
  }();
  auto pipeline = ps::Reader{ps::memory(std::span{all}), ps::to_pinned} |
                  ps::AsyncCopier{gpu, {.batch = large, .depth = 3}};
  auto stream = gpu.stream();
  auto ready = gpu.event();
  auto others = ps::device_array<unsigned long long>(gpu, 1);
  for (auto batch : pipeline.on(stream)) {
    gpu.record(ready, stream);
    gpu.wait(second, ready);
    spin_kernel<<<1, 1, 0, second>>>(10'000'000);
    count_others_kernel<<<large / 256, 256, 0, second>>>(
        batch.data(), batch.size(), static_cast<U>(batch.index()), others.data());
    if (said) {
      second == nullptr ? batch.used_on(0) : batch.used_on(second);
    }
  }
  gpu.sync(second);
  return others.read(second)[0];
}

TEST_CASE("what a second stream reads late is its batch, on the default stream too", "[race]") {
  ps::CudaDevice gpu;
  auto second = gpu.stream();
  CHECK(wrong_on(gpu, second, true) == 0);
  CHECK(wrong_on(gpu, cudaStreamLegacy, true) == 0);
  CHECK(wrong_on(gpu, nullptr, true) == 0);
  CHECK(wrong_on(gpu, nullptr, false) > 0); // the planted fault
}

} // namespace suite
