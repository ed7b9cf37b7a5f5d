// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#include <cstdint>

namespace penstock {

/// What a stage's callable, or the body of your loop, asked of a device on the thread that calls
/// it: on a HostDevice always, on a GPU if GpuObserver looked on. Seconds are those that the calls
/// kept the thread, of all workers together.
struct DeviceCalls {
  std::uint64_t launches{};        ///< Kernels and graphs launched, or work enqueued.
  std::uint64_t waits{};           ///< Waits for a stream, an event or the device.
  std::uint64_t allocations{};     ///< Memory allocated or given back, page-locked or not.
  std::uint64_t copies{};          ///< Copies and fills.
  std::uint64_t pageable_copies{}; ///< Those of them from or to pageable memory.
  std::uint64_t pageable_bytes{};  ///< Bytes of those.
  double launch_s{};               ///< Seconds in launches.
  double wait_s{};                 ///< Seconds in waits.
  double allocation_s{};           ///< Seconds in allocations.
  double copy_s{};                 ///< Seconds in copies.
};

} // namespace penstock
