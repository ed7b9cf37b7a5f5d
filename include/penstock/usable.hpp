// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/control_groups.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <thread>

#include <sched.h>

namespace penstock {
namespace detail {

/// Returns as many of `allowed` processors as the control groups' quotas of time are worth, rounded
/// up; at least one. `root` comes before all paths.
[[gnu::cold]] inline unsigned processors_within(const std::string& root, unsigned allowed) {
  std::uint64_t usable = std::max(allowed, 1U);
  const auto limit = [&usable](std::string_view quota_and_period) {
    const std::uint64_t quota = number_in(cut(quota_and_period, ' ')).value_or(0); // 0: none
    const std::uint64_t period = number_in(quota_and_period).value_or(0);
    if (quota != 0 && period != 0) {
      usable = std::min(usable, (quota - 1) / period + 1);
    }
  };
  const ControlGroups groups = control_groups(root, "cpu");
  for (const std::string& group : groups.version_2) {
    limit(text_of(group + "/cpu.max"));
  }
  for (const std::string& group : groups.version_1) {
    const std::string quota = text_of(group + "/cpu.cfs_quota_us");
    limit(joined({quota, " ", text_of(group + "/cpu.cfs_period_us")}));
  }
  return static_cast<unsigned>(usable);
}

/// Returns the bytes that the control groups leave of the machine's memory. `root` comes before all
/// paths.
[[gnu::cold]] inline std::uint64_t memory_within(const std::string& root) {
  static constexpr std::uint64_t unknown = std::numeric_limits<std::uint64_t>::max();
  const auto kib = number_of(text_of(root + "/proc/meminfo"), "MemAvailable:");
  std::uint64_t usable = kib ? *kib * 1024 : unknown;
  const auto at_most = [](const std::string& group, const char* file) {
    return number_in(text_of(group + file)).value_or(unknown);
  };
  // `of_all`: what a name begins with whose number counts the groups below too.
  const auto leave = [&usable](const std::string& group, std::uint64_t limit, const char* use,
                               const std::string& of_all) {
    if (limit == unknown) {
      return;
    }
    const std::string parts = text_of(group + "/memory.stat");
    // The page cache would give these up.
    const std::uint64_t files = number_of(parts, of_all + "inactive_file").value_or(0) +
                                number_of(parts, of_all + "active_file").value_or(0);
    const std::uint64_t used = number_in(text_of(group + use)).value_or(0);
    const std::uint64_t kept = used - std::min(used, files);
    usable = std::min(usable, limit - std::min(limit, kept));
  };
  const ControlGroups groups = control_groups(root, "memory");
  for (const std::string& group : groups.version_2) {
    // Above "high" the kernel slows a process down until it gives memory back.
    const std::uint64_t limit =
        std::min(at_most(group, "/memory.max"), at_most(group, "/memory.high"));
    leave(group, limit, "/memory.current", "");
  }
  for (const std::string& group : groups.version_1) {
    leave(group, at_most(group, "/memory.limit_in_bytes"), "/memory.usage_in_bytes", "total_");
  }
  return usable == unknown ? 0 : usable;
}

} // namespace detail

/// Returns how many processors this thread, and the threads that it starts, may use at once, at
/// least 1: those that it may run on (`taskset`, a cpuset), and no more than the time quotas of its
/// control groups, in version 1 or 2, are worth (a container's limit), where a part of one counts
/// as one. Looks them up at each call, since limits may change: some ten small files, no more. Any
/// thread. Throws nothing but std::bad_alloc.
[[gnu::noinline]] inline unsigned usable_processors() {
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
[[gnu::noinline]] inline std::uint64_t usable_memory() {
  return detail::memory_within("");
}

} // namespace penstock
