// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/with_device.hpp>

#include <cstddef>
#include <deque>
#include <stdexcept>
#include <string>
#include <string_view>

/// Returns the number of a rank's GPU, where its process has `there`: some launchers show each rank
/// one alone.
constexpr int gpu_of(int local_rank, int there) noexcept {
  return there == 1 ? 0 : local_rank;
}

/// Calls `f(devices)` with a std::deque of so many devices, which live for the call, as
/// penstock::with_device() does with one: GPUs of consecutive numbers, from gpu_of(first, ...) on,
/// or host devices.
template <class F>
decltype(auto) with_devices(std::string_view which, std::size_t count, int first, F f) {
#if defined(__CUDACC__)
  const int there = penstock::CudaDevice::count();
  if (which == "cuda" || (which == "auto" && there > 0)) {
    first = gpu_of(first, there);
    if (there > first && static_cast<std::size_t>(there - first) < count) {
      throw std::invalid_argument{
          std::to_string(count) + " GPUs are asked for, and this process has " +
          std::to_string(there) + ": ask for fewer. CUDA_VISIBLE_DEVICES may hide some."};
    }
    std::deque<penstock::CudaDevice> gpus;
    for (std::size_t i = 0; i != count; ++i) {
      gpus.emplace_back(first + static_cast<int>(i));
    }
    const auto attached = gpus.front().attach();
    return f(gpus);
  }
#endif
  if (which != "host" && which != "auto") {
    penstock::with_device(which, [](auto&) {}); // throws, since there is none
  }
  static_cast<void>(first);
  std::deque<penstock::HostDevice> devices(count);
  return f(devices);
}
