// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// exclusive_sum, inclusive_sum, select and run_length_decode make what plain loops make. The
// including file defines TestDevice and TestGate, which holds one of its streams back.

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

// Adds up as R from the first element on; behind what is written is one element more, to be left
// alone.
template <class T, class R> void check_sums() {
  CAPTURE(sizeof(T), sizeof(R));
  D device;
  auto stream = device.stream();
  ps::Workspace workspace{device};
  for (const std::size_t n : sizes) {
    for (const std::size_t start : {0, 1, 3}) {
      CAPTURE(n, start);
      const auto in = random_values<T>(n + start);
      const auto in_there = in_memory_of(device, in);
      const auto exclusive = ps::device_array<R>(device, n + start + 1);
      const auto inclusive = ps::device_array<R>(device, n + start + 1);
      const T* const from = in_there.data() + start;
      ps::exclusive_sum(stream, from, n, exclusive.data() + start, workspace);
      ps::inclusive_sum(stream, from, n, inclusive.data() + start, workspace);
      std::vector<R> before(n + start + 1);
      std::vector<R> upto(n + start + 1);
      R sum{};
      for (std::size_t i = start; i < n + start; ++i) {
        before[i] = sum;
        sum = static_cast<R>(sum + static_cast<R>(in[i]));
        upto[i] = sum;
      }
      CHECK(exclusive.read(stream) == before);
      CHECK(inclusive.read(stream) == upto);
    }
  }
}

template <class T, class Length>
void check_decode(const std::vector<Length>& lengths, std::size_t capacity) {
  CAPTURE(lengths.size(), capacity, sizeof(T));
  D device;
  auto stream = device.stream();
  ps::Workspace workspace{device};
  const auto values = random_values<T>(lengths.size());
  std::uint64_t all = 0;
  std::vector<T> expected(capacity + 1);
  for (std::size_t run = 0; run < lengths.size(); ++run) {
    const auto length = static_cast<std::uint64_t>(lengths[run]);
    for (std::uint64_t i = all; i < std::min<std::uint64_t>(all + length, capacity); ++i) {
      expected[i] = values[run];
    }
    all += length;
  }
  const auto values_there = in_memory_of(device, values);
  const auto lengths_there = in_memory_of(device, lengths);
  const auto out = ps::device_array<T>(device, capacity + 1);
  const auto total = in_memory_of(device, std::vector<std::uint64_t>{77, 77});
  ps::run_length_decode(stream, static_cast<const T*>(values_there.data()),
                        static_cast<const Length*>(lengths_there.data()), lengths.size(),
                        out.data(), capacity, total.data(), workspace);
  CHECK(total.read(stream) == std::vector<std::uint64_t>{all, 77});
  CHECK(differences(out.read(stream), expected) == 0);
}

TEST_CASE("sums agree with a plain loop") {
  check_sums<std::uint8_t, std::uint64_t>(); // far more than a byte holds: each is made an R first
  check_sums<std::uint32_t, std::uint32_t>();
  check_sums<std::int16_t, std::int64_t>();
  check_sums<float, double>();
  check_sums<std::int32_t, std::uint16_t>();
}

TEST_CASE("sums may take the place of what they add up") {
  D device;
  auto stream = device.stream();
  ps::Workspace workspace{device};
  for (const std::size_t n : sizes) {
    CAPTURE(n);
    const auto in = random_values<std::uint64_t>(n);
    const auto there = in_memory_of(device, in);
    const auto again = in_memory_of(device, in);
    ps::exclusive_sum(stream, static_cast<const std::uint64_t*>(there.data()), n, there.data(),
                      workspace);
    ps::inclusive_sum(stream, static_cast<const std::uint64_t*>(again.data()), n, again.data(),
                      workspace);
    std::vector<std::uint64_t> before(n);
    std::vector<std::uint64_t> upto(n);
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < n; ++i) {
      before[i] = sum;
      upto[i] = sum += in[i];
    }
    CHECK(there.read(stream) == before);
    CHECK(again.read(stream) == upto);
  }
}

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

TEST_CASE("run_length_decode writes each value as often as its length says") {
  for (const std::size_t runs : {0, 1, 31, 32, 33, 255, 256, 257, 3001}) {
    for (const std::uint64_t most : {1, 2, 40}) {
      auto lengths = random_values<std::uint32_t>(runs, most);
      std::size_t all = 0;
      for (std::uint32_t& length : lengths) {
        length %= most + 1; // 0 is among them
        all += length;
      }
      check_decode<float>(lengths, all);
      check_decode<float>(lengths, all + 5);
      check_decode<float>(lengths, all / 2);
      check_decode<float>(lengths, 0);
    }
  }
}

