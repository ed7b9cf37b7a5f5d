// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/config.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/device/device.hpp>
#include <penstock/machine/detail/control_groups.hpp>
#include <penstock/machine/detail/processor_set.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <new>
#include <string>
#include <string_view>

#include <dirent.h>
#include <pthread.h>

namespace penstock::detail {

/// Returns the processors that this process has been given: those of its control groups, or all.
/// `root` comes before all paths.
[[gnu::cold]] ProcessorSet processors_given(const std::string& root);

/// Returns which of the `allowed` processors are on the NUMA node of a device on the PCI bus. None
/// if there is no choice to make: the machine has one node, the system does not know the device's,
/// no processor there is allowed, or all that are allowed are there, as where other nodes have
/// memory alone; or if somebody has chosen already, so that not all that the process was given are
/// allowed. `bus_id` is such as "0000:18:00.0", `root` comes before all paths.
[[gnu::cold]] ProcessorSet processors_near(const std::string& root, const std::string& bus_id,
                                           const ProcessorSet& allowed);

/// Returns how many devices of the same maker and class are on the same node, itself included.
[[gnu::cold]] unsigned devices_near(const std::string& root, const std::string& bus_id);

/// Return what a device says of these; no processors, and itself alone, if it does not.
/// @{
template <AnyDevice D> ProcessorSet processors_near(const D& device) {
  if constexpr (requires { device.processors_near(); }) {
    return device.processors_near();
  } else {
    return {};
  }
}
template <AnyDevice D> unsigned devices_near(const D& device) {
  if constexpr (requires { device.devices_near(); }) {
    return device.devices_near();
  } else {
    return 1;
  }
}
/// @}

/// Returns what objects of the same device share; its address, if it does not say.
template <AnyDevice D> std::uintptr_t identity_of(const D& device) {
  if constexpr (requires { device.identity(); }) {
    return device.identity();
  } else {
    return reinterpret_cast<std::uintptr_t>(&device);
  }
}

/// The processors near a device, and how many pipelines share them.
class NearDevice {
 public:
  /// There is none.
  NearDevice() = default;
  /// `parts`: pipelines that run side by side on this host.
  template <AnyDevice D>
  NearDevice(const D& device, std::uint64_t parts) : near_{detail::processors_near(device)} {
    // Devices are counted only where it matters: a host may have hundreds on its bus.
    if (parts != 1 && !near_.empty()) {
      sharing_ = std::min<std::uint64_t>(parts, detail::devices_near(device));
    }
  }

  /// Returns on which processors the threads that feed it, so many, should run. None if any will
  /// do, or if those near it are too few for the pipelines of all devices there: their threads
  /// would wait for each other while other processors rest.
  ProcessorSet processors_for(std::size_t threads) const noexcept;

 private:
  ProcessorSet near_;
  std::uint64_t sharing_{1};
};

/// The device that a prepared pipeline feeds; counted in this process while this lives. Pipelines
/// of one device usually take turns, those of several devices run side by side and share the
/// processors. Any thread.
class FedDevice {
 public:
  FedDevice() = default;
  FedDevice(const FedDevice&) = delete;
  FedDevice& operator=(const FedDevice&) = delete;
  ~FedDevice();

  /// Counts the device with this identity, once. Not counted where very many are. Throws
  /// std::bad_alloc.
  [[gnu::cold]] void note(std::uintptr_t device);
  /// Returns how many different devices are counted, at least 1.
  [[gnu::cold]] static unsigned count() noexcept;

 private:
  using Entry = StdAtomics::Atomic<std::uintptr_t>;
  static constexpr std::size_t most = 128; // pipelines
  static constexpr std::uintptr_t none = 0;

  // A forked child has its parent's places, but none of its pipelines.
  static void forget_the_parents() noexcept;

  static inline constinit Entry fed_[most]{};

  Entry* place_{};
};

#if PENSTOCK_BODIES
PENSTOCK_INLINE ProcessorSet processors_given(const std::string& root) {
  for (const ControlGroup& group : control_groups(root, "cpuset")) {
    const ProcessorSet set = ProcessorSet::listed(text_of(joined(
        {group.folder, group.unified ? "/cpuset.cpus.effective" : "/cpuset.effective_cpus"})));
    if (!set.empty()) {
      return set;
    }
  }
  return ProcessorSet::listed(text_of(joined({root, "/sys/devices/system/cpu/online"})));
}

PENSTOCK_INLINE ProcessorSet processors_near(const std::string& root, const std::string& bus_id,
                                             const ProcessorSet& allowed) {
  const ProcessorSet nodes =
      ProcessorSet::listed(text_of(joined({root, "/sys/devices/system/node/online"})));
  if (nodes.count() < 2) {
    return {};
  }
  const std::string device = joined({root, "/sys/bus/pci/devices/", bus_id});
  const bool known = number_in(text_of(joined({device, "/numa_node"}))).has_value(); // else -1
  if (!known || !(allowed == processors_given(root))) {
    return {};
  }
  const ProcessorSet near =
      ProcessorSet::listed(text_of(joined({device, "/local_cpulist"}))) & allowed;
  return near == allowed ? ProcessorSet{} : near;
}

PENSTOCK_INLINE unsigned devices_near(const std::string& root, const std::string& bus_id) {
  struct Folder {
    ~Folder() {
      if (open) {
        ::closedir(open);
      }
    }
    DIR* open;
  };
  const std::string path = joined({root, "/sys/bus/pci/devices"});
  // The maker first: it differs most often, and the others are then not read.
  constexpr const char* files[] = {"/vendor", "/class", "/numa_node"};
  const auto told = [&path](std::string_view id, const char* file) {
    return text_of(joined({path, "/", id, file}));
  };
  const std::string wanted[] = {told(bus_id, files[0]), told(bus_id, files[1]),
                                told(bus_id, files[2])};
  const Folder all{wanted[0].empty() ? nullptr : ::opendir(path.c_str())};
  unsigned found = 0;
  while (const dirent* const entry = all.open ? ::readdir(all.open) : nullptr) {
    const bool is_same = std::equal(std::begin(wanted), std::end(wanted), files,
                                    [&](const std::string& text, const char* file) {
                                      return told(entry->d_name, file) == text;
                                    });
    found += is_same ? 1U : 0U;
  }
  return std::max(found, 1U);
}

PENSTOCK_INLINE ProcessorSet NearDevice::processors_for(std::size_t threads) const noexcept {
  return threads * sharing_ <= near_.count() ? near_ : ProcessorSet{};
}

PENSTOCK_INLINE FedDevice::~FedDevice() {
  if (place_) {
    place_->store(none, StdAtomics::relaxed);
  }
}

PENSTOCK_INLINE void FedDevice::note(std::uintptr_t device) {
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

PENSTOCK_INLINE unsigned FedDevice::count() noexcept {
  std::uintptr_t seen[most];
  std::uintptr_t* end = seen;
  for (const Entry& place : fed_) {
    const std::uintptr_t device = place.load(StdAtomics::relaxed);
    if (device != none && std::find(seen, end, device) == end) {
      *end++ = device;
    }
  }
  return std::max(static_cast<unsigned>(end - seen), 1U);
}

PENSTOCK_INLINE void FedDevice::forget_the_parents() noexcept {
  for (Entry& place : fed_) {
    place.store(none, StdAtomics::relaxed);
  }
}
#endif

} // namespace penstock::detail
