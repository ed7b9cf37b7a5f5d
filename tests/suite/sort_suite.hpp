// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// sort and segmented_top_k make what the standard library makes. The including file defines
// TestDevice and TestGate, which holds one of its streams back.

#include "suite/on_stream.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace suite {

using D = TestDevice;
using ps::Order;

inline constexpr std::size_t sort_bytes = std::size_t{16} << 20;

struct Wide {
  std::uint64_t of[3];
};

// The places of the keys in order, of equal ones the first first.
template <class K> std::vector<std::uint32_t> places(const K* keys, std::size_t n, Order order) {
  std::vector<std::uint32_t> places(n);
  std::iota(places.begin(), places.end(), 0U);
  std::sort(places.begin(), places.end(), [&](std::uint32_t a, std::uint32_t b) {
    const K first = keys[order == Order::ascending ? a : b];
    const K second = keys[order == Order::ascending ? b : a];
    return first < second || (first == second && a < b);
  });
  return places;
}

// With many ties if there are few `kinds`.
template <class K> std::vector<K> keys_of(std::size_t n, std::uint64_t kinds) {
  std::vector<K> keys = random_values<K>(n, kinds);
  if constexpr (std::is_integral_v<K>) {
    const K middle = std::is_signed_v<K> ? 0 : std::numeric_limits<K>::max() / 2;
    for (K& key : keys) {
      key = kinds == 0
                ? key
                : static_cast<K>(middle + static_cast<K>(static_cast<std::uint64_t>(key) % kinds) -
                                 static_cast<K>(kinds / 2));
    }
  } else {
    for (K& key : keys) {
      key = kinds == 0 ? key / 7 : std::floor(key * static_cast<K>(kinds) / 2000);
    }
  }
  return keys;
}

template <class K> void check_sort() {
  CAPTURE(sizeof(K));
  D device;
  auto stream = device.stream();
  ps::Workspace workspace{device, sort_bytes};
  for (const std::size_t n : sizes) {
    for (const std::uint64_t kinds : {0, 3}) {
      for (const Order order : {Order::ascending, Order::descending}) {
        CAPTURE(n, kinds, order == Order::ascending);
        const std::size_t start = n % 2;
        const std::vector<K> keys = keys_of<K>(n + start, kinds);
        const auto there = in_memory_of(device, keys);
        const auto indices = places(keys.data() + start, n, order);
        std::vector<std::uint32_t> values(n);
        std::iota(values.begin(), values.end(), 0U);
        const auto values_there = in_memory_of(device, values);
        const auto alone = ps::device_array<K>(device, n + 1);
        const auto sorted = ps::device_array<K>(device, n + 1);
        const auto taken = ps::device_array<std::uint32_t>(device, n + 1);
        const K* const in = there.data() + start;
        ps::sort(stream, in, n, alone.data(), workspace, order);
        ps::sort(stream, in, static_cast<const std::uint32_t*>(values_there.data()), n,
                 sorted.data(), taken.data(), workspace, order);
        std::vector<K> expected(n + 1);
        for (std::size_t i = 0; i < n; ++i) {
          expected[i] = keys[start + indices[i]];
        }
        // A sort of keys alone may write any of those that are equal, which only differ if they are
        // -0 and 0.
        CHECK(alone.read(stream) == expected);
        CHECK(differences(sorted.read(stream), expected) == 0);
        auto expected_values = indices;
        expected_values.push_back(0);
        CHECK(taken.read(stream) == expected_values);
        CHECK(differences(there.read(stream), keys) == 0);
      }
    }
  }
}

template <class K>
void check_top_k(std::size_t segments, std::size_t width, std::size_t k, std::uint64_t kinds) {
  CAPTURE(segments, width, k, kinds, sizeof(K));
  D device;
  auto stream = device.stream();
  const std::vector<K> keys = keys_of<K>(segments * width, kinds);
  const auto there = in_memory_of(device, keys);
  const auto values = ps::device_array<K>(device, segments * k + 1);
  const auto indices = ps::device_array<std::uint32_t>(device, segments * k + 1);
  ps::segmented_top_k(stream, static_cast<const K*>(there.data()), segments, width, k,
                      values.data(), indices.data());
  std::vector<K> expected_values;
  std::vector<std::uint32_t> expected_indices;
  for (std::size_t segment = 0; segment < segments; ++segment) {
    const K* const from = keys.data() + segment * width;
    const auto ordered = places(from, width, Order::descending);
    for (std::size_t i = 0; i < k; ++i) {
      expected_values.push_back(from[ordered[i]]);
      expected_indices.push_back(ordered[i]);
    }
  }
  expected_values.push_back(0);
  expected_indices.push_back(0);
  CHECK(differences(values.read(stream), expected_values) == 0);
  CHECK(indices.read(stream) == expected_indices);
}

