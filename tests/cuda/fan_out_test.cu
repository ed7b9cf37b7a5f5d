// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The suite of one chain that feeds several devices, on GPU 0, which is there as several.

#include <penstock/cuda.hpp>

#include <cstddef>
#include <deque>

using TestDevice = penstock::CudaDevice;

inline std::deque<TestDevice> make_devices(std::size_t count) {
  return std::deque<TestDevice>(count);
}

#include "suite/fan_out_suite.hpp"
