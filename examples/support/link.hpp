// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/penstock.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <deque>
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

/// Returns the bytes a second that copies of page-locked memory to each of these devices reach, all
/// at once; nothing for devices whose memory is the host's. `meet()` is called before each round:
/// other processes may measure theirs meanwhile.
template <penstock::AnyDevice D, class Meet>
std::optional<double> links_bytes_per_s(std::deque<D>& devices, Meet meet) {
  if constexpr (std::is_same_v<D, penstock::HostDevice>) {
    return std::nullopt;
  } else {
    struct Link {
      explicit Link(D& device)
          : from{device, std::size_t{64} << 20, true}, to{device, from.bytes, false},
            stream{device.stream()} {}
      DeviceMemory<D> from;
      DeviceMemory<D> to;
      typename D::stream_type stream;
    };
    std::deque<Link> links;
    for (D& device : devices) {
      links.emplace_back(device);
    }
    constexpr int copies = 16;
    double best = 0;
    for (int round = 0; round < 5; ++round) {
      meet();
      const auto begin = std::chrono::steady_clock::now();
      double bytes = 0;
      for (int i = 0; i < copies; ++i) {
        for (Link& link : links) {
          link.from.device->copy_to_device(link.to.at, link.from.at, link.from.bytes, link.stream);
          bytes += static_cast<double>(link.from.bytes);
        }
      }
      for (Link& link : links) {
        link.from.device->sync(link.stream);
      }
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      best = std::max(best, bytes / took.count());
    }
    return best;
  }
}
