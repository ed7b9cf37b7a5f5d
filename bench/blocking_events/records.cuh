// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Records of numbers, and the kernel that sums each up, on either device.

#include <penstock/host/device.hpp>

#include <cstddef>
#include <cstdint>
#if defined(__CUDACC__)
#include <penstock/cuda/algorithm.cuh>
#else
#include <penstock/host/algorithm.hpp>
#endif

namespace penstock_bench {

/// Numbers that are summed up together: `bytes` is a multiple of 16.
template <std::size_t bytes> struct alignas(16) Record {
  static constexpr std::size_t size = bytes / sizeof(std::uint32_t);
  std::uint32_t values[size];
};

/// Returns the sum of a record's values, each times its place in the record, counted from 1.
template <class R> std::uint64_t sum_of(const R& record) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < R::size; ++i) {
    sum += (i + 1) * record.values[i];
  }
  return sum;
}

#if defined(__CUDACC__)
/// Uses a block of threads for each record, 16 bytes a thread at a time.
template <class R, class Put> __global__ void __launch_bounds__(penstock::detail::block_threads)
    sum_kernel(const R* records, std::size_t count, Put put) {
  constexpr unsigned threads = penstock::detail::block_threads;
  using BlockReduce = cub::BlockReduce<unsigned long long, threads>;
  __shared__ typename BlockReduce::TempStorage scratch;
  for (std::size_t record = blockIdx.x; record < count; record += gridDim.x) {
    const auto* fours = reinterpret_cast<const uint4*>(records[record].values);
    unsigned long long sum = 0;
    for (unsigned i = threadIdx.x; i < R::size / 4; i += threads) {
      const uint4 four = fours[i];
      const unsigned long long place = 4 * i + 1;
      sum += place * four.x + (place + 1) * four.y + (place + 2) * four.z + (place + 3) * four.w;
    }
    sum = BlockReduce{scratch}.Sum(sum);
    if (threadIdx.x == 0) {
      put(record, records[record], sum);
    }
    __syncthreads(); // before `scratch` is used again
  }
}

/// Enqueues put(i, records[i], sum of records[i]) for each i from 0 to count - 1, in one launch.
/// `records` points to device memory.
template <class R, class Put>
void sum_records(cudaStream_t stream, const R* records, std::size_t count, Put put) {
  penstock::detail::launch(stream, count, 1, sum_kernel<R, Put>, records, count, put);
}
#endif

/// Enqueues those calls of put() on the host.
template <class R, class Put>
void sum_records(penstock::HostStream& stream, const R* records, std::size_t count, Put put) {
  stream.enqueue([records, count, put] {
    for (std::size_t i = 0; i < count; ++i) {
      put(i, records[i], sum_of(records[i]));
    }
  });
}

} // namespace penstock_bench
