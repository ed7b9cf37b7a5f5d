// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include <penstock/cuda/algorithm.cuh>
#include <penstock/device/device_array.hpp>

#include "gate.hpp"
#include "support/catch.hpp"
#include "support/caught.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

// Typed over both devices, which must agree with plain loops and therefore with each other.

using namespace penstock;
using penstock::tests::Gate;

namespace {

template <class T> std::vector<T> random_values(std::size_t n) {
  std::mt19937_64 random{n + 1};
  std::vector<T> values(n);
  for (T& value : values) {
    value = static_cast<T>(random());
  }
  return values;
}

template <class T, class D>
DeviceArray<T, D> in_memory_of(D& device, const std::vector<T>& values) {
  DeviceArray<T, D> array{device, values.size()};
  const std::size_t bytes = (values.size() * sizeof(T) + 4095) / 4096 * 4096;
  if (bytes != 0) {
    auto stream = device.stream();
    void* const pinned = device.allocate_pinned(bytes);
    std::memcpy(pinned, values.data(), values.size() * sizeof(T));
    device.copy_to_device(array.data(), pinned, values.size() * sizeof(T), stream);
    device.sync(stream);
    device.deallocate_pinned(pinned, bytes);
  }
  return array;
}

struct AddIndex {
  std::uint64_t* to;
  PENSTOCK_HD void operator()(std::size_t i) const { to[i] += i + 1; }
};
struct CountUp {
  std::uint8_t* to;
  PENSTOCK_HD void operator()(std::size_t i) const { to[i] = static_cast<std::uint8_t>(i % 251); }
};
struct Plus {
  PENSTOCK_HD std::uint64_t operator()(std::uint64_t a, std::uint64_t b) const { return a + b; }
};
struct Larger {
  PENSTOCK_HD std::int64_t operator()(std::int64_t a, std::int64_t b) const {
    return a < b ? b : a;
  }
};

std::vector<std::uint64_t> counted(const std::uint8_t* in, std::size_t n) {
  std::vector<std::uint64_t> counts(256);
  for (std::size_t i = 0; i < n; ++i) {
    ++counts[in[i]];
  }
  return counts;
}

const std::size_t sizes[] = {0, 1, 2, 3, 255, 256, 257, 4095, 9216, 9217, 100'003, (1 << 21) + 1};

// Returns the bytes that a refusal says are needed.
std::size_t needed(const std::string& text) {
  const std::string before = "a workspace of ";
  REQUIRE(text.find(before) != std::string::npos);
  return std::stoull(text.substr(text.find(before) + before.size()));
}
template <class F> std::string error_of(F f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "nothing was thrown";
}

} // namespace

TEMPLATE_TEST_CASE("for_each calls once for each index and no other", "", HostDevice, CudaDevice) {
  TestType device;
  auto stream = device.stream();
  for (const std::size_t n : {0, 1, 255, 256, 257, 70'001, (1 << 24) + 1, (1 << 25) + 77}) {
    CAPTURE(n);
    auto array = device_array<std::uint64_t>(device, n + 1);
    for_each(stream, n, AddIndex{array.data()});
    for_each(stream, n, AddIndex{array.data()});
    const std::vector<std::uint64_t> got = array.read(stream);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < n; ++i) {
      wrong += got[i] != 2 * (i + 1);
    }
    CHECK(wrong == 0);
    CHECK(got[n] == 0);
  }
}

TEMPLATE_TEST_CASE("reduce agrees with a plain loop", "", HostDevice, CudaDevice) {
  TestType device;
  auto stream = device.stream();
  Workspace<TestType> workspace{device};
  auto sum = device_array<std::uint64_t>(device, 2);
  auto most = device_array<std::int64_t>(device, 1);
  for (const std::size_t n : sizes) {
    CAPTURE(n);
    const auto bytes = random_values<std::uint8_t>(n + 4);
    const auto numbers = random_values<std::int32_t>(n);
    auto bytes_there = in_memory_of(device, bytes);
    auto numbers_there = in_memory_of(device, numbers);
    for (const std::size_t from : {0, 1, 2, 3}) { // no vector load is aligned to most of these
      CAPTURE(from);
      reduce(stream, static_cast<const std::uint8_t*>(bytes_there.data()) + from, n, sum.data(),
             std::uint64_t{1} << 40, Plus{}, workspace);
      std::uint64_t expected = std::uint64_t{1} << 40;
      for (std::size_t i = 0; i < n; ++i) {
        expected += bytes[from + i]; // far more than a byte holds: each byte becomes an R first
      }
      CHECK(sum.read(stream)[0] == expected);
    }
    reduce(stream, static_cast<const std::int32_t*>(numbers_there.data()), n, most.data(),
           std::int64_t{-5}, Larger{}, workspace);
    std::int64_t expected = -5;
    for (const std::int32_t number : numbers) {
      expected = std::max<std::int64_t>(expected, number);
    }
    CHECK(most.read(stream)[0] == expected);
  }
  CHECK(sum.read(stream)[1] == 0);
}

TEMPLATE_TEST_CASE("histogram adds what a plain loop counts", "", HostDevice, CudaDevice) {
  TestType device;
  auto stream = device.stream();
  Workspace<TestType> workspace{device};
  for (const std::size_t n : sizes) {
    CAPTURE(n);
    auto bytes = random_values<std::uint8_t>(n + 4);
    std::fill(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n / 2), 255);
    auto there = in_memory_of(device, bytes);
    for (const std::size_t from : {0, 1, 2, 3}) {
      CAPTURE(from);
      auto counts = device_array<std::uint64_t>(device, 257);
      histogram(stream, there.data() + from, n, counts.data(), workspace);
      histogram(stream, there.data(), from, counts.data(), workspace); // adds to the counts
      const std::vector<std::uint64_t> got = counts.read(stream);
      CHECK(std::vector<std::uint64_t>(got.begin(), got.end() - 1) ==
            counted(bytes.data(), n + from));
      CHECK(got[256] == 0);
    }
  }
}

