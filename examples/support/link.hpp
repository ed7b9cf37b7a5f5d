// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/penstock.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <type_traits>

/// Memory of a device, or of the host page-locked for it, with nothing written to it.
template <penstock::AnyDevice D> struct DeviceMemory {
  DeviceMemory(D& on, std::size_t n, bool on_host)
      : device{&on}, bytes{n}, pinned{on_host},
        at{static_cast<std::byte*>(on_host ? on.allocate_pinned(n) : on.allocate(n))} {}
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory() { pinned ? device->deallocate_pinned(at, bytes) : device->deallocate(at, bytes); }

  D* device;
  std::size_t bytes;
  bool pinned;
  std::byte* at;
};

/// Returns the bytes a second that copies of page-locked memory to the device reach; nothing for a
/// device whose memory is the host's.
template <penstock::AnyDevice D> std::optional<double> link_bytes_per_s(D& device) {
  if constexpr (std::is_same_v<D, penstock::HostDevice>) {
    return std::nullopt;
  } else {
    const DeviceMemory<D> from{device, std::size_t{64} << 20, true};
    const DeviceMemory<D> to{device, from.bytes, false};
    auto stream = device.stream();
    double best = 0;
    for (int round = 0; round < 5; ++round) {
      const auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < 16; ++i) {
        device.copy_to_device(to.at, from.at, from.bytes, stream);
      }
      device.sync(stream);
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      best = std::max(best, 16.0 * static_cast<double>(from.bytes) / took.count());
    }
    return best;
  }
}
