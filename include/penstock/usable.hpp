// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/control_groups.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include <sched.h>

namespace penstock {
namespace detail {

/// Returns as many of `allowed` processors as the control groups' quotas of time are worth, rounded
/// up; at least one. `root` comes before all paths.
inline unsigned processors_within(const std::string& root, unsigned allowed) {
  std::uint64_t usable = std::max(allowed, 1U);
  each_control_group(root, "cpu", [&](const std::string& group, bool unified) {
    const std::string both = unified ? text_of(group + "/cpu.max")
                                     : text_of(group + "/cpu.cfs_quota_us") + ' ' +
                                           text_of(group + "/cpu.cfs_period_us");
    std::string_view rest = both;
    const std::uint64_t quota = number_in(cut(rest, ' ')).value_or(0); // 0: there is none
    const std::uint64_t period = number_in(rest).value_or(0);
    if (quota != 0 && period != 0) {
      usable = std::min(usable, (quota - 1) / period + 1);
    }
  });
  return static_cast<unsigned>(usable);
}

/// Returns the bytes that the control groups leave of the machine's memory. `root` comes before all
/// paths.
inline std::uint64_t memory_within(const std::string& root) {
  static constexpr std::uint64_t unknown = std::numeric_limits<std::uint64_t>::max();
  const auto kib = number_of(text_of(root + "/proc/meminfo"), "MemAvailable:");
  std::uint64_t usable = kib ? *kib * 1024 : unknown;
  each_control_group(root, "memory", [&](const std::string& group, bool unified) {
    const auto at_most = [&group](const char* file) {
      return number_in(text_of(group + file)).value_or(unknown);
    };
    // Above "high" the kernel slows a process down until it gives memory back.
    const std::uint64_t limit = unified ? std::min(at_most("/memory.max"), at_most("/memory.high"))
                                        : at_most("/memory.limit_in_bytes");
    if (limit == unknown) {
      return;
    }
    const std::string use =
        text_of(group + (unified ? "/memory.current" : "/memory.usage_in_bytes"));
    const std::string parts = text_of(group + "/memory.stat");
    const std::string of_all = unified ? "" : "total_"; // with the groups below
    // The page cache would give these up.
    const std::uint64_t files = number_of(parts, of_all + "inactive_file").value_or(0) +
                                number_of(parts, of_all + "active_file").value_or(0);
    const std::uint64_t used = number_in(use).value_or(0);
    const std::uint64_t kept = used - std::min(used, files);
    usable = std::min(usable, limit - std::min(limit, kept));
  });
  return usable == unknown ? 0 : usable;
}

} // namespace detail

/// Returns how many processors this thread, and the threads that it starts, may use at once, at
/// least 1: those that it may run on (`taskset`, a cpuset), and no more than the time quotas of its
/// control groups, in version 1 or 2, are worth (a container's limit), where a part of one counts
/// as one. Looks them up at each call, since limits may change: some ten small files, no more. Any
/// thread. Throws nothing but std::bad_alloc.
inline unsigned usable_processors() {
  cpu_set_t allowed[8]; // 8192 processors, the most that Linux can be built for
  const bool known = ::sched_getaffinity(0, sizeof allowed, allowed) == 0;
  return detail::processors_within(
      "", known ? static_cast<unsigned>(CPU_COUNT_S(sizeof allowed, allowed))
                : std::thread::hardware_concurrency());
}

/// Returns the bytes of memory that are free for this process, or that the page cache would give
/// up: of the machine, and no more than its control groups, in version 1 or 2, have left of their
/// limits (a container's limit). 0 if nothing is left, or if the system does not say. Looks them up
/// at each call. Any thread. Throws nothing but std::bad_alloc.
inline std::uint64_t usable_memory() {
  return detail::memory_within("");
}

} // namespace penstock
