// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The suite of columns on the host device, whose copies come late in three different orders.

#include <penstock/penstock.hpp>

#include <cstdint>

using TestDevice = penstock::HostDevice;

template <class D = TestDevice, class F> void for_each_device(F f) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    D device{{.late_seed = seed}};
    f(device);
  }
}

#include "suite/columns_suite.hpp"
