// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

namespace penstock::detail {

/// How late the `copy`-th copy, counted from 0, starts for a seed.
inline std::chrono::nanoseconds lateness(std::uint64_t seed, std::uint64_t copy) noexcept {
  if (seed == 0) {
    return {};
  }
  // The mixing of splitmix64: neighbours in come out unlike.
  std::uint64_t x = seed + copy * 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  x ^= x >> 31;
  constexpr std::uint64_t prompt_one_in = 4, most_ns = 400'000;
  return std::chrono::nanoseconds{x % prompt_one_in == 0 ? 0 : (x >> 8) % most_ns};
}

} // namespace penstock::detail
