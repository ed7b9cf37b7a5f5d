// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The suite of kernels and the way back on the host device, whose copies come late.

#include <penstock/penstock.hpp>

#include <chrono>
#include <cstdint>
#include <thread>

using TestDevice = penstock::HostDevice;

template <class D = TestDevice, class F> void for_each_device(F f) {
  for (const std::uint64_t seed : {0, 3}) {
    D device{{.late_seed = seed}};
    f(device);
  }
}

inline void delay(penstock::HostStream& stream, std::chrono::microseconds time) {
  stream.enqueue([time] { std::this_thread::sleep_for(time); });
}

#include "suite/both_ways_suite.hpp"
