// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace penstock::detail {

/// What knows of which places in a run's order outputs are made, where a Decoder gives another
/// number of records than it takes.
struct OutputOrigins {
  /// A place, and how many of the outputs made from there on come before another.
  struct Origin {
    std::uint64_t place;
    std::uint64_t made;
  };

  OutputOrigins() = default;
  OutputOrigins(const OutputOrigins&) = delete;
  OutputOrigins& operator=(const OutputOrigins&) = delete;
  virtual ~OutputOrigins() = default;
  /// Begins a run, whose first `dropped` outputs an earlier run has given.
  virtual void reset(std::uint64_t dropped) noexcept = 0;
  /// Returns where what follows the first `outputs` comes from. Any thread.
  virtual Origin origin(std::uint64_t outputs) const noexcept = 0;
};

} // namespace penstock::detail
