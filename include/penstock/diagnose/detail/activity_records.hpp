// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/diagnose/detail/activity_intervals.hpp>
#include <penstock/diagnose/detail/call_names.hpp>
#include <penstock/diagnose/detail/cupti_calls.hpp>
#include <penstock/diagnose/gpu_watch_summary.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace penstock::detail {

/// What CUPTI's records say of one GPU, or of all of them together. For one thread at a time.
class ActivityRecords {
 public:
  /// All GPUs of the process.
  static constexpr std::uint32_t any_device = ~std::uint32_t{0};

  /// The kernels of one name.
  struct Kernel {
    WatchedKernel sum;
    std::set<std::int64_t> sizes; ///< Numbers of blocks, at most 100 of them.
    bool product{};
  };

  /// Counts nothing.
  ActivityRecords() = default;
  /// `by_name`: keeps sums of kernels by their names too. Counts from now on.
  ActivityRecords(std::uint32_t device, bool by_name)
      : device_{device}, by_name_{by_name}, times_{{0, forever}} {}

  /// Adds a record of a kind that the log enables; passes over others.
  void add(const CUpti_Activity& record) noexcept {
    switch (record.kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      const auto& kernel = reinterpret_cast<const CUpti_ActivityKernel10&>(record);
      add(kernel, {.work = GpuWork::kernel, .product = by_name_ && is_in_kernels(kernel)});
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMSET:
      add(reinterpret_cast<const CUpti_ActivityMemset4&>(record), {.work = GpuWork::kernel});
      break;
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      const auto& copy = reinterpret_cast<const CUpti_ActivityMemcpy6&>(record);
      add(copy, {.bytes = copy.bytes,
                 .work = direction(copy.copyKind),
                 .pageable = copy.srcKind == CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE ||
                             copy.dstKind == CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE});
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY2: {
      const auto& copy = reinterpret_cast<const CUpti_ActivityMemcpyPtoP4&>(record);
      add(copy, {.bytes = copy.bytes, .work = GpuWork::other_copy});
      break;
    }
    case CUPTI_ACTIVITY_KIND_DEVICE: {
      const auto& device = reinterpret_cast<const CUpti_ActivityDevice5&>(record);
      if (is_of(device.id) && device_memory == 0) {
        device_memory = device.globalMemorySize;
        memory_bytes_per_s = static_cast<double>(device.globalMemoryBandwidth) * 1e3;
      }
      break;
    }
    default: // a kind that somebody else has enabled
      break;
    }
  }
  /// Forgets what there was so far, and counts nothing until begin_time().
  void forget() noexcept {
    intervals.clear();
    kernels.clear();
    times_.clear();
  }
  /// Counts what begins from then on, too. Times do not overlap. Throws std::bad_alloc.
  void begin_time(std::uint64_t at) { times_.push_back({at, forever}); }
  /// Passes over what begins later.
  void end_time(std::uint64_t at) noexcept { times_.back().end = at; }
  /// Sorts the intervals by their begin.
  void sort() {
    std::sort(intervals.begin(), intervals.end(),
              [](const GpuInterval& a, const GpuInterval& b) { return a.begin < b.begin; });
  }

  std::vector<GpuInterval> intervals;
  std::map<std::string, Kernel, std::less<>> kernels;
  std::uint64_t dropped{};
  std::uint64_t device_memory{};
  double memory_bytes_per_s{};

 private:
  struct Time {
    std::uint64_t begin{};
    std::uint64_t end{};
  };
  static constexpr std::uint64_t forever = ~std::uint64_t{0};

  bool is_of(std::uint32_t device) const noexcept {
    return device_ == any_device || device_ == device;
  }

  /// Whether a record counts. One that CUPTI could not time does.
  template <class Record> bool counts(const Record& record) const noexcept {
    return is_of(record.deviceId) && (record.start == 0 || is_in_times(record.start));
  }
  bool is_in_times(std::uint64_t at) const noexcept {
    const auto later = std::ranges::upper_bound(times_, at, {}, &Time::begin);
    return later != times_.begin() && at < std::prev(later)->end;
  }
  template <class Record> void add(const Record& record, GpuInterval interval) noexcept {
    if (!counts(record)) {
      return;
    }
    if (record.start == 0 || record.end == 0) { // CUPTI could not time it
      ++dropped;
      return;
    }
    interval.begin = record.start;
    // The clock ticks in nanoseconds: everything takes at least one.
    interval.end = std::max(record.end, record.start + 1);
    interval.stream = record.streamId;
    try {
      intervals.push_back(interval);
    } catch (const std::exception&) {
      ++dropped;
    }
  }
  /// Adds to the sums of the kernel's name; returns whether it is a product.
  bool is_in_kernels(const CUpti_ActivityKernel10& record) noexcept try {
    if (!counts(record) || record.name == nullptr) {
      return false;
    }
    auto at = kernels.find(std::string_view{record.name});
    if (at == kernels.end()) {
      at = kernels.emplace(record.name, Kernel{}).first;
      at->second.sum.name = record.name;
      at->second.product = is_product(record.name);
    }
    Kernel& kernel = at->second;
    const std::int64_t blocks = std::int64_t{record.gridX} * record.gridY * record.gridZ;
    if (kernel.sizes.size() < 100) {
      kernel.sizes.insert(blocks);
    }
    const auto most = [](auto& value, auto of) {
      value = std::max(value, static_cast<std::remove_reference_t<decltype(value)>>(of));
    };
    ++kernel.sum.launches;
    kernel.sum.seconds += static_cast<double>(record.end - record.start) / 1e9;
    most(kernel.sum.blocks, blocks);
    most(kernel.sum.threads, record.blockX * record.blockY * record.blockZ);
    most(kernel.sum.registers, record.registersPerThread);
    most(kernel.sum.shared_bytes, record.staticSharedMemory + record.dynamicSharedMemory);
    return kernel.product;
  } catch (const std::exception&) { // no memory for another name
    return false;
  }
  static GpuWork direction(std::uint8_t kind) noexcept {
    switch (kind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD:
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOA:
      return GpuWork::to_device;
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH:
    case CUPTI_ACTIVITY_MEMCPY_KIND_ATOH:
      return GpuWork::to_host;
    default:
      return GpuWork::other_copy;
    }
  }

  std::uint32_t device_{0};
  bool by_name_{false};
  std::vector<Time> times_;
};

} // namespace penstock::detail