TEST_CASE("run_length_decode takes long runs, empty ones at both ends, and other lengths") {
  std::vector<std::uint8_t> short_ones(100'003, 0);
  check_decode<std::uint16_t>(short_ones, 10);
  short_ones[50'000] = 255;
  check_decode<std::uint16_t>(short_ones, 1000);
  check_decode<std::uint8_t>(std::vector<std::int64_t>{0, 100'003, 0, 1, 20'000, 0}, 130'000);
  check_decode<double>(std::vector<std::int16_t>{5, 0, 32'000}, 4097);
}

TEST_CASE("run_length_decode tells a total that no memory would hold") {
  check_decode<std::uint8_t>(std::vector<std::uint32_t>(5, 0xFFFF'FFFF), 10'000);
  check_decode<std::uint8_t>(std::vector<std::uint64_t>{1, std::uint64_t{1} << 62, 2}, 10'000);
}

TEST_CASE("nothing is touched where there is nothing to select") {
  D device;
  auto stream = device.stream();
  ps::Workspace workspace{device};
  const auto counts = in_memory_of(device, std::vector<std::uint64_t>{77, 77});
  const std::uint32_t* const nothing = nullptr;
  auto* const nowhere = static_cast<std::uint32_t*>(nullptr);
  ps::exclusive_sum(stream, nothing, 0, nowhere, workspace);
  ps::inclusive_sum(stream, nothing, 0, nowhere, workspace);
  ps::select(stream, nothing, 0, Below{1}, nowhere, counts.data(), workspace);
  ps::run_length_decode(stream, nothing, nothing, 0, nowhere, 0, counts.data() + 1, workspace);
  CHECK(counts.read(stream) == std::vector<std::uint64_t>{0, 0});
}

TEST_CASE("sums, select and run_length_decode only queue their work, in the stream's order") {
  D device;
  auto stream = device.stream();
  ps::Workspace workspace{device};
  const std::size_t n = 5000;
  const auto bytes = random_values<std::uint8_t>(n);
  const auto there = in_memory_of(device, bytes);
  const auto odd = ps::device_array<std::uint8_t>(device, n);
  const auto sums = ps::device_array<std::uint32_t>(device, n);
  const auto decoded = ps::device_array<std::uint32_t>(device, 1000);
  const auto counts = ps::device_array<std::uint64_t>(device, 2);
  const auto late = ps::device_array<std::uint64_t>(device, 2);
  const auto all = [&] {
    ps::select(stream, static_cast<const std::uint8_t*>(there.data()), n, IsOdd{}, odd.data(),
               counts.data(), workspace);
    ps::inclusive_sum(stream, static_cast<const std::uint8_t*>(odd.data()), n, sums.data(),
                      workspace);
    ps::run_length_decode(stream, static_cast<const std::uint32_t*>(sums.data()),
                          static_cast<const std::uint8_t*>(odd.data()), n, decoded.data(), 1000,
                          counts.data() + 1, workspace);
    ps::exclusive_sum(stream, static_cast<const std::uint32_t*>(sums.data()), n, sums.data(),
                      workspace);
    ps::exclusive_sum(stream, static_cast<const std::uint64_t*>(counts.data()), 2, late.data(),
                      workspace);
  };
  all(); // CUDA loads kernels at their first launch, and may wait for that
  device.sync(stream);
  const std::vector<std::uint64_t> counted = counts.read(stream);
  const std::vector<std::uint32_t> first = decoded.read(stream);
  const std::vector<std::uint32_t> summed = sums.read(stream);

  TestGate gate{device};
  gate.shut(stream);
  all();
  CHECK_FALSE(stream.is_done()); // no call has waited for the gate
  gate.let_go();
  CHECK(late.read(stream) == std::vector<std::uint64_t>{0, counted[0]});

  std::vector<std::uint8_t> expected_odd;
  std::copy_if(bytes.begin(), bytes.end(), std::back_inserter(expected_odd), IsOdd{});
  CHECK(counted[0] == expected_odd.size());
  expected_odd.resize(n);
  std::vector<std::uint32_t> expected_first;
  std::vector<std::uint32_t> expected_sums;
  std::uint32_t sum = 0;
  std::uint32_t sum_of_sums = 0;
  for (const std::uint8_t value : expected_odd) {
    sum += value;
    expected_first.insert(expected_first.end(), value, sum);
    expected_sums.push_back(sum_of_sums);
    sum_of_sums += sum;
  }
  CHECK(counted[1] == expected_first.size());
  expected_first.resize(1000);
  CHECK(first == expected_first);
  CHECK(summed == expected_sums);
  CHECK(decoded.read(stream) == expected_first);
}

} // namespace suite
