// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/machine/detail/control_groups.hpp>
#include <penstock/machine/detail/processor_set.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <thread>

namespace penstock {
namespace detail {

/// Returns as many of `allowed` processors as the control groups' quotas of time are worth, rounded
/// up; at least one. `root` comes before all paths.
[[gnu::cold]] unsigned processors_within(const std::string& root, unsigned allowed);

/// Returns the bytes that the control groups leave of the machine's memory. `root` comes before all
/// paths.
[[gnu::cold]] std::uint64_t memory_within(const std::string& root);

#if PENSTOCK_BODIES
PENSTOCK_INLINE unsigned processors_within(const std::string& root, unsigned allowed) {
  std::uint64_t usable = std::max(allowed, 1U);
  const auto limit = [&usable](std::string_view quota_and_period) {
    const std::uint64_t quota = number_in(cut(quota_and_period, ' ')).value_or(0); // 0: none
    const std::uint64_t period = number_in(quota_and_period).value_or(0);
    if (quota != 0 && period != 0) {
      usable = std::min(usable, (quota - 1) / period + 1);
    }
  };
  for (const ControlGroup& group : control_groups(root, "cpu")) {
    limit(group.unified ? text_of(joined({group.folder, "/cpu.max"}))
                        : joined({text_of(joined({group.folder, "/cpu.cfs_quota_us"})), " ",
                                  text_of(joined({group.folder, "/cpu.cfs_period_us"}))}));
  }
  return static_cast<unsigned>(usable);
}

PENSTOCK_INLINE std::uint64_t memory_within(const std::string& root) {
  static constexpr std::uint64_t unknown = std::numeric_limits<std::uint64_t>::max();
  const auto kib = number_of(text_of(joined({root, "/proc/meminfo"})), "MemAvailable:");
  std::uint64_t usable = kib ? *kib * 1024 : unknown;
  for (const ControlGroup& group : control_groups(root, "memory")) {
    const auto number = [&group](const char* file) {
      return number_in(text_of(joined({group.folder, file})));
    };
    // Above "high" the kernel slows a process down until it gives memory back.
    const std::uint64_t limit = group.unified ? std::min(number("/memory.max").value_or(unknown),
                                                         number("/memory.high").value_or(unknown))
                                              : number("/memory.limit_in_bytes").value_or(unknown);
    if (limit == unknown) {
      continue;
    }
    const std::string parts = text_of(joined({group.folder, "/memory.stat"}));
    // The page cache would give these up. "total_": of this group and those below it.
    const std::uint64_t files =
        number_of(parts, group.unified ? "inactive_file" : "total_inactive_file").value_or(0) +
        number_of(parts, group.unified ? "active_file" : "total_active_file").value_or(0);
    const std::uint64_t used =
        number(group.unified ? "/memory.current" : "/memory.usage_in_bytes").value_or(0);
    const std::uint64_t kept = used - std::min(used, files);
    usable = std::min(usable, limit - std::min(limit, kept));
  }
  return usable == unknown ? 0 : usable;
}
#endif

} // namespace detail

/// Returns how many processors this thread, and the threads that it starts, may use at once, at
/// least 1: those that it may run on (`taskset`, a cpuset), and no more than the time quotas of its
/// control groups, in version 1 or 2, are worth (a container's limit), where a part of one counts
/// as one. Looks them up at each call, since limits may change: some ten small files, no more. Any
/// thread. Throws nothing but std::bad_alloc.
unsigned usable_processors();

/// Returns the bytes of memory that are free for this process, or that the page cache would give
/// up: of the machine, and no more than its control groups, in version 1 or 2, have left of their
/// limits (a container's limit). 0 if nothing is left, or if the system does not say. Looks them up
/// at each call. Any thread. Throws nothing but std::bad_alloc.
std::uint64_t usable_memory();

#if PENSTOCK_BODIES
PENSTOCK_NOINLINE unsigned usable_processors() {
  const unsigned allowed = detail::ProcessorSet::of_this_thread().count();
  return detail::processors_within("",
                                   allowed != 0 ? allowed : std::thread::hardware_concurrency());
}

PENSTOCK_NOINLINE std::uint64_t usable_memory() {
  return detail::memory_within("");
}
#endif

} // namespace penstock
