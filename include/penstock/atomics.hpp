// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#include <atomic>

namespace penstock {

/// Where rings take their atomics from: the standard library's, or a model checker's in tests.
struct StdAtomics {
  /// An atomic of T.
  template <class T> using Atomic = std::atomic<T>;
  /// Atomic access to a T that another makes, such as the kernel.
  template <class T> using AtomicRef = std::atomic_ref<T>;
  /// The memory orders.
  /// @{
  static constexpr auto relaxed = std::memory_order_relaxed;
  static constexpr auto acquire = std::memory_order_acquire;
  static constexpr auto release = std::memory_order_release;
  static constexpr auto acq_rel = std::memory_order_acq_rel;
  /// @}
};

} // namespace penstock
