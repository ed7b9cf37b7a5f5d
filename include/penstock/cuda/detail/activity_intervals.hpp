// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/gpu_activity_summary.hpp>

#include <algorithm>
#include <cstdint>
#include <span>

namespace penstock::detail {

enum class GpuWork : std::uint8_t { kernel, to_device, to_host, other_copy };

/// One thing that a GPU did, in nanoseconds of any one clock.
struct GpuInterval {
  std::uint64_t begin{};
  std::uint64_t end{};   ///< After `begin`.
  std::uint64_t bytes{}; ///< Those of a copy.
  GpuWork work{};
  bool pageable{};        ///< A copy from or to pageable memory.
  bool product{};         ///< A kernel that multiplies matrices, if kernels are told by name.
  std::uint32_t stream{}; ///< CUPTI's number of its stream.
};

/// How long at least one of several intervals lasts. You add them in the order in which they begin,
/// so that it need only keep where the latest ends.
class IntervalUnion {
 public:
  void add(std::uint64_t begin, std::uint64_t end) noexcept {
    if (end > end_) {
      length_ += end - std::max(begin, end_);
      end_ = end;
    }
  }
  std::uint64_t length() const noexcept { return length_; }

 private:
  std::uint64_t length_{0};
  std::uint64_t end_{0};
};

/// Sums up the part of `intervals`, sorted by `begin`, between two fractions of their span: an
/// interval that reaches in from outside counts with its part inside.
inline GpuActivitySummary summarize(std::span<const GpuInterval> intervals, double first,
                                    double last) {
  GpuActivitySummary sum;
  if (intervals.empty()) {
    return sum;
  }
  const std::uint64_t start = intervals.front().begin;
  std::uint64_t stop = start;
  for (const GpuInterval& one : intervals) {
    stop = std::max(stop, one.end);
  }
  const auto at = [&](double fraction) {
    return start + static_cast<std::uint64_t>(static_cast<double>(stop - start) * fraction);
  };
  const std::uint64_t from = at(first);
  const std::uint64_t to = at(last);

  IntervalUnion kernels;
  IntervalUnion to_device;
  IntervalUnion to_host;
  IntervalUnion copies;
  IntervalUnion all;
  for (const GpuInterval& one : intervals) {
    const std::uint64_t begin = std::max(one.begin, from);
    const std::uint64_t end = std::min(one.end, to);
    if (begin >= end) {
      continue;
    }
    const std::uint64_t began = one.begin >= from ? 1 : 0;
    all.add(begin, end);
    if (one.work == GpuWork::kernel) {
      kernels.add(begin, end);
      sum.kernels += began;
      continue;
    }
    copies.add(begin, end);
    if (one.work == GpuWork::to_device) {
      to_device.add(begin, end);
      sum.copies_to_device += began;
      sum.bytes_to_device += began * one.bytes;
    } else if (one.work == GpuWork::to_host) {
      to_host.add(begin, end);
      sum.copies_to_host += began;
      sum.bytes_to_host += began * one.bytes;
    } else {
      sum.other_copies += began;
    }
  }
  const auto seconds = [](std::uint64_t ns) { return static_cast<double>(ns) / 1e9; };
  sum.seconds = seconds(to - from);
  sum.kernel_s = seconds(kernels.length());
  sum.to_device_s = seconds(to_device.length());
  sum.to_host_s = seconds(to_host.length());
  sum.copy_s = seconds(copies.length());
  sum.overlap_s = seconds(kernels.length() + copies.length() - all.length());
  sum.busy_s = seconds(all.length());
  return sum;
}

} // namespace penstock::detail
