// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The suite of scratch memory on a GPU.

#include <penstock/callables/scratch.hpp>
#include <penstock/cuda.hpp>
#include <penstock/cuda/algorithm.cuh>

using TestDevice = penstock::CudaDevice;

template <class D = TestDevice, class F> void for_each_device(F f) {
  D device;
  f(device);
}

#include "suite/scratch_suite.hpp"

namespace suite {

TEST_CASE("the default stream has scratch memory as any other") {
  ps::CudaDevice device;
  ps::Scratch scratch{device, 1024, {.streams = 2}};
  auto stream = device.stream();
  auto frame = scratch.on(cudaStream_t{});
  auto other = scratch.on(stream);
  CHECK(frame.take<Number>(1) != other.take<Number>(1));
  auto again = scratch.on(cudaStream_t{});
  CHECK(again.left() == 256);
  CHECK(scratch.counts().refusals == 0);
}

} // namespace suite
