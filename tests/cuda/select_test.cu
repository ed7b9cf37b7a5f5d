// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The suite on a GPU, and what is there alone.

#include "gate.hpp"

#include <penstock/cuda/select.cuh>

using TestDevice = penstock::CudaDevice;
using TestGate = penstock::tests::Gate<TestDevice>;

#include "suite/select_suite.hpp"

using namespace penstock;

TEST_CASE("sums and selections refuse a workspace too small, and what they ask for will do") {
  CudaDevice device;
  CudaStream stream = device.stream();
  const std::size_t n = 1'000'003;
  const auto in = suite::random_values<std::uint8_t>(n);
  const auto there = suite::in_memory_of(device, in);
  const auto sums = device_array<std::uint64_t>(device, n);
  const auto count = device_array<std::uint64_t>(device, 1);
  const auto out = device_array<std::uint8_t>(device, n);
  const std::uint8_t* const from = there.data();
  const auto refused = [&](const std::string& name, auto call) {
    CAPTURE(name);
    const auto with = [&](std::size_t size) {
      Workspace<CudaDevice> workspace{device, size};
      call(workspace);
      stream.sync();
    };
    for (const std::size_t size : {0, 1, 255}) {
      const std::string text = suite::error_of([&] { with(size); });
      CAPTURE(text);
      CHECK(text.rfind("penstock: " + name + " needs", 0) == 0);
      CHECK(text.find("was given " + std::to_string(size) + ":") != std::string::npos);
      CHECK(cudaPeekAtLastError() == cudaSuccess);
    }
    const std::size_t bytes = suite::needed(suite::error_of([&] { with(1); }));
    CHECK(suite::needed(suite::error_of([&] { with(bytes - 1); })) == bytes);
    with(bytes);
  };
  refused("exclusive_sum",
          [&](auto& workspace) { exclusive_sum(stream, from, n, sums.data(), workspace); });
  refused("inclusive_sum",
          [&](auto& workspace) { inclusive_sum(stream, from, n, sums.data(), workspace); });
  refused("select", [&](auto& workspace) {
    select(stream, from, n, suite::IsOdd{}, out.data(), count.data(), workspace);
  });
  refused("run_length_decode", [&](auto& workspace) {
    run_length_decode(stream, from, from, n, out.data(), n, count.data(), workspace);
  });
  std::uint64_t sum = 0;
  for (const std::uint8_t value : in) {
    sum += value;
  }
  CHECK(sums.read(stream)[n - 1] == sum);
  CHECK(count.read(stream)[0] == sum);
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

TEST_CASE("more than 2^31 elements are added up, selected and decoded whole", "[large]") {
  CudaDevice device;
  CudaStream stream = device.stream();
  Workspace<CudaDevice> workspace{device, std::size_t{256} << 20};
  const std::size_t n = (std::size_t{1} << 31) + 12'345;
  auto* const bytes = static_cast<std::uint8_t*>(device.allocate(n));
  auto* const out = static_cast<std::uint8_t*>(device.allocate(n));
  auto* const sums = static_cast<std::uint64_t*>(device.allocate(n * sizeof(std::uint64_t)));
  const auto results = device_array<std::uint64_t>(device, 4);
  const std::uint8_t* const in = bytes;
  for_each(stream, n, CountUp{bytes});
  select(stream, in, n, IsEven{}, out, results.data(), workspace);
  inclusive_sum(stream, in, n, sums, workspace);
  const auto copy_last = [&](const void* from, std::size_t k, std::size_t size) {
    REQUIRE(cudaMemcpyAsync(results.data() + k, from, size, cudaMemcpyDeviceToDevice, stream) ==
            cudaSuccess);
  };
  copy_last(sums + n - 1, 1, sizeof(std::uint64_t));

  std::uint64_t sum = 0;
  std::uint64_t even = 0;
  for (std::size_t value = 0; value < 251; ++value) {
    const std::uint64_t count = (n - value + 250) / 251;
    sum += value * count;
    even += value % 2 == 0 ? count : 0;
  }
  const std::vector<std::uint32_t> lengths{7, static_cast<std::uint32_t>(n - 8), 1};
  const auto lengths_there = suite::in_memory_of(device, lengths);
  const std::uint8_t* const first = bytes; // 0, 1, 2
  run_length_decode(stream, first, static_cast<const std::uint32_t*>(lengths_there.data()), 3, out,
                    n, results.data() + 2, workspace);
  copy_last(out + n - 2, 3, 2);
  const std::vector<std::uint64_t> got = results.read(stream);
  CHECK(got[0] == even);
  CHECK(got[1] == sum);
  CHECK(got[2] == n);
  CHECK(got[3] == (2U << 8 | 1U));
  device.deallocate(bytes, n);
  device.deallocate(out, n);
  device.deallocate(sums, n * sizeof(std::uint64_t));
}