TEST_CASE("counts beyond 32 bits are added to and not cut off") {
  CudaDevice device;
  CudaStream stream = device.stream();
  Workspace<CudaDevice> workspace{device};
  auto counts = in_memory_of(device, std::vector<std::uint64_t>(256, (1ULL << 32) - 1));
  auto bytes = in_memory_of(device, std::vector<std::uint8_t>(1000, 9));
  histogram(stream, bytes.data(), bytes.size(), counts.data(), workspace);
  const std::vector<std::uint64_t> got = counts.read(stream);
  CHECK(got[8] == (1ULL << 32) - 1);
  CHECK(got[9] == (1ULL << 32) + 999);
}

TEST_CASE("more than 2^31 elements are reduced and counted whole", "[large]") {
  CudaDevice device;
  CudaStream stream = device.stream();
  Workspace<CudaDevice> workspace{device};
  const std::size_t n = (std::size_t{1} << 31) + (std::size_t{1} << 30) + 12'345;
  auto* const bytes = static_cast<std::uint8_t*>(device.allocate(n));
  auto counts = device_array<std::uint64_t>(device, 256);
  auto sum = device_array<std::uint64_t>(device, 1);
  for_each(stream, n, CountUp{bytes});
  histogram(stream, bytes, n, counts.data(), workspace);
  reduce(stream, bytes, n, sum.data(), std::uint64_t{0}, Plus{}, workspace);

  std::vector<std::uint64_t> expected(256);
  std::uint64_t expected_sum = 0;
  for (std::size_t value = 0; value < 251; ++value) {
    expected[value] = (n - value + 250) / 251;
    expected_sum += value * expected[value];
  }
  CHECK(counts.read(stream) == expected);
  CHECK(sum.read(stream)[0] == expected_sum);
  device.deallocate(bytes, n);
}

