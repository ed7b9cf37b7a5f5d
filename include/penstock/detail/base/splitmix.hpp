// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace penstock::detail {

/// Returns the `i`-th number of a seed's sequence, mixed as splitmix64 does: neighbours come out
/// unlike.
constexpr std::uint64_t splitmix(std::uint64_t seed, std::uint64_t i) noexcept {
  std::uint64_t x = seed + i * 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

} // namespace penstock::detail
