// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/control_groups.hpp>
#include <penstock/detail/base/processor_set.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/device.hpp>

#include <algorithm>
#include <string>

#include <dirent.h>

namespace penstock::detail {

/// Returns the processors that this process has been given: those of its control groups, or all.
/// `root` comes before all paths.
[[gnu::cold]] inline ProcessorSet processors_given(const std::string& root) {
  for (const ControlGroup& group : control_groups(root, "cpuset")) {
    const ProcessorSet set = ProcessorSet::listed(text_of(joined(
        {group.folder, group.unified ? "/cpuset.cpus.effective" : "/cpuset.effective_cpus"})));
    if (!set.empty()) {
      return set;
    }
  }
  return ProcessorSet::listed(text_of(joined({root, "/sys/devices/system/cpu/online"})));
}

/// Returns which of the `allowed` processors are on the NUMA node of a device on the PCI bus. None
/// if there is no choice to make: the machine has one node, the system does not know the device's,
/// no processor there is allowed, or somebody has chosen already, so that not all that the process
/// was given are allowed. `bus_id` is such as "0000:18:00.0", `root` comes before all paths.
[[gnu::cold]] inline ProcessorSet
processors_near(const std::string& root, const std::string& bus_id, const ProcessorSet& allowed) {
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
  return ProcessorSet::listed(text_of(joined({device, "/local_cpulist"}))) & allowed;
}

/// Returns how many devices of the same maker and class are on the same node, itself included.
[[gnu::cold]] inline unsigned devices_near(const std::string& root, const std::string& bus_id) {
  struct Folder {
    ~Folder() {
      if (open) {
        ::closedir(open);
      }
    }
    DIR* open;
  };
  const std::string path = joined({root, "/sys/bus/pci/devices"});
  const auto what = [&path](const char* id) {
    const std::string at = joined({path, "/", id});
    return joined({text_of(joined({at, "/vendor"})), text_of(joined({at, "/class"})),
                   text_of(joined({at, "/numa_node"}))});
  };
  const std::string wanted = what(bus_id.c_str());
  const Folder all{::opendir(path.c_str())};
  unsigned found = 0;
  while (const dirent* const entry = all.open ? ::readdir(all.open) : nullptr) {
    found += what(entry->d_name) == wanted ? 1 : 0;
  }
  return std::max(found, 1U);
}

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

} // namespace penstock::detail
