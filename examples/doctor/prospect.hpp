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

inline constexpr const char* each_batch = "calls for single batches";
inline constexpr const char* copies_in_memory = "copies in memory";

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
    return one_thread ? disk_gb_per_s_by_one_thread(limits)
                      : best_of(limits, {"disk_cold_1_thread_gb_per_s",
                                         by_threads("disk_cold", disk_threads) + "_gb_per_s",
                                         "disk_direct_1_thread_gb_per_s",
                                         by_threads("disk_direct", disk_threads) + "_gb_per_s"});
  }
  const std::string one = "page_cache_1_thread_gb_per_s";
  return one_thread
             ? limits[one]
             : best_of(limits, {one, by_threads("page_cache", several_threads()) + "_gb_per_s"});
}

/// Returns the GB/s at which data are copied to the device: over the bus, or, on the host device,
/// in memory by one thread.
inline double copying_gb_per_s(const Limits& limits) {
  const double bus = limits["bus_to_device_gb_per_s"];
  return bus > 0 ? bus : limits["host_copy_1_thread_gb_per_s"];
}

/// Returns what each limit allows, those that were measured, the lowest first.
/// With `disk_too` the disk is among them, also if it holds up the first pass alone.
inline std::vector<Bound> bounds(const Limits& limits, const Workload& work,
                                 bool disk_too = false) {
  const double batch_gb = static_cast<double>(work.batch_bytes) / 1e9;
  const bool bus = limits["bus_to_device_gb_per_s"] > 0;
  std::vector<Bound> all{
      {work.from_disk ? "disk" : "page cache", reading_gb_per_s(limits, work, false)},
      {bus ? "bus" : copies_in_memory, copying_gb_per_s(limits)},
      {each_batch, batch_gb * limits["pipeline_batches_per_s"]},
      {"launches", batch_gb * limits["launches_per_s"]}};
  if (disk_too && !work.from_disk) {
    Workload first = work;
    first.from_disk = true;
    all.push_back({"disk", reading_gb_per_s(limits, first, false)});
  }
  if (work.kernel_s > 0) {
    all.push_back({"kernel", batch_gb / work.kernel_s});
  }
  std::erase_if(all, [](const Bound& bound) { return !(bound.gb_per_s > 0); });
  std::sort(all.begin(), all.end(),
            [](const Bound& a, const Bound& b) { return a.gb_per_s < b.gb_per_s; });
  return all;
}

/// Returns the most that a pipeline can reach, and what binds it then. `measured` is what one has
/// reached: no limit is lower.
inline Bound at_most(const Limits& limits, const Workload& work, double measured) {
  const std::vector<Bound> all = bounds(limits, work);
  Bound lowest = all.empty() ? Bound{} : all.front();
  lowest.gb_per_s = std::max(lowest.gb_per_s, measured);
  return lowest;
}

/// Returns the GB/s of a loop that reads a batch by one thread, copies it from pageable memory, and
/// waits for its kernels, one after the other; 0 if that cannot be told.
inline double plain_loop_gb_per_s(const Limits& limits, const Workload& work) {
  const double batch_gb = static_cast<double>(work.batch_bytes) / 1e9;
  const double bus = limits["bus_to_device_pageable_gb_per_s"];
  const double copy = bus > 0 ? bus : limits["host_copy_1_thread_gb_per_s"];
  const double reading = reading_gb_per_s(limits, work, true);
  if (!(reading > 0 && copy > 0)) {
    return 0;
  }
  const double waiting_us = limits["launch_and_wait_us"] + limits["host_device_call_and_wait_us"];
  return batch_gb / (batch_gb / reading + batch_gb / copy + work.kernel_s + waiting_us / 1e6);
}

} // namespace doctor
