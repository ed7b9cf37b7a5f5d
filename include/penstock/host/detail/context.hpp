// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/config.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/host/detail/call_gate.hpp>
#include <penstock/host/detail/machine.hpp>
#include <penstock/host/detail/queue.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace penstock::detail {

/// What the streams and events of one HostDevice share with it.
struct HostContext {
  HostContext() = default;
  explicit HostContext(Owned<Machine> pretended) : machine{std::move(pretended)} {}

  /// What the machine says; by default nothing costs anything.
  /// @{
  std::uint64_t memory_bytes() const noexcept { return machine ? machine->memory_bytes() : 0; }
  bool has_bus(Way way) const noexcept { return machine && machine->has_bus(way); }
  Cost copy(Way way, std::uint64_t number, std::size_t bytes, bool pageable) const noexcept;
  /// @}

  const Owned<Machine> machine; // null if the device has no options
  CallGate gate;
  HostQueues queues;
  StdAtomics::Atomic<std::uint64_t> launches{0}, records{0}, waits{0}, queries{0}, syncs{0};
  StdAtomics::Atomic<std::size_t> live_streams{0}, live_events{0};
};

#if PENSTOCK_BODIES
PENSTOCK_INLINE Cost HostContext::copy(Way way, std::uint64_t number, std::size_t bytes,
                                       bool pageable) const noexcept {
  return machine ? machine->copy(way, number, bytes, pageable) : Cost{};
}
#endif

} // namespace penstock::detail
