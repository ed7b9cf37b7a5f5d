// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/cuda.hpp>

#include <cstddef>
#include <vector>

#include <cuda/std/mdspan>
#include <cuda/stream_ref>

namespace ps = penstock;

/// A GPU whose rings lie in memory of a pool: anything with allocate(bytes) and
/// deallocate(at, bytes), such as a memory resource of RMM.
template <class Pool> struct PooledDevice : ps::CudaDevice {
  explicit PooledDevice(Pool& from) : pool{&from} {}
  void* allocate(std::size_t bytes) { return pool->allocate(bytes); }
  void deallocate(void* at, std::size_t bytes) noexcept { pool->deallocate(at, bytes); }
  Pool* pool;
};

struct Picture : ps::Columns<ps::Field<"pixels", float, 2, 3>, ps::Field<"label", int>> {};
using Pixels = cuda::std::mdspan<const float,
                                 cuda::std::extents<std::size_t, cuda::std::dynamic_extent, 2, 3>>;

__global__ void add_rows(Pixels pixels, float* sums) { // of the second row of each picture
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < pixels.extent(0)) {
    sums[i] = pixels(i, 1, 0) + pixels(i, 1, 1) + pixels(i, 1, 2);
  }
}

template <class Pool, class Source>
std::vector<float> second_rows(Pool& pool, const Source& pictures, cuda::stream_ref stream) {
  PooledDevice gpu{pool};
  auto data = ps::Reader{pictures, ps::to_pinned} | ps::AsyncCopier{gpu, {.batch = 100}};
  auto sums = ps::device_array<float>(gpu, 100);
  std::vector<float> all;
  for (auto batch : data.on(stream)) {
    const auto column = ps::get<"pixels">(batch);
    add_rows<<<1, 128, 0, stream.get()>>>(Pixels{column.data(), batch.size()}, sums.data());
    const std::size_t before = all.size();
    all.resize(before + batch.size());
    cudaMemcpyAsync(all.data() + before, sums.data(), batch.size() * sizeof(float),
                    cudaMemcpyDeviceToHost, stream.get());
    stream.wait();
  }
  return all;
}
