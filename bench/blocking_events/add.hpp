// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Sums on either device.

#include <penstock/config.hpp>

#include <cstdint>
#if defined(__CUDACC__)
#include <penstock/cuda/algorithm.cuh>
#else
#include <penstock/host/algorithm.hpp>
#endif

namespace penstock_bench {

/// For ps::reduce().
struct Add {
  PENSTOCK_HD std::uint64_t operator()(std::uint64_t a, std::uint64_t b) const { return a + b; }
};

} // namespace penstock_bench
