// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/config.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>

#include <pthread.h>

namespace penstock::detail {

/// The device that a prepared pipeline feeds; counted in this process while this lives. Pipelines
/// of one device usually take turns, those of several devices run side by side and share the
/// processors. Any thread.
class FedDevice {
 public:
  FedDevice() = default;
  FedDevice(const FedDevice&) = delete;
  FedDevice& operator=(const FedDevice&) = delete;
  ~FedDevice() {
    if (place_) {
      place_->store(none, StdAtomics::relaxed);
    }
  }

  /// Counts the device with this identity, once. Not counted where very many are. Throws
  /// std::bad_alloc.
  [[gnu::cold]] void note(std::uintptr_t device) {
    // No lock: a forked child would have it as another thread of the parent left it.
    static const bool forgets = ::pthread_atfork(nullptr, nullptr, forget_the_parents) == 0;
    if (!forgets) {
      throw std::bad_alloc{};
    }
    for (std::size_t i = 0; !place_ && i != most; ++i) {
      std::uintptr_t expected = none;
      if (fed_[i].compare_exchange_strong(expected, device, StdAtomics::relaxed)) {
        place_ = &fed_[i];
      }
    }
  }
  /// Returns how many different devices are counted, at least 1.
  [[gnu::cold]] static unsigned count() noexcept {
    std::uintptr_t seen[most];
    std::uintptr_t* end = seen;
    for (const Place& place : fed_) {
      const std::uintptr_t device = place.load(StdAtomics::relaxed);
      if (device != none && std::find(seen, end, device) == end) {
        *end++ = device;
      }
    }
    return std::max(static_cast<unsigned>(end - seen), 1U);
  }

 private:
  using Place = StdAtomics::Atomic<std::uintptr_t>;
  static constexpr std::size_t most = 128; // pipelines
  static constexpr std::uintptr_t none = 0;

  // A forked child has its parent's places, but none of its pipelines.
  static void forget_the_parents() noexcept {
    for (Place& place : fed_) {
      place.store(none, StdAtomics::relaxed);
    }
  }

  static inline constinit Place fed_[most]{};

  Place* place_{};
};

} // namespace penstock::detail
