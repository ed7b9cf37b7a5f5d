// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Numbers on a device and back, for the tests that compare GPUs with plain loops.

#include "../support/catch.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace penstock::tests {

/// Returns numbers from -1 to 1, as T has them, the same for each seed.
template <class T> std::vector<float> numbers(std::size_t count, std::uint64_t seed, float scale) {
  std::vector<float> all(count);
  std::generate(all.begin(), all.end(), [&] {
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    return static_cast<float>(T(scale * (static_cast<float>(seed >> 40) * 0x1p-23F - 1)));
  });
  return all;
}

/// Copy to and from a device, as Ts. Block.
/// @{
template <class T, class D>
void put(D& device, typename D::stream_type& stream, T* to, const std::vector<float>& from) {
  std::vector<T> values(from.size());
  std::transform(from.begin(), from.end(), values.begin(), [](float value) { return T(value); });
  device.copy_to_device(to, values.data(), values.size() * sizeof(T), stream);
  device.sync(stream);
}
template <class T, class D>
std::vector<float> get(D& device, typename D::stream_type& stream, const T* from,
                       std::size_t count) {
  std::vector<T> values(count);
  device.copy_to_host(values.data(), from, count * sizeof(T), stream);
  device.sync(stream);
  std::vector<float> floats(count);
  std::transform(values.begin(), values.end(), floats.begin(),
                 [](T value) { return static_cast<float>(value); });
  return floats;
}
/// @}

/// Returns how far `a` is from `b`, as a share of `b`.
inline double off(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0;
  double all = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (double(a[i]) - double(b[i])) * (double(a[i]) - double(b[i]));
    all += double(b[i]) * double(b[i]);
  }
  REQUIRE(all > 0);
  return std::sqrt(difference / all);
}

} // namespace penstock::tests
