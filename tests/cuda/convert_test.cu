// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The suite of conversions on a GPU, and tests for GPUs only.

#include "gate.hpp"

#include <penstock/cuda/convert.cuh>
#include <penstock/cuda/normalize.cuh>

using TestDevice = penstock::CudaDevice;
using TestGate = penstock::tests::Gate<TestDevice>;

#include "suite/convert_suite.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

using namespace penstock;

TEST_CASE("Half and BFloat16 have the bits of CUDA's types, which convert takes too") {
  CudaDevice device;
  CudaStream stream = device.stream();
  const std::vector<float> floats = suite::floats_around<Half>();
  const std::size_t n = floats.size();
  const auto there = suite::in_memory_of(device, floats);
  const float* const in = there.data();
  const auto ours = device_array<Half>(device, n);
  const auto theirs = device_array<Half>(device, n);
  convert(stream, in, n, ours.data(), 0.7F, 0.1F);
  convert(stream, in, n, reinterpret_cast<__half*>(theirs.data()), 0.7F, 0.1F);
  CHECK(suite::differences(ours.read(stream), theirs.read(stream)) == 0);
  const auto our_b = device_array<BFloat16>(device, n);
  const auto their_b = device_array<BFloat16>(device, n);
  convert(stream, in, n, our_b.data(), 0.7F, 0.1F);
  convert(stream, in, n, reinterpret_cast<__nv_bfloat16*>(their_b.data()), 0.7F, 0.1F);
  CHECK(suite::differences(our_b.read(stream), their_b.read(stream)) == 0);
}

TEST_CASE("transform is not blamed for an earlier error") {
  CudaDevice device;
  CudaStream stream = device.stream();
  const auto array = device_array<std::uint16_t>(device, 10);
  REQUIRE(cudaSetDevice(9999) == cudaErrorInvalidDevice);
  REQUIRE(cudaPeekAtLastError() == cudaErrorInvalidDevice);
  CHECK_NOTHROW(transform(stream, static_cast<const std::uint16_t*>(array.data()), 10, array.data(),
                          suite::Inverted{}));
  cudaGetLastError();
  CHECK(array.read(stream)[9] == 0xFFFF);
}

namespace {
struct OfIndex {
  std::uint8_t* to;
  PENSTOCK_HD void operator()(std::size_t i) const { to[i] = static_cast<std::uint8_t>(i % 251); }
};
struct Check {
  const std::uint8_t* in;
  std::uint64_t* wrong;
  PENSTOCK_HD void operator()(std::size_t i) const {
    if (in[i] != i % 251 + 2) {
      *wrong = 1; // by any of the threads: all write the same
    }
  }
};
} // namespace

TEST_CASE("more than 2^31 elements are converted whole", "[large]") {
  CudaDevice device;
  CudaStream stream = device.stream();
  const std::size_t n = (std::size_t{1} << 31) + 12'345;
  auto* const bytes = static_cast<std::uint8_t*>(device.allocate(n));
  const auto wrong = device_array<std::uint64_t>(device, 1);
  for_each(stream, n, OfIndex{bytes});
  convert(stream, static_cast<const std::uint8_t*>(bytes), n, bytes, 1.0F, 2.0F);
  for_each(stream, n, Check{bytes, wrong.data()});
  CHECK(wrong.read(stream)[0] == 0);
  device.deallocate(bytes, n);
}
