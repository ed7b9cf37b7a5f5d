// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "disk.hpp"
#include "limits.hpp"
#include "memory.hpp"
#include "workload.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace doctor {

/// What binds a pipeline, and at how many GB/s.
struct Bound {
  std::string what;
  double gb_per_s;
};

/// Returns the largest of some limits, those that were measured.
inline double best_of(const Limits& limits, const std::vector<std::string>& names) {
  double best = 0;
  for (const std::string& name : names) {
    best = std::max(best, limits[name]);
  }
  return best;
}

/// Returns the GB/s at which the data come to the host, read by one thread or by as many as help.
inline double reading_gb_per_s(const Limits& limits, const Workload& work, bool one_thread) {
  if (work.from_disk) {
    return one_thread ? limits["disk_cold_1_thread_gb_per_s"]
                      : best_of(limits, {by_threads("disk_cold", disk_threads) + "_gb_per_s",
                                         "disk_direct_1_thread_gb_per_s",
                                         by_threads("disk_direct", disk_threads) + "_gb_per_s"});
  }
  const std::string one = "page_cache_1_thread_gb_per_s";
  return one_thread
             ? limits[one]
             : best_of(limits, {one, by_threads("page_cache", several_threads()) + "_gb_per_s"});
}

/// Returns what each limit allows, those that were measured, the lowest first. On the host device
/// the bus is a copy in memory by one thread.
inline std::vector<Bound> bounds(const Limits& limits, const Workload& work) {
  const double batch_gb = static_cast<double>(work.batch_bytes) / 1e9;
  const double bus = limits["bus_to_device_gb_per_s"];
  std::vector<Bound> all{
      {work.from_disk ? "disk" : "page cache", reading_gb_per_s(limits, work, false)},
      bus > 0 ? Bound{"bus", bus}
              : Bound{"copies in memory", limits["host_copy_1_thread_gb_per_s"]},
      {"launches", batch_gb * limits["launches_per_s"]}};
  if (work.kernel_s > 0) {
    all.push_back({"kernel", batch_gb / work.kernel_s});
  }
  std::erase_if(all, [](const Bound& bound) { return !(bound.gb_per_s > 0); });
  std::sort(all.begin(), all.end(),
            [](const Bound& a, const Bound& b) { return a.gb_per_s < b.gb_per_s; });
  return all;
}

/// Returns the GB/s of a loop that reads a batch by one thread, copies it from pageable memory, and
/// waits for its kernels, one after the other.
inline double plain_loop_gb_per_s(const Limits& limits, const Workload& work) {
  const double batch_gb = static_cast<double>(work.batch_bytes) / 1e9;
  const double bus = limits["bus_to_device_pageable_gb_per_s"];
  const double copy = bus > 0 ? bus : limits["host_copy_1_thread_gb_per_s"];
  const double seconds = batch_gb / reading_gb_per_s(limits, work, true) + batch_gb / copy +
                         work.kernel_s + limits["launch_and_wait_us"] / 1e6;
  return batch_gb / seconds;
}

} // namespace doctor
