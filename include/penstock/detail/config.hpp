// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

/// \file
/// What compilers differ in.

/// Before a function: for the host and the GPU where nvcc compiles it, else for the host.
#if defined(__CUDACC__)
#define PENSTOCK_HD __host__ __device__
#else
#define PENSTOCK_HD
#endif

namespace penstock::detail {

/// What two threads must keep apart to not slow each other down. A constant of our own, since
/// std::hardware_destructive_interference_size changes with compiler flags and g++ warns about it.
inline constexpr std::size_t cache_line = 64;

inline constexpr std::size_t page = 4096;

} // namespace penstock::detail
