// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The suite of loops on a GPU.

#include <penstock/cuda.hpp>
#include <penstock/cuda/algorithm.cuh>

#include <chrono>
#include <cstddef>

using TestDevice = penstock::CudaDevice;

template <class D = TestDevice, class F> void for_each_device(F f) {
  D device;
  f(device);
}

struct Spin {
  long long nanoseconds;
  __device__ void operator()(std::size_t) const {
    long long start = 0;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    for (long long now = start; now - start < nanoseconds;) {
      asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    }
  }
};
inline void delay(cudaStream_t stream, std::chrono::nanoseconds time) {
  penstock::for_each(stream, 1, Spin{time.count()});
}

// Nobody can count from outside what a GPU has got back; but it must still work.
inline bool all_given_back(TestDevice& device) {
  auto stream = device.stream();
  device.sync(stream);
  return true;
}

#include "suite/loop_suite.hpp"
#include "suite/next_suite.hpp"
