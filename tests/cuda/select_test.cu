// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The suite of selections on a GPU, and tests for GPUs only.

#include "gate.hpp"

#include <penstock/cuda/algorithm.cuh>

using TestDevice = penstock::CudaDevice;
using TestGate = penstock::tests::Gate<TestDevice>;

#include "suite/select_suite.hpp"

#include <algorithm>
#include <string>

using namespace penstock;

TEST_CASE("select refuses a workspace too small, and what it asks for will do") {
  CudaDevice device;
  CudaStream stream = device.stream();
  const std::size_t n = 1'000'003;
  const auto in = suite::random_values<std::uint8_t>(n);
  const auto there = suite::in_memory_of(device, in);
  const auto count = device_array<std::uint64_t>(device, 1);
  const auto out = device_array<std::uint8_t>(device, n);
  const auto with = [&](std::size_t size) {
    Workspace<CudaDevice> workspace{device, size};
    select(stream, static_cast<const std::uint8_t*>(there.data()), n, suite::IsOdd{}, out.data(),
           count.data(), workspace);
    stream.sync();
  };
  for (const std::size_t size : {0, 1, 255}) {
    const std::string text = suite::error_of([&] { with(size); });
    CAPTURE(text);
    CHECK(text.rfind("penstock: select needs", 0) == 0);
    CHECK(text.find("was given " + std::to_string(size) + ":") != std::string::npos);
    CHECK(cudaPeekAtLastError() == cudaSuccess);
  }
  const std::size_t bytes = suite::needed(suite::error_of([&] { with(1); }));
  CHECK(suite::needed(suite::error_of([&] { with(bytes - 1); })) == bytes);
  with(bytes);
  const auto odd = std::count_if(in.begin(), in.end(), suite::IsOdd{});
  CHECK(count.read(stream)[0] == static_cast<std::uint64_t>(odd));
}

namespace {
struct CountUp {
  std::uint8_t* to;
  PENSTOCK_HD void operator()(std::size_t i) const { to[i] = static_cast<std::uint8_t>(i % 251); }
};
struct IsEven {
  PENSTOCK_HD bool operator()(std::uint8_t value) const { return value % 2 == 0; }
};
} // namespace

TEST_CASE("more than 2^31 elements are selected whole", "[large]") {
  CudaDevice device;
  CudaStream stream = device.stream();
  Workspace<CudaDevice> workspace{device, std::size_t{256} << 20};
  const std::size_t n = (std::size_t{1} << 31) + 12'345;
  auto* const bytes = static_cast<std::uint8_t*>(device.allocate(n));
  auto* const out = static_cast<std::uint8_t*>(device.allocate(n));
  const auto count = device_array<std::uint64_t>(device, 1);
  for_each(stream, n, CountUp{bytes});
  select(stream, static_cast<const std::uint8_t*>(bytes), n, IsEven{}, out, count.data(),
         workspace);
  std::uint64_t even = 0;
  for (std::size_t value = 0; value < 251; value += 2) {
    even += (n - value + 250) / 251;
  }
  CHECK(count.read(stream)[0] == even);
  device.deallocate(bytes, n);
  device.deallocate(out, n);
}