TEST_CASE("a workspace too small is refused with both sizes, and what is asked for will do") {
  CudaDevice device;
  CudaStream stream = device.stream();
  const auto bytes = random_values<std::uint8_t>(10'000'000);
  auto there = in_memory_of(device, bytes);
  auto counts = device_array<std::uint64_t>(device, 256);
  auto sum = device_array<std::uint64_t>(device, 1);
  const auto count = [&](std::size_t size) {
    Workspace<CudaDevice> workspace{device, size};
    histogram(stream, there.data(), there.size(), counts.data(), workspace);
    stream.sync();
  };
  const auto add = [&](std::size_t size) {
    Workspace<CudaDevice> workspace{device, size};
    reduce(stream, there.data(), there.size(), sum.data(), std::uint64_t{0}, Plus{}, workspace);
    stream.sync();
  };

  for (const std::size_t size : {0, 1, 1024, 1025, 2000}) {
    for (const bool counting : {true, false}) {
      const std::string text = error_of([&] { counting ? count(size) : add(size); });
      CAPTURE(text);
      CHECK(text.rfind(counting ? "penstock: histogram needs" : "penstock: reduce needs", 0) == 0);
      CHECK(text.find("was given " + std::to_string(size) + ":") != std::string::npos);
      CHECK(cudaPeekAtLastError() == cudaSuccess);
    }
  }
  const std::size_t to_count = needed(error_of([&] { count(1); }));
  const std::size_t to_add = needed(error_of([&] { add(1); }));
  CHECK(needed(error_of([&] { count(to_count - 1); })) == to_count);
  CHECK(needed(error_of([&] { add(to_add - 1); })) == to_add);
  count(to_count);
  add(to_add);
  CHECK(counts.read(stream) == counted(bytes.data(), bytes.size()));
  CHECK(to_count <= (1 << 20)); // the default
  CHECK(to_add <= (1 << 20));
}

TEMPLATE_TEST_CASE("algorithms only queue their work", "", HostDevice, CudaDevice) {
  TestType device;
  auto stream = device.stream();
  Workspace<TestType> workspace{device};
  const auto bytes = random_values<std::uint8_t>(1'000'001);
  auto there = in_memory_of(device, bytes);
  auto counts = device_array<std::uint64_t>(device, 256);
  auto sum = device_array<std::uint64_t>(device, 1);
  const auto all = [&] {
    for_each(stream, 256, AddIndex{counts.data()});
    reduce(stream, static_cast<const std::uint8_t*>(there.data()), there.size(), sum.data(),
           std::uint64_t{0}, Plus{}, workspace);
    histogram(stream, there.data(), there.size(), counts.data(), workspace);
  };
  all(); // CUDA loads kernels at their first launch, and may wait for that
  device.sync(stream);

  Gate gate{device};
  gate.shut(stream);
  all();
  CHECK_FALSE(stream.is_done()); // no call has waited for the gate
  gate.let_go();
  std::vector<std::uint64_t> expected = counted(bytes.data(), bytes.size());
  for (std::size_t value = 0; value < 256; ++value) {
    expected[value] = 2 * (expected[value] + value + 1);
  }
  CHECK(counts.read(stream) == expected);
}

TEST_CASE("for_each is not blamed for an earlier error") {
  CudaDevice device;
  CudaStream stream = device.stream();
  auto array = device_array<std::uint64_t>(device, 10);
  REQUIRE(cudaSetDevice(9999) == cudaErrorInvalidDevice);
  REQUIRE(cudaPeekAtLastError() == cudaErrorInvalidDevice);
  CHECK_NOTHROW(for_each(stream, 10, AddIndex{array.data()}));
  cudaGetLastError();
  CHECK(array.read(stream)[9] == 10);
}

TEST_CASE("what CUB would take for its own error is refused, told, and left to whom it belongs") {
  CudaDevice device;
  CudaStream stream = device.stream();
  const auto bytes = device_array<std::uint8_t>(device, 100);
  auto counts = device_array<std::uint64_t>(device, 256);
  Workspace<CudaDevice> workspace{device};
  const auto all = [&](auto call) {
    call([&] { histogram(stream, bytes.data(), bytes.size(), counts.data(), workspace); });
    call([&] {
      reduce(stream, counts.data(), 256, counts.data(), std::uint64_t{0}, Plus{}, workspace);
    });
  };
  REQUIRE(cudaSetDevice(9999) == cudaErrorInvalidDevice);
  all([](auto call) {
    const CudaError e = penstock::tests::caught<CudaError>(call);
    CHECK(penstock::tests::has(e, "an error of an earlier CUDA call was pending"));
    CHECK(e.status() == cudaErrorInvalidDevice);
    CHECK(cudaPeekAtLastError() == cudaErrorInvalidDevice);
  });
  cudaGetLastError();
  all([](auto call) { CHECK_NOTHROW(call()); });
  CHECK(counts.read(stream)[0] == 100);
}
