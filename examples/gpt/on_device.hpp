// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Small work for penstock::for_each(), on either device.

#include <penstock/config.hpp>

#include <cstddef>
#include <cstdint>
#if defined(__CUDACC__)
#include <penstock/cuda/algorithm.cuh>
#else
#include <penstock/host/algorithm.hpp>
#endif

namespace transformer {

/// Four adjacent values, which one instruction loads or stores.
template <class T> struct alignas(4 * sizeof(T)) Four {
  T at[4];
};
template <class T> Four<T>* fours(T* at) {
  return reinterpret_cast<Four<T>*>(at);
}
template <class T> const Four<T>* fours(const T* at) {
  return reinterpret_cast<const Four<T>*>(at);
}

/// Sets each value to `value`.
template <class T> struct Fill {
  T* at;
  T value;
  PENSTOCK_HD void operator()(std::size_t i) const { at[i] = value; }
};

/// Counts a counter in device memory up.
struct CountUp {
  std::uint64_t* counter;
  PENSTOCK_HD void operator()(std::size_t) const { ++*counter; }
};

} // namespace transformer
