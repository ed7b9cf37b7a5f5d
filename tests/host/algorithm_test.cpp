// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"

#include <penstock/callables/workspace.hpp>
#include <penstock/device/device_array.hpp>
#include <penstock/host/algorithm.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace ps = penstock;

namespace {

struct Square {
  std::uint64_t* out;
  void operator()(std::size_t i) const { out[i] += i * i; }
};

struct Max {
  int operator()(int a, int b) const { return a < b ? b : a; }
};

// Holds a stream's work back until it is opened.
struct Gate {
  std::atomic<bool> open{false};
  void hold(ps::HostStream& stream) {
    stream.enqueue([this] {
      while (!open) {
        std::this_thread::yield();
      }
    });
  }
};

std::vector<std::uint8_t> random_bytes(std::size_t n, unsigned seed) {
  std::mt19937 random{seed};
  std::vector<std::uint8_t> bytes(n);
  std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<std::uint8_t>(random()); });
  return bytes;
}

std::vector<std::uint64_t> plain_counts(const std::uint8_t* in, std::size_t n) {
  std::vector<std::uint64_t> counts(256);
  for (std::size_t i = 0; i < n; ++i) {
    ++counts[in[i]];
  }
  return counts;
}

} // namespace

TEST_CASE("for_each calls its functor once for each index") {
  ps::HostDevice device;
  ps::HostStream stream = device.stream();
  for (const std::size_t n : {0, 1, 2, 1000}) {
    CAPTURE(n);
    const auto out = ps::device_array<std::uint64_t>(device, 1001);
    ps::for_each(stream, n, Square{out.data()});
    std::vector<std::uint64_t> expected(1001);
    for (std::size_t i = 0; i < n; ++i) {
      expected[i] = i * i;
    }
    CHECK(out.read(stream) == expected);
  }
}

TEST_CASE("for_each, reduce and histogram return at once and run in the stream's order") {
  Gate gate;
  ps::HostDevice device;
  ps::HostStream stream = device.stream();
  ps::Workspace workspace{device};
  const auto squares = ps::device_array<std::uint64_t>(device, 4);
  const auto sum = ps::device_array<std::uint64_t>(device, 1);
  const auto counts = ps::device_array<std::uint64_t>(device, 256);
  gate.hold(stream);
  ps::for_each(stream, 4, Square{squares.data()});
  ps::reduce(stream, squares.data(), 4, sum.data(), std::uint64_t{0}, std::plus<>{}, workspace);
  ps::histogram(stream, reinterpret_cast<const std::uint8_t*>(sum.data()), 8, counts.data(),
                workspace);
  CHECK_FALSE(stream.is_done());
  gate.open = true;
  CHECK(sum.read(stream) == std::vector<std::uint64_t>{0 + 1 + 4 + 9});
  const std::vector<std::uint64_t> bytes = counts.read(stream);
  CHECK(bytes[14] == 1);
  CHECK(bytes[0] == 7);
}

TEST_CASE("reduce folds the initial value and every element") {
  ps::HostDevice device;
  ps::HostStream stream = device.stream();
  ps::Workspace workspace{device};
  for (const std::size_t n : {0, 1, 2, 3, 1001}) {
    CAPTURE(n);
    const auto in = ps::device_array<std::uint8_t>(device, n);
    ps::for_each(stream, n, [at = in.data()](std::size_t i) {
      at[i] = static_cast<std::uint8_t>(200 + i % 50);
    });
    std::uint64_t expected = 7;
    for (std::size_t i = 0; i < n; ++i) {
      expected += 200 + i % 50;
    }
    const auto out = ps::device_array<std::uint64_t>(device, 1);
    ps::reduce(stream, in.data(), n, out.data(), std::uint64_t{7}, std::plus<>{}, workspace);
    CHECK(out.read(stream) == std::vector<std::uint64_t>{expected});
  }
}

TEST_CASE("reduce takes operators and result types of one's own") {
  ps::HostDevice device;
  ps::HostStream stream = device.stream();
  ps::Workspace workspace{device};
  const auto in = ps::device_array<std::int16_t>(device, 100);
  ps::for_each(stream, 100, [at = in.data()](std::size_t i) {
    at[i] = static_cast<std::int16_t>(i == 63 ? 999 : -static_cast<int>(i));
  });
  const auto out = ps::device_array<int>(device, 2);
  ps::reduce(stream, in.data(), 100, out.data(), -5000, Max{}, workspace);
  ps::reduce(stream, in.data(), 100, out.data() + 1, 5000, Max{}, workspace);
  CHECK(out.read(stream) == std::vector<int>{999, 5000});
}

TEST_CASE("histogram counts every byte, whatever the start and the length") {
  ps::HostDevice device;
  ps::HostStream stream = device.stream();
  ps::Workspace workspace{device};
  const std::vector<std::uint8_t> in = random_bytes(100'003, 1);
  for (const std::size_t start : {0, 1, 3, 7}) {
    for (const std::size_t n : {0, 1, 7, 8, 9, 31, 32, 33, 4096, 99'991}) {
      CAPTURE(start, n);
      const auto counts = ps::device_array<std::uint64_t>(device, 256);
      ps::histogram(stream, in.data() + start, n, counts.data(), workspace);
      CHECK(counts.read(stream) == plain_counts(in.data() + start, n));
    }
  }
}

TEST_CASE("histogram adds to what was counted before") {
  ps::HostDevice device;
  ps::HostStream stream = device.stream();
  ps::Workspace workspace{device, 8192};
  const std::vector<std::uint8_t> in = random_bytes(3000, 2);
  const auto counts = ps::device_array<std::uint64_t>(device, 256);
  for (int i = 0; i < 3; ++i) {
    ps::histogram(stream, in.data() + i * 1000, 1000, counts.data(), workspace);
  }
  CHECK(counts.read(stream) == plain_counts(in.data(), in.size()));
}

TEST_CASE("a workspace that is too small is refused with both sizes") {
  ps::HostDevice device;
  ps::HostStream stream = device.stream();
  ps::Workspace workspace{device, 8191};
  std::string text;
  try {
    ps::histogram(stream, nullptr, 0, nullptr, workspace);
  } catch (const ps::Error& e) {
    text = e.what();
  }
  CAPTURE(text);
  CHECK(text.find("penstock: histogram") == 0);
  CHECK(text.find("8192") != std::string::npos);
  CHECK(text.find("8191") != std::string::npos);
}

TEST_CASE("a workspace is device memory, given back when it dies") {
  ps::HostDevice device;
  {
    ps::Workspace first{device, 5000};
    CHECK(first.size() == 5000);
    CHECK(reinterpret_cast<std::uintptr_t>(first.data()) % 256 == 0);
    CHECK(device.counts().live_allocations == 1);
    const ps::Workspace second{std::move(first)};
    CHECK(second.size() == 5000);
    CHECK(device.counts().live_allocations == 1);
    CHECK(ps::Workspace{device}.size() == 1 << 20);
  }
  CHECK(device.counts().live_allocations == 0);
}
