// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The suite of endings and reports on a GPU.

#include "support/test_devices.hpp"

#include <penstock/cuda.hpp>
#include <penstock/cuda/algorithm.cuh>

#include <chrono>
#include <cstdint>

using TestDevice = penstock::CudaDevice;

template <class D = TestDevice, class F> void for_each_device(F f) {
  D device;
  f(device);
}

inline std::uint64_t pinned_bytes(const TestDevice& device) {
  return device.pinned_bytes();
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

// A copy of 1 MiB takes 20 us.
template <class F> void for_each_slow_device(F f) {
  penstock::tests::SlowCopies<TestDevice> device;
  f(device, 25);
}

#include "suite/control_suite.hpp"
