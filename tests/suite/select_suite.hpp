// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// select makes what a plain loop makes. The including file defines TestDevice and TestGate, which
// holds one of its streams back.

#include "suite/on_stream.hpp"

#include <algorithm>
#include <iterator>

namespace suite {

using D = TestDevice;

struct Below {
  std::uint32_t limit;
  PENSTOCK_HD bool operator()(std::uint32_t value) const { return value < limit; }
};
struct IsOdd {
  PENSTOCK_HD bool operator()(std::uint8_t value) const { return value % 2 != 0; }
};

TEST_CASE("select keeps the order, counts, and writes no more than it selects") {
  D device;
  auto stream = device.stream();
  ps::Workspace workspace{device};
  for (const std::size_t n : sizes) {
    for (const std::uint32_t limit : {0U, 1U << 24, 1U << 31, 0xFFFF'FFFFU}) {
      CAPTURE(n, limit);
      const std::size_t start = n % 3;
      const auto in = random_values<std::uint32_t>(n + start);
      const auto there = in_memory_of(device, in);
      const auto out = ps::device_array<std::uint32_t>(device, n + start);
      const auto count = in_memory_of(device, std::vector<std::uint64_t>{77, 77});
      ps::select(stream, static_cast<const std::uint32_t*>(there.data()) + start, n, Below{limit},
                 out.data() + start, count.data(), workspace);
      std::vector<std::uint32_t> expected(start);
      std::copy_if(in.begin() + static_cast<std::ptrdiff_t>(start), in.end(),
                   std::back_inserter(expected), Below{limit});
      const std::uint64_t selected = expected.size() - start;
      expected.resize(n + start);
      CHECK(count.read(stream) == std::vector<std::uint64_t>{selected, 77});
      CHECK(out.read(stream) == expected);
    }
  }
}

TEST_CASE("nothing is touched where there is nothing to select") {
  D device;
  auto stream = device.stream();
  ps::Workspace workspace{device};
  const auto counts = in_memory_of(device, std::vector<std::uint64_t>{77, 77});
  const std::uint32_t* const nothing = nullptr;
  ps::select(stream, nothing, 0, Below{1}, static_cast<std::uint32_t*>(nullptr), counts.data(),
             workspace);
  CHECK(counts.read(stream) == std::vector<std::uint64_t>{0, 77});
}

TEST_CASE("select only queues its work, in the stream's order") {
  D device;
  auto stream = device.stream();
  ps::Workspace workspace{device};
  const std::size_t n = 5000;
  const auto bytes = random_values<std::uint8_t>(n);
  const auto there = in_memory_of(device, bytes);
  const auto odd = ps::device_array<std::uint8_t>(device, n);
  const auto again = ps::device_array<std::uint8_t>(device, n);
  const auto counts = ps::device_array<std::uint64_t>(device, 2);
  const auto twice = [&] {
    ps::select(stream, static_cast<const std::uint8_t*>(there.data()), n, IsOdd{}, odd.data(),
               counts.data(), workspace);
    ps::select(stream, static_cast<const std::uint8_t*>(odd.data()), n, IsOdd{}, again.data(),
               counts.data() + 1, workspace);
  };
  twice(); // CUDA loads kernels at their first launch, and may wait for that
  device.sync(stream);

  TestGate gate{device};
  gate.shut(stream);
  twice();
  CHECK_FALSE(stream.is_done()); // no call has waited for the gate
  gate.let_go();
  std::vector<std::uint8_t> expected;
  std::copy_if(bytes.begin(), bytes.end(), std::back_inserter(expected), IsOdd{});
  CHECK(counts.read(stream) == std::vector<std::uint64_t>{expected.size(), expected.size()});
  const std::vector<std::uint8_t> got = again.read(stream);
  CHECK(std::equal(expected.begin(), expected.end(), got.begin()));
}

} // namespace suite