TEST_CASE("sort orders keys of every kind, both ways, and takes values with them") {
  check_sort<std::uint8_t>();
  check_sort<std::int32_t>();
  check_sort<float>();
  check_sort<std::uint64_t>();
  check_sort<double>();
}

TEST_CASE("sort takes values of another size") {
  D device;
  auto stream = device.stream();
  ps::Workspace workspace{device};
  const std::vector<std::uint16_t> keys{5, 1, 5, 0, 1};
  std::vector<Wide> wide;
  for (std::uint64_t i = 0; i < keys.size(); ++i) {
    wide.push_back({{i, 2 * i, 3 * i}});
  }
  const auto keys_there = in_memory_of(device, keys);
  const auto wide_there = in_memory_of(device, wide);
  const auto sorted = ps::device_array<std::uint16_t>(device, keys.size());
  const auto taken = ps::device_array<Wide>(device, keys.size());
  ps::sort(stream, static_cast<const std::uint16_t*>(keys_there.data()),
           static_cast<const Wide*>(wide_there.data()), keys.size(), sorted.data(), taken.data(),
           workspace);
  CHECK(sorted.read(stream) == std::vector<std::uint16_t>{0, 1, 1, 5, 5});
  CHECK(differences(taken.read(stream),
                    std::vector<Wide>{wide[3], wide[1], wide[4], wide[0], wide[2]}) == 0);
}

TEST_CASE("a NaN is sorted beyond infinity, and -0 is no less than 0") {
  D device;
  auto stream = device.stream();
  ps::Workspace workspace{device};
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::copysign(std::numeric_limits<float>::quiet_NaN(), 1.0F);
  const std::vector<float> keys{0.0F, nan, -0.0F, infinity, -infinity, 0.0F, -nan, -1.0F};
  const std::vector<std::uint32_t> values{0, 1, 2, 3, 4, 5, 6, 7};
  const auto keys_there = in_memory_of(device, keys);
  const auto values_there = in_memory_of(device, values);
  const auto sorted = ps::device_array<float>(device, keys.size());
  const auto taken = ps::device_array<std::uint32_t>(device, keys.size());
  const float* const in = keys_there.data();
  const std::uint32_t* const with = values_there.data();
  ps::sort(stream, in, with, keys.size(), sorted.data(), taken.data(), workspace);
  CHECK(taken.read(stream) == std::vector<std::uint32_t>{6, 4, 7, 0, 2, 5, 3, 1});
  ps::sort(stream, in, with, keys.size(), sorted.data(), taken.data(), workspace,
           Order::descending);
  CHECK(taken.read(stream) == std::vector<std::uint32_t>{1, 3, 0, 2, 5, 7, 4, 6});

  const auto best = ps::device_array<float>(device, 6);
  ps::segmented_top_k(stream, in, 1, keys.size(), 6, best.data(), taken.data());
  auto indices = taken.read(stream);
  indices.resize(6);
  CHECK(indices == std::vector<std::uint32_t>{1, 3, 0, 2, 5, 7});
  CHECK(differences(best.read(stream),
                    std::vector<float>{nan, infinity, 0.0F, -0.0F, 0.0F, -1.0F}) == 0);
}

TEST_CASE("segmented_top_k finds the largest, in order, of equal ones the first") {
  for (const std::size_t width : sizes) {
    for (const std::size_t k : {0, 1, 2, 10, 32, 255, 1024}) {
      if (k <= width) {
        const std::size_t segments = width > 1000 ? 2 : 5;
        check_top_k<float>(segments, width, k, 0);
        check_top_k<float>(segments, width, k, 5);
        check_top_k<std::int32_t>(segments, width, k, 2);
        check_top_k<std::uint64_t>(segments, width, k, 0);
      }
    }
  }
  check_top_k<std::uint8_t>(3, 2049, 700, 0);
  check_top_k<std::int16_t>(3, 1025, 1024, 0);
  check_top_k<double>(3, 5000, 100, 0);
  check_top_k<float>(0, 100, 10, 0);
  check_top_k<float>(1000, 40, 40, 0);
}

TEST_CASE("segmented_top_k finds the largest whichever way the keys run") {
  D device;
  auto stream = device.stream();
  for (const bool rising : {true, false}) {
    CAPTURE(rising);
    const std::uint32_t n = 10'000;
    std::vector<std::uint32_t> keys(n);
    std::iota(keys.begin(), keys.end(), 0U);
    if (!rising) {
      std::reverse(keys.begin(), keys.end());
    }
    const auto there = in_memory_of(device, keys);
    const auto values = ps::device_array<std::uint32_t>(device, 3);
    const auto indices = ps::device_array<std::uint32_t>(device, 3);
    ps::segmented_top_k(stream, static_cast<const std::uint32_t*>(there.data()), 1, n, 3,
                        values.data(), indices.data());
    CHECK(values.read(stream) == std::vector<std::uint32_t>{n - 1, n - 2, n - 3});
    CHECK(indices.read(stream) == (rising ? std::vector<std::uint32_t>{n - 1, n - 2, n - 3}
                                          : std::vector<std::uint32_t>{0, 1, 2}));
  }
}

