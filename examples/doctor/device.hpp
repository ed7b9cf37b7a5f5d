// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../support/link.hpp"
#include "limits.hpp"
#include "memory_budget.hpp"
#include "timing.hpp"

#include <penstock/penstock.hpp>
#if defined(__CUDACC__)
#include <penstock/cuda/algorithm.cuh>
#endif

#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>

namespace doctor {

struct Nothing {
  PENSTOCK_HD void operator()(std::size_t) const {}
};

/// Measures how long it takes to get page-locked memory: pages from the system, and their locking.
template <penstock::AnyDevice D> void measure_pinning(D& device, Limits& limits) {
  const std::size_t bytes = affordable(256 * mib, 8);
  const double seconds = median_of(
      [&] {
        const auto begin = Clock::now();
        void* const at = device.allocate_pinned(bytes);
        const double took = seconds_since(begin);
        device.deallocate_pinned(at, bytes);
        return took;
      },
      0.6);
  limits.add("pinning_s_per_gib", seconds * static_cast<double>(gib) / static_cast<double>(bytes));
}

/// Measures copies to the device, back, and both at once, of page-locked memory, and of pageable
/// memory beside it.
template <penstock::AnyDevice D> void measure_bus(D& device, Limits& limits) {
  constexpr double limit = 0.3;
  const std::size_t bytes = affordable(64 * mib, 16);
  const DeviceMemory<D> host_out{device, bytes, true};
  const DeviceMemory<D> host_in{device, bytes, true};
  const DeviceMemory<D> device_in{device, bytes, false};
  const DeviceMemory<D> device_out{device, bytes, false};
  const Bytes pageable = make_bytes(bytes);
  std::memset(pageable.get(), 1, bytes);
  auto there = device.stream();
  auto back = device.stream();
  const auto gb_per_s = [&](int copies, auto copy) {
    const double seconds = median_seconds(
        [&] {
          for (int i = 0; i < copies; ++i) {
            copy();
          }
          device.sync(there);
          device.sync(back);
        },
        limit);
    return copies * static_cast<double>(bytes) / seconds / 1e9;
  };
  constexpr int many = 8;
  const auto to_device = [&] { device.copy_to_device(device_in.at, host_out.at, bytes, there); };
  const auto to_host = [&] { device.copy_to_host(host_in.at, device_out.at, bytes, back); };
  limits.add("bus_to_device_gb_per_s", gb_per_s(many, to_device));
  limits.add("bus_to_host_gb_per_s", gb_per_s(many, to_host));
  limits.add("bus_both_ways_at_once_gb_per_s", 2 * gb_per_s(many, [&] {
                                                 to_device();
                                                 to_host();
                                               }));
  limits.add("bus_to_device_pageable_gb_per_s", gb_per_s(2, [&] {
               device.copy_to_device(device_in.at, pageable.get(), bytes, there);
             }));
  limits.add("bus_to_host_pageable_gb_per_s",
             gb_per_s(2, [&] { device.copy_to_host(pageable.get(), device_out.at, bytes, back); }));
}

/// Measures how many empty kernels a second can be launched, one by one and in graphs of 32, and
/// how long it takes to launch one and wait for it.
template <penstock::AnyDevice D> void measure_launches(D& device, Limits& limits) {
  constexpr double limit = 0.3;
  constexpr int many = 4096;
  constexpr int in_a_graph = 32;
  auto stream = device.stream();
  const auto launch = [&] { penstock::for_each(stream, 1, Nothing{}); };
  const double loose = median_seconds(
      [&] {
        for (int i = 0; i < many; ++i) {
          launch();
        }
        device.sync(stream);
      },
      limit);
  limits.add("launches_per_s", many / loose);
  const auto graph = device.capture(std::span{&stream, 1}, [&] {
    for (int i = 0; i < in_a_graph; ++i) {
      launch();
    }
  });
  const double in_graphs = median_seconds(
      [&] {
        for (int i = 0; i < many / in_a_graph; ++i) {
          graph.launch(stream);
        }
        device.sync(stream);
      },
      limit);
  limits.add("launches_in_graphs_of_32_per_s", many / in_graphs);
  constexpr int few = 256;
  const double waited = median_seconds(
      [&] {
        for (int i = 0; i < few; ++i) {
          launch();
          device.sync(stream);
        }
      },
      limit);
  limits.add("launch_and_wait_us", waited / few * 1e6);
}

/// Measures how long it takes to have the host device's thread do something, and to wait for it.
inline void measure_calls(penstock::HostDevice& device, Limits& limits) {
  constexpr int few = 256;
  auto stream = device.stream();
  const double seconds = median_seconds(
      [&] {
        for (int i = 0; i < few; ++i) {
          stream.enqueue([] {});
          device.sync(stream);
        }
      },
      0.3);
  limits.add("host_device_call_and_wait_us", seconds / few * 1e6);
}

/// Measures all that only a GPU has, or, on the host device, its calls.
template <penstock::AnyDevice D> void measure_device(D& device, Limits& limits) {
  if constexpr (std::is_same_v<D, penstock::HostDevice>) {
    measure_calls(device, limits);
    limits.missing("pinning, bus and launches", "no GPU is there, or it is not to be used");
  } else {
    measure_pinning(device, limits);
    measure_bus(device, limits);
    measure_launches(device, limits);
  }
}

} // namespace doctor
