// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#include <cstddef>
#include <cstdint>

namespace penstock {

/// What a HostDevice has done and holds.
struct HostCounts {
  /// Counted calls, failed ones included: those that fail_call() counts.
  std::uint64_t calls = 0;
  std::uint64_t copies = 0;       ///< Copies enqueued.
  std::uint64_t copied_bytes = 0; ///< Bytes of those copies.
  std::uint64_t launches = 0;     ///< Work enqueued, and graphs launched, a graph as one.
  std::uint64_t records = 0;      ///< Events recorded.
  std::uint64_t waits = 0;        ///< Times a stream was told to wait.
  std::uint64_t queries = 0;      ///< Calls of is_done().
  std::uint64_t syncs = 0;        ///< Blocking waits.
  /// Bytes ever page-locked, given back or not.
  std::uint64_t pinned_bytes = 0;
  std::size_t live_allocations = 0; ///< Pieces of device memory not given back yet.
  std::size_t live_pinned = 0;      ///< Pieces of pinned memory not given back yet.
  std::size_t live_streams = 0;     ///< Streams that exist now.
  std::size_t live_events = 0;      ///< Events that exist now.
};

} // namespace penstock
