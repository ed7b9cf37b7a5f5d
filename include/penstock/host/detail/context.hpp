// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/host/detail/call_gate.hpp>
#include <penstock/host/detail/machine.hpp>
#include <penstock/host/detail/queue.hpp>
#include <penstock/host/options.hpp>

#include <cstddef>
#include <cstdint>

namespace penstock::detail {

/// What the streams and events of one HostDevice share with it.
struct HostContext {
  explicit HostContext(const HostOptions& options) : machine{options} {}

  Machine machine;
  CallGate gate;
  HostQueues queues;
  StdAtomics::Atomic<std::uint64_t> launches{0}, records{0}, waits{0}, queries{0}, syncs{0};
  StdAtomics::Atomic<std::size_t> live_streams{0}, live_events{0};
};

} // namespace penstock::detail
