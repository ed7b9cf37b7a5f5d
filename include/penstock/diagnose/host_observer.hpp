// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/machine/detail/control_groups.hpp>
#include <penstock/run/options.hpp>
#include <penstock/run/report.hpp>

#include <algorithm>
#include <exception>
#include <string>
#include <string_view>

#include <unistd.h>

namespace penstock {
namespace detail {

/// Returns the seconds that other virtual machines have had this one's processors while it wanted
/// them, of all processors together; 0 if the system does not say. `root` comes before all paths.
[[gnu::cold]] inline double stolen_seconds(const std::string& root) {
  const std::string text = text_of(root + "/proc/stat");
  std::string_view words = text;
  if (cut(words, ' ') != "cpu") {
    return 0;
  }
  words.remove_prefix(words.starts_with(' ') ? 1 : 0);
  constexpr int before_stolen = 7; // user, nice, system, idle, iowait, irq, softirq
  for (int word = 0; word < before_stolen; ++word) {
    cut(words, ' ');
  }
  const auto ticks = static_cast<double>(number_in(words).value_or(0));
  return ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

/// Returns the seconds in which quotas of time have held the groups that this process is in, of the
/// group that was held longest; 0 if there is no quota. `root` comes before all paths.
[[gnu::cold]] inline double throttled_seconds(const std::string& root) {
  double most = 0;
  for (const ControlGroup& group : control_groups(root, "cpu")) {
    const std::string text = text_of(group.folder + "/cpu.stat");
    const auto held = static_cast<double>(
        number_of(text, group.unified ? "throttled_usec" : "throttled_time").value_or(0));
    most = std::max(most, held / (group.unified ? 1e6 : 1e9));
  }
  return most;
}

} // namespace detail

/// Tells of a run which processor time was taken away from it: by a hypervisor, which gave it to
/// other virtual machines, and by the quota of a control group, such as a container's limit. It
/// reads some small files of /proc and /sys before the run and after it, no more.
class HostObserver : public RunObserver {
 public:
  void begin() override {
    stolen_ = detail::stolen_seconds("");
    throttled_ = detail::throttled_seconds("");
  }
  void end(Report& report) noexcept override {
    try {
      report.stolen_s = detail::stolen_seconds("") - stolen_;
      report.throttled_s = detail::throttled_seconds("") - throttled_;
      report.observed = true;
    } catch (const std::exception&) { // no memory: the Report goes without
    }
  }

 private:
  double stolen_{};
  double throttled_{};
};

} // namespace penstock
