// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/links/host_link.hpp>
#include <penstock/device/device.hpp>

#include <cstddef>

namespace penstock::detail {

/// Lets a device made for tests spoil slots that are given back, to find code that still uses one.
/// Slots of lent memory are not free yet.
template <AnyDevice D>
void poison(D& device, const HostLink& link, const HostRing::Take& slots) {
  if constexpr (requires(std::byte* at, std::size_t bytes) { device.poison(at, bytes); }) {
    for (std::size_t i = 0; !link.lent && i < slots.size(); ++i) {
      for (std::size_t part = 0; part < link.layout().parts.size(); ++part) {
        device.poison(link.memory.data(slots.place() + i, part), link.layout().parts[part].stride);
      }
    }
  }
}

} // namespace penstock::detail
