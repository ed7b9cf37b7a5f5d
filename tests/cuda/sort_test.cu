// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The suite on a GPU, and what is there alone.

#include "gate.hpp"

#include <penstock/cuda/sort.cuh>

using TestDevice = penstock::CudaDevice;
using TestGate = penstock::tests::Gate<TestDevice>;

#include "suite/sort_suite.hpp"

using namespace penstock;

namespace {
struct Scattered {
  std::uint8_t* to;
  PENSTOCK_HD void operator()(std::size_t i) const {
    to[i] = static_cast<std::uint8_t>(i * 2'654'435'761U >> 13);
  }
};
struct CheckRising {
  const std::uint8_t* in;
  std::uint64_t* wrong;
  PENSTOCK_HD void operator()(std::size_t i) const {
    if (in[i] > in[i + 1]) {
      *wrong = 1; // by whichever threads: it is the same
    }
  }
};
} // namespace

TEST_CASE("more than 2^31 keys are sorted whole", "[large]") {
  CudaDevice device;
  CudaStream stream = device.stream();
  const std::size_t n = (std::size_t{1} << 31) + 12'345;
  Workspace<CudaDevice> workspace{device, std::size_t{6} << 30};
  auto* const bytes = static_cast<std::uint8_t*>(device.allocate(n));
  auto* const sorted = static_cast<std::uint8_t*>(device.allocate(n));
  const auto wrong = device_array<std::uint64_t>(device, 1);
  const auto before = device_array<std::uint64_t>(device, 256);
  const auto after = device_array<std::uint64_t>(device, 256);
  for_each(stream, n, Scattered{bytes});
  sort(stream, static_cast<const std::uint8_t*>(bytes), n, sorted, workspace);
  for_each(stream, n - 1, CheckRising{sorted, wrong.data()});
  histogram(stream, bytes, n, before.data(), workspace);
  histogram(stream, sorted, n, after.data(), workspace);
  CHECK(wrong.read(stream)[0] == 0);
  CHECK(after.read(stream) == before.read(stream));
  device.deallocate(bytes, n);
  device.deallocate(sorted, n);
}

TEST_CASE("a wide segment's indices go beyond 2^31", "[large]") {
  CudaDevice device;
  CudaStream stream = device.stream();
  const std::size_t n = (std::size_t{1} << 31) + 12'345;
  auto* const bytes = static_cast<std::uint8_t*>(device.allocate(n));
  const auto best = device_array<std::uint8_t>(device, 3);
  const auto indices = device_array<std::uint32_t>(device, 3);
  REQUIRE(cudaMemsetAsync(bytes, 1, n, stream) == cudaSuccess);
  REQUIRE(cudaMemsetAsync(bytes + n - 2, 9, 1, stream) == cudaSuccess);
  segmented_top_k(stream, static_cast<const std::uint8_t*>(bytes), 1, n, 3, best.data(),
                  indices.data());
  CHECK(best.read(stream) == std::vector<std::uint8_t>{9, 1, 1});
  CHECK(indices.read(stream) ==
        std::vector<std::uint32_t>{static_cast<std::uint32_t>(n - 2), 0, 1});
  device.deallocate(bytes, n);
}
