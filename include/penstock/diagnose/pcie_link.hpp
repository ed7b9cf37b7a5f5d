// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/machine/detail/control_groups.hpp>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <string>
#include <system_error>

namespace penstock::detail {

/// Returns what one part of the way to a device allows, in bytes a second: a bridge, or the device.
/// 0 if the files in this folder do not say.
[[gnu::cold]] inline double link_bytes_per_s(const std::string& folder) {
  const double transfers =
      std::strtod(text_of(folder + "/max_link_speed").c_str(), nullptr) * 1e9; // "16.0 GT/s PCIe"
  const double lanes = std::strtod(text_of(folder + "/max_link_width").c_str(), nullptr);
  if (transfers <= 0 || lanes < 1 || lanes > 32) { // some systems say 255 for "not known"
    return 0;
  }
  const double coded = transfers < 8e9 ? 8.0 / 10 : 128.0 / 130; // up to PCIe 2.0, and later
  return transfers * lanes * coded / 8;
}

/// Returns what copies of page-locked memory reach over PCIe, in bytes a second, by what Linux says
/// of the links of this machine's NVIDIA GPUs: of the slowest of them. 0 if it does not say. `root`
/// comes before all paths.
[[gnu::cold]] inline double pcie_bytes_per_s(const std::string& root) {
  constexpr double reached = 0.8; // headers of packets, and the wait for answers
  double least = std::numeric_limits<double>::infinity();
  std::error_code failed;
  std::filesystem::directory_iterator device{root + "/sys/bus/pci/devices", failed};
  for (; !failed && device != std::filesystem::directory_iterator{}; device.increment(failed)) {
    const std::string at = device->path().string();
    if (!text_of(at + "/vendor").starts_with("0x10de") ||
        !text_of(at + "/class").starts_with("0x03")) { // NVIDIA; what displays, or could
      continue;
    }
    // The real path goes through all bridges, of which the slowest counts.
    std::error_code unknown;
    const std::filesystem::path way = std::filesystem::canonical(device->path(), unknown);
    for (std::filesystem::path part = way; part.has_relative_path(); part = part.parent_path()) {
      if (const double link = link_bytes_per_s(part.string()); link > 0) {
        least = std::min(least, link);
      }
    }
  }
  return least < std::numeric_limits<double>::infinity() ? least * reached : 0;
}

} // namespace penstock::detail
