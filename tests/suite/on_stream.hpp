// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What suites of algorithms on a stream share.

#include "support/catch.hpp"
#include "support/sanitizer.hpp"

#include <penstock/device/device_array.hpp>
#include <penstock/error.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

namespace suite {

namespace ps = penstock;

inline const std::size_t sizes[] = {
    0, 1, 31, 32, 33, 255, 256, 257, penstock::tests::under_tsan ? 10'003U : 100'003U};

/// Returns random values: any bits for integers; else whole numbers whose sums are exact.
template <class T> std::vector<T> random_values(std::size_t n, std::uint64_t seed = 1) {
  std::mt19937_64 random{seed * 1'000'003 + n};
  std::vector<T> values(n);
  for (T& value : values) {
    if constexpr (std::is_integral_v<T>) {
      value = static_cast<T>(random());
    } else {
      value = static_cast<T>(static_cast<float>(random() % 2001) - 1000.0F);
    }
  }
  return values;
}

template <class T, class D>
ps::DeviceArray<T, D> in_memory_of(D& device, const std::vector<T>& values) {
  ps::DeviceArray<T, D> array{device, values.size()};
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

/// Returns how many elements differ in their bits.
template <class T>
std::size_t differences(const std::vector<T>& got, const std::vector<T>& expected) {
  REQUIRE(got.size() == expected.size());
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    wrong += std::memcmp(&got[i], &expected[i], sizeof(T)) != 0;
  }
  return wrong;
}

/// Returns the text of the Error that f throws.
template <class F> std::string error_of(F f) {
  try {
    f();
  } catch (const ps::Error& e) {
    return e.what();
  }
  return "nothing was thrown";
}

/// Returns how many bytes a refusal of a workspace says are needed.
inline std::size_t needed(const std::string& text) {
  const std::string before = "a workspace of ";
  CAPTURE(text);
  REQUIRE(text.find(before) != std::string::npos);
  return std::stoull(text.substr(text.find(before) + before.size()));
}

} // namespace suite
