// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/control_groups.hpp>
#include <penstock/detail/base/processor_set.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/device.hpp>

#include <string>

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

/// Returns what a device says of this; nothing if it does not.
template <AnyDevice D> ProcessorSet processors_near(const D& device) {
  if constexpr (requires { device.processors_near(); }) {
    return device.processors_near();
  } else {
    return {};
  }
}

} // namespace penstock::detail
