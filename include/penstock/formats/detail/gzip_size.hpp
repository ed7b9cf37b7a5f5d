// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace penstock::detail {

/// Returns how many bytes a member of gzip says at its end that it holds; 0 if a member of so many
/// bytes cannot hold as many, as where it was cut.
inline std::uint64_t gzip_size(std::span<const std::byte> member) noexcept {
  constexpr std::size_t least = 18;           // of a header and what is behind the data
  constexpr std::uint64_t most_factor = 1032; // no deflated data is shorter by a larger one
  std::uint64_t size = 0;
  for (std::size_t i = 1; member.size() >= least && i <= 4; ++i) {
    size = size << 8 | std::to_integer<std::uint64_t>(member[member.size() - i]);
  }
  return size / most_factor > member.size() ? 0 : size;
}

} // namespace penstock::detail
