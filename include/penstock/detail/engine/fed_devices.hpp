// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/config.hpp>
#include <penstock/detail/base/near_device.hpp>
#include <penstock/detail/base/processor_set.hpp>
#include <penstock/device.hpp>

#include <algorithm>
#include <cstddef>

#include <sys/types.h>
#include <unistd.h>

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
      place_->store(nullptr, StdAtomics::relaxed);
    }
  }

  /// Counts `device`, once, and notes the processors near it; null is none.
  template <AnyDevice D> [[gnu::cold]] void is(D* device) {
    if (device) {
      note(device);
      near_ = processors_near(*device);
      neighbours_ = near_.empty() ? 1 : devices_near(*device);
    }
  }
  /// Notes how many pipelines run side by side on this host.
  void among(unsigned parts) noexcept { parts_ = parts; }
  /// Returns on which processors the threads that feed it, so many, should run. None if any will
  /// do, or if those near it are too few for the pipelines of all devices there: their threads
  /// would wait for each other while other processors rest.
  ProcessorSet near(std::size_t threads) const noexcept {
    return threads * std::min(parts_, neighbours_) <= near_.count() ? near_ : ProcessorSet{};
  }
  /// Counts what lies there, once. Not counted where very many are.
  [[gnu::cold]] void note(const void* device) noexcept {
    forget_the_parents();
    for (std::size_t i = 0; !place_ && i != most; ++i) {
      const void* none = nullptr;
      if (fed_[i].compare_exchange_strong(none, device, StdAtomics::relaxed)) {
        place_ = &fed_[i];
      }
    }
  }
  /// Returns how many different devices are counted, at least 1.
  [[gnu::cold]] static unsigned count() noexcept {
    forget_the_parents();
    const void* seen[most];
    unsigned different = 0;
    for (const Place& place : fed_) {
      const void* const device = place.load(StdAtomics::relaxed);
      bool is_new = device != nullptr;
      for (unsigned k = 0; k != different; ++k) {
        is_new = is_new && seen[k] != device;
      }
      if (is_new) {
        seen[different++] = device;
      }
    }
    return different != 0 ? different : 1;
  }

 private:
  using Place = StdAtomics::Atomic<const void*>;
  static constexpr std::size_t most = 128; // pipelines

  // A forked child has its parent's places, but none of its pipelines. No lock: the child would
  // have it as another thread of the parent left it.
  static void forget_the_parents() noexcept {
    const pid_t here = ::getpid();
    const pid_t before = process_.exchange(here, StdAtomics::relaxed);
    for (std::size_t i = 0; before != 0 && before != here && i != most; ++i) {
      fed_[i].store(nullptr, StdAtomics::relaxed);
    }
  }

  static inline constinit Place fed_[most]{};
  static inline constinit StdAtomics::Atomic<pid_t> process_{0};

  Place* place_{};
  ProcessorSet near_;
  unsigned neighbours_{1}; // devices like it on its node, itself included
  unsigned parts_{1};
};

} // namespace penstock::detail
