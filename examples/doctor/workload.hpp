// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "arguments.hpp"
#include "data.hpp"
#include "limits.hpp"
#include "memory_budget.hpp"

#include <penstock/penstock.hpp>
#if defined(__CUDACC__)
#include <penstock/cuda.hpp>
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace doctor {

/// What the user's program does: batches of so many bytes, and kernels that take so long for each.
struct Workload {
  std::size_t batch_bytes;
  double kernel_s;
  /// Whether the data come from the disk: each time if they do not fit into the page cache.
  bool from_disk;
  std::uint64_t data_bytes; ///< Of all data, and not of the sample alone.
  std::size_t asked_bytes;  ///< Of a batch, by the user: perhaps more than is measured with.

  /// Returns whether all data are one batch: then nothing can overlap.
  bool is_one_batch() const { return data_bytes <= batch_bytes; }
};

/// Returns how fast one thread reads the disk: as a loop reads it, or, where the page cache cannot
/// be emptied, past that; 0 if neither was measured.
inline double disk_gb_per_s_by_one_thread(const Limits& limits) {
  const double cold = limits["disk_cold_1_thread_gb_per_s"];
  return cold > 0 ? cold : limits["disk_direct_1_thread_gb_per_s"];
}

/// Returns the bytes of memory that are free on a device.
inline std::size_t free_on(const penstock::HostDevice&) {
  return free_memory();
}
#if defined(__CUDACC__)
inline std::size_t free_on(const penstock::CudaDevice&) {
  std::size_t free = 0;
  std::size_t total = 0;
  return cudaMemGetInfo(&free, &total) == cudaSuccess ? free : 0;
}
#endif

/// Returns the batch that is asked for, or 4 MiB, penstock's default. Throws if too little memory
/// is free: on the device are three at once, and one more for the loop without a pipeline.
template <penstock::AnyDevice D> std::size_t batch_for(const D& device, const Arguments& args) {
  const std::size_t most = std::min(free_on(device) / 4, free_memory() / 8);
  const std::size_t batch = args.batch_bytes.value_or(4 * mib);
  if (batch > most) {
    throw std::invalid_argument{"--batch is " + bytes_in_words(batch) +
                                ", and the free memory has room for batches of " +
                                bytes_in_words(most) + " at most: give a smaller --batch"};
  }
  return batch;
}

/// Returns the workload on these data. A batch has no more bytes than the sample, and than one
/// thread reads in two seconds: else some batches would take minutes. What does not fit into half
/// of the memory comes from the disk, as with penstock's DirectReads::automatic, unless the disk
/// could not be measured.
inline Workload workload_on(const Data& data, const Limits& limits, std::size_t batch_bytes,
                            double kernel_ms) {
  constexpr double most_seconds = 2;
  const double disk = disk_gb_per_s_by_one_thread(limits);
  const bool from_disk = disk > 0 && data.all_bytes > free_memory() / 2;
  const double gb_per_s = from_disk ? disk : limits["page_cache_1_thread_gb_per_s"];
  std::uint64_t most = data.bytes_of(data.used);
  if (gb_per_s > 0) {
    const auto readable = static_cast<std::uint64_t>(gb_per_s * 1e9 * most_seconds);
    most = std::min(most, std::max<std::uint64_t>(readable / mib, 1) * mib);
  }
  return {.batch_bytes = static_cast<std::size_t>(std::min<std::uint64_t>(batch_bytes, most)),
          .kernel_s = kernel_ms / 1e3,
          .from_disk = from_disk,
          .data_bytes = data.all_bytes,
          .asked_bytes = batch_bytes};
}

} // namespace doctor
