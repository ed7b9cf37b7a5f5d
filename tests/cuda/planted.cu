// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Faults on purpose: compute-sanitizer must find them, or its silence about the rest means nothing.
// `planted bounds` writes beyond a device buffer, `planted leak` forgets one, `planted
// uninitialised` lets a pipeline's consumer read a byte that no copy wrote, `planted race` has two
// warps exchange values in shared memory without a barrier, `planted barrier` lets half a warp
// bypass a barrier.

#include <penstock/cuda.hpp>
#include <penstock/cuda/algorithm.cuh>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

namespace ps = penstock;

struct Write {
  std::uint8_t* to;
  PENSTOCK_HD void operator()(std::size_t i) const { to[i] = static_cast<std::uint8_t>(i); }
};
struct Sum {
  const std::byte* from;
  unsigned long long* to;
  __device__ void operator()(std::size_t i) const {
    atomicAdd(to, static_cast<unsigned long long>(from[i]));
  }
};

__global__ void race(int* to) {
  volatile __shared__ int shared[64];
  shared[threadIdx.x] = static_cast<int>(threadIdx.x);
  to[threadIdx.x] = shared[63 - threadIdx.x];
}
__global__ void barrier(int* to) {
  if (threadIdx.x % 32 < 16) {
    __syncthreads();
  }
  to[threadIdx.x] = 1;
}

int main(int argc, char** argv) {
  const std::string fault = argc > 1 ? argv[1] : "";
  ps::CudaDevice gpu;
  const auto attached = gpu.attach();
  auto stream = gpu.stream();
  if (fault == "bounds") {
    auto array = ps::device_array<std::uint8_t>(gpu, 1000);
    ps::for_each(stream, 1001, Write{array.data()});
    gpu.sync(stream);
  } else if (fault == "leak") {
    return gpu.allocate(4096) == nullptr;
  } else if (fault == "uninitialised") {
    auto sum = ps::device_array<unsigned long long>(gpu, 1);
    const std::array<std::byte, 1000> bytes{};
    auto pipeline = ps::Reader{ps::memory(std::span<const std::byte>{bytes}), ps::to_pinned} |
                    ps::AsyncCopier{gpu, {.batch = 4096}} |
                    ps::Consumer{[&](ps::Batch<const std::byte, ps::Device> b, cudaStream_t s) {
                      ps::for_each(s, b.size() + 1, Sum{b.data(), sum.data()});
                    }};
    pipeline.run();
  } else if (fault == "race" || fault == "barrier") {
    auto array = ps::device_array<int>(gpu, 64);
    cudaStream_t on = stream;
    fault == "race" ? race<<<1, 64, 0, on>>>(array.data())
                    : barrier<<<1, 64, 0, on>>>(array.data());
    gpu.sync(stream);
  } else {
    std::fprintf(stderr, "usage: planted bounds|leak|uninitialised|race|barrier\n");
    return 2;
  }
}
