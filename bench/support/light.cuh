// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/gpu.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <cuda_bf16.h>
#include <cuda_runtime.h>

namespace penstock_bench {

/// Sixteen bf16 values as the kernels write them.
struct Sixteen {
  uint4 halves[2];
};

/// What every kernel here computes: a byte as a bf16 between 0 and 1. The heavy kernel multiplies
/// by `one` another `rounds` times, for the same result; the compiler does not know that it is 1.
__device__ inline Sixteen scaled(uint4 sixteen, int rounds, float one, float zero) {
  // In whole words, so that each thread loads and stores 16 bytes at a time.
  const unsigned words[4] = {sixteen.x, sixteen.y, sixteen.z, sixteen.w};
  float values[16];
  for (int i = 0; i < 16; ++i) {
    values[i] = static_cast<float>(words[i / 4] >> 8 * (i % 4) & 0xffU) * (1 / 255.F);
  }
  for (int round = 0; round < rounds; ++round) {
    for (float& value : values) {
      value = fmaf(value, one, zero);
    }
  }
  unsigned pairs[8];
  for (int i = 0; i < 8; ++i) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(values[2 * i], values[2 * i + 1]);
    pairs[i] = *reinterpret_cast<const unsigned*>(&pair);
  }
  return {{make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]),
           make_uint4(pairs[4], pairs[5], pairs[6], pairs[7])}};
}

/// The light kernel: uint8 to bf16, scaled, written out.
__global__ void light_kernel(const uint4* in, Sixteen* out, std::size_t sixteens) {
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < sixteens;
       i += step) {
    out[i] = scaled(in[i], 0, 1, 0);
  }
}
/// The heavy kernel: the same result, in a time that `rounds` sets.
__global__ void heavy_kernel(const uint4* in, Sixteen* out, std::size_t sixteens, int rounds,
                             float one, float zero) {
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < sixteens;
       i += step) {
    out[i] = scaled(in[i], rounds, one, zero);
  }
}
/// Adds to `sum` the bits of each value times an odd number that depends on its place in the batch.
__global__ void checksum_kernel(const std::uint16_t* values, std::size_t count,
                                unsigned long long* sum) {
  unsigned long long part = 0;
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < count; i += step) {
    part += values[i] * (2ULL * i + 1);
  }
  for (int lanes = 16; lanes != 0; lanes /= 2) {
    part += __shfl_down_sync(0xffffffffU, part, lanes);
  }
  if (threadIdx.x % 32 == 0) {
    atomicAdd(sum, part);
  }
}

/// The work on each batch on the GPU.
struct WorkOptions {
  std::size_t batch_bytes = 0; ///< Of a full batch: a multiple of 16.
  unsigned lanes = 1;          ///< Batches at once, each with an output of its own.
  int rounds = 0;              ///< Of the heavy kernel; 0: the light one.
  bool kernel = true;          ///< Whether there is a kernel; a checked run always has it.
  bool checked = false;        ///< Whether the checksum's kernel follows.
};

/// Work on batches, for pipelines and for loops by hand. Copies share the memory.
class Work {
 public:
  explicit Work(const WorkOptions& options)
      : options_{options},
        out_{make_on_device(2 * options.batch_bytes * options.lanes).release(), FreeOnDevice{}},
        sum_{make_on_device(sizeof(unsigned long long)).release(), FreeOnDevice{}} {}

  /// Enqueues the work on `bytes` bytes at `batch`, which are a multiple of 16.
  void operator()(const std::uint8_t* batch, std::size_t bytes, cudaStream_t stream,
                  unsigned lane = 0) const {
    if (!options_.kernel && !options_.checked) {
      return;
    }
    const auto* in = reinterpret_cast<const uint4*>(batch);
    auto* out = reinterpret_cast<Sixteen*>(out_.get() + 2 * options_.batch_bytes * lane);
    const std::size_t sixteens = bytes / sizeof(uint4);
    if (options_.rounds == 0) {
      light_kernel<<<blocks(sixteens), threads, 0, stream>>>(in, out, sixteens);
    } else {
      heavy_kernel<<<blocks(sixteens), threads, 0, stream>>>(in, out, sixteens, options_.rounds, 1,
                                                             0);
    }
    check(cudaGetLastError(), "kernel");
    if (options_.checked) {
      checksum_kernel<<<blocks(bytes), threads, 0, stream>>>(
          reinterpret_cast<const std::uint16_t*>(out), bytes,
          reinterpret_cast<unsigned long long*>(sum_.get()));
      check(cudaGetLastError(), "checksum kernel");
    }
  }

  /// Returns the sum since the last call. Blocks until the GPU is done.
  std::uint64_t checksum() const {
    if (!options_.checked) {
      return 0;
    }
    unsigned long long sum = 0;
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    check(cudaMemcpy(&sum, sum_.get(), sizeof sum, cudaMemcpyDeviceToHost), "cudaMemcpy");
    check(cudaMemset(sum_.get(), 0, sizeof sum), "cudaMemset");
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    return sum;
  }

 private:
  static constexpr unsigned threads = 256;
  // Four blocks for each of an H200's multiprocessors are enough for the link's rate.
  static unsigned blocks(std::size_t items) {
    return static_cast<unsigned>(
        std::clamp<std::size_t>((items + threads - 1) / threads, 1, std::size_t{4} * 132));
  }

  WorkOptions options_;
  std::shared_ptr<std::uint8_t[]> out_;
  std::shared_ptr<std::uint8_t[]> sum_;
};

/// Returns how many rounds make the heavy kernel take `seconds` for a batch of `batch_bytes`, alone
/// on this GPU. Blocks for some tenths of a second.
inline int rounds_for(double seconds, std::size_t batch_bytes) {
  const DeviceBytes batch = make_on_device(batch_bytes);
  const Stream stream = make_stream();
  const auto measured = [&](int rounds) {
    const Work work{{.batch_bytes = batch_bytes, .rounds = rounds}};
    constexpr int times = 50;
    double best = 1e9;
    for (int repetition = 0; repetition < 4; ++repetition) {
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < times; ++i) {
        work(batch.get(), batch_bytes, stream.get());
      }
      sync(stream);
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      best = std::min(best, took.count() / times);
    }
    return best;
  };
  // Long enough to be bound by arithmetic, where time grows linearly.
  constexpr int few = 256;
  constexpr int many = 1024;
  const double slope = (measured(many) - measured(few)) / (many - few);
  const double rounds = few + (seconds - measured(few)) / slope;
  return static_cast<int>(std::clamp(rounds, 1.0, 1e6));
}

} // namespace penstock_bench
