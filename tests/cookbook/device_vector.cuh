// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/callables/deferred.hpp>
#include <penstock/callables/scratch.hpp>
#include <penstock/cuda.hpp>

#include <cstddef>
#include <string>
#include <vector>

#include <cub/device/device_reduce.cuh>
#include <cuda_runtime.h>
#include <thrust/system/cuda/execution_policy.h>
#include <thrust/transform.h>

namespace ps = penstock;

struct Square {
  __host__ __device__ float operator()(float x) const { return x * x; }
};

struct Looked {
  std::vector<float> first_batch; // its squares
  std::vector<float> greatest;    // of each batch's squares
};

inline void check(cudaError_t status, const char* call) {
  if (status != cudaSuccess) {
    throw ps::CudaError{std::string{call} + ": " + cudaGetErrorString(status), call, status};
  }
}

inline Looked squares_of(ps::CudaDevice& gpu, const std::vector<float>& numbers) {
  constexpr std::size_t batch_size = 1000;
  auto data =
      ps::Reader{ps::memory(numbers), ps::to_pinned} | ps::AsyncCopier{gpu, {.batch = batch_size}};
  const auto stream = gpu.stream();
  auto squares = ps::device_array<float>(gpu, batch_size);
  auto greatest = ps::device_array<float>(gpu, 1);
  auto found = ps::deferred<float>(gpu, {.results = data.batches_a_run()});
  ps::Scratch scratch{gpu, 1 << 20};
  Looked looked;
  for (auto batch : data.on(stream)) {
    const float* first = batch.data(); // the policy says that it is device memory
    thrust::transform(thrust::cuda::par_nosync.on(stream), first, first + batch.size(),
                      squares.data(), Square{});

    auto frame = scratch.on(stream);
    std::size_t bytes = frame.left();
    void* const storage = frame.take<std::byte>(bytes);
    check(cub::DeviceReduce::Max(storage, bytes, squares.data(), greatest.data(), batch.size(),
                                 stream),
          "cub::DeviceReduce::Max");
    found.put(greatest.data(), stream); // for later: waits for nothing

    if (batch.index() == 0) { // a look, now
      looked.first_batch.resize(batch.size());
      check(cudaMemcpyAsync(looked.first_batch.data(), squares.data(), batch.size() * sizeof(float),
                            cudaMemcpyDeviceToHost, stream),
            "cudaMemcpyAsync");
      stream.sync(); // else the vector may not have them yet
    }
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    looked.greatest.push_back(found[i].get());
  }
  return looked;
}