TEST_CASE("segmented_top_k refuses what it cannot do") {
  D device;
  auto stream = device.stream();
  const auto refusal = [&](std::size_t width, std::size_t k) {
    const float* const none = nullptr;
    return error_of([&] {
      ps::segmented_top_k(stream, none, 1, width, k, static_cast<float*>(nullptr),
                          static_cast<std::uint32_t*>(nullptr));
    });
  };
  CHECK(refusal(7, 8) == "penstock: segmented_top_k is to find 8 keys in segments of 7: let k be "
                         "at most the width.");
  CHECK(refusal(5000, 1025) == "penstock: segmented_top_k finds at most 1024 keys, and k is 1025: "
                               "sort each segment.");
  CHECK(refusal(std::size_t{1} << 32, 1) ==
        "penstock: segmented_top_k has indices of 32 bits, and segments of 4294967296 keys: make "
        "the segments smaller.");
}

TEST_CASE("sort refuses a workspace too small, and what it asks for will do") {
  D device;
  auto stream = device.stream();
  const std::size_t n = 300'001;
  const std::vector<float> keys = keys_of<float>(n, 0);
  const auto indices = places(keys.data(), n, Order::ascending);
  std::vector<std::uint16_t> values(n);
  std::iota(values.begin(), values.end(), std::uint16_t{0});
  const auto keys_there = in_memory_of(device, keys);
  const auto values_there = in_memory_of(device, values);
  const auto sorted = ps::device_array<float>(device, n);
  const auto taken = ps::device_array<std::uint16_t>(device, n);
  for (const bool pairs : {false, true}) {
    CAPTURE(pairs);
    const auto with = [&](std::size_t size) {
      ps::Workspace<D> workspace{device, size};
      const float* const in = keys_there.data();
      if (pairs) {
        ps::sort(stream, in, static_cast<const std::uint16_t*>(values_there.data()), n,
                 sorted.data(), taken.data(), workspace);
      } else {
        ps::sort(stream, in, n, sorted.data(), workspace);
      }
      device.sync(stream);
    };
    const std::string text = error_of([&] { with(1000); });
    CAPTURE(text);
    CHECK(text.rfind("penstock: sort needs", 0) == 0);
    CHECK(text.find("was given 1000:") != std::string::npos);
    const std::size_t bytes = needed(text);
    CHECK(bytes <= 4 * n * (pairs ? 6 : 4));
    CHECK(needed(error_of([&] { with(bytes - 1); })) == bytes);
    with(bytes);
    std::vector<float> expected(n);
    std::vector<std::uint16_t> expected_values(n);
    for (std::size_t i = 0; i < n; ++i) {
      expected[i] = keys[indices[i]];
      expected_values[i] = values[indices[i]];
    }
    CHECK(sorted.read(stream) == expected);
    CHECK((!pairs || taken.read(stream) == expected_values));
  }
}

TEST_CASE("nothing is touched where there is nothing to sort") {
  D device;
  auto stream = device.stream();
  ps::Workspace workspace{device};
  const float* const none = nullptr;
  auto* const nowhere = static_cast<float*>(nullptr);
  ps::sort(stream, none, 0, nowhere, workspace);
  ps::sort(stream, none, none, 0, nowhere, nowhere, workspace, Order::descending);
  device.sync(stream);
  CHECK(stream.is_done());
}

TEST_CASE("sort and segmented_top_k only queue their work, in the stream's order") {
  D device;
  auto stream = device.stream();
  ps::Workspace workspace{device, sort_bytes};
  const std::size_t n = 50'000;
  const auto keys = random_values<std::uint32_t>(n);
  const auto there = in_memory_of(device, keys);
  const auto sorted = ps::device_array<std::uint32_t>(device, n);
  const auto best = ps::device_array<std::uint32_t>(device, 5);
  const auto indices = ps::device_array<std::uint32_t>(device, 5);
  const auto run = [&](Order order) {
    ps::sort(stream, static_cast<const std::uint32_t*>(there.data()), n, sorted.data(), workspace,
             order);
    ps::segmented_top_k(stream, static_cast<const std::uint32_t*>(sorted.data()), 1, n, 5,
                        best.data(), indices.data());
  };
  run(Order::descending); // CUDA loads kernels at their first launch, and may wait for that
  run(Order::ascending);
  device.sync(stream);

  TestGate gate{device};
  gate.shut(stream);
  run(Order::descending);
  CHECK_FALSE(stream.is_done()); // no call has waited for the gate
  gate.let_go();
  CHECK(indices.read(stream) == std::vector<std::uint32_t>{0, 1, 2, 3, 4});
  CHECK(sorted.read(stream)[0] == *std::max_element(keys.begin(), keys.end()));
}

} // namespace suite
