// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/splitmix.hpp>

#include <chrono>
#include <cstdint>

namespace penstock::detail {

/// Returns how late the `copy`-th copy, counted from 0, starts for a seed.
inline std::chrono::nanoseconds lateness(std::uint64_t seed, std::uint64_t copy) noexcept {
  if (seed == 0) {
    return {};
  }
  const std::uint64_t x = splitmix(seed, copy);
  constexpr std::uint64_t prompt_one_in = 4, most_ns = 400'000;
  return std::chrono::nanoseconds{x % prompt_one_in == 0 ? 0 : (x >> 8) % most_ns};
}

} // namespace penstock::detail
