// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/run/report.hpp>

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

/// Sums up what a GPU did, of intervals that come in the order of their begins.
class ActivitySums {
 public:
  /// `began`: whether it counts as something that began, too.
  void add(const GpuInterval& one, bool began = true) noexcept {
    const std::uint64_t count = began ? 1 : 0;
    all_.add(one.begin, one.end);
    if (one.work == GpuWork::kernel) {
      kernels_.add(one.begin, one.end);
      sum_.kernels += count;
      return;
    }
    copies_.add(one.begin, one.end);
    if (one.work == GpuWork::to_device) {
      to_device_.add(one.begin, one.end);
      sum_.copies_to_device += count;
      sum_.bytes_to_device += count * one.bytes;
    } else if (one.work == GpuWork::to_host) {
      to_host_.add(one.begin, one.end);
      sum_.copies_to_host += count;
      sum_.bytes_to_host += count * one.bytes;
    } else {
      sum_.other_copies += count;
    }
  }
  /// Returns the sums, without the span's length.
  GpuActivitySummary sum() const noexcept {
    const auto seconds = [](std::uint64_t ns) { return static_cast<double>(ns) / 1e9; };
    GpuActivitySummary sum = sum_;
    sum.kernel_s = seconds(kernels_.length());
    sum.to_device_s = seconds(to_device_.length());
    sum.to_host_s = seconds(to_host_.length());
    sum.copy_s = seconds(copies_.length());
    sum.overlap_s = seconds(kernels_.length() + copies_.length() - all_.length());
    sum.busy_s = seconds(all_.length());
    return sum;
  }

 private:
  GpuActivitySummary sum_;
  IntervalUnion kernels_;
  IntervalUnion to_device_;
  IntervalUnion to_host_;
  IntervalUnion copies_;
  IntervalUnion all_;
};

/// Sums up the part of `intervals`, sorted by `begin`, between two fractions of their span: an
/// interval that reaches in from outside counts with its part inside.
inline GpuActivitySummary summarize(std::span<const GpuInterval> intervals, double first,
                                    double last) {
  if (intervals.empty()) {
    return {};
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

  ActivitySums sums;
  for (const GpuInterval& one : intervals) {
    GpuInterval part = one;
    part.begin = std::max(one.begin, from);
    part.end = std::min(one.end, to);
    if (part.begin < part.end) {
      sums.add(part, one.begin >= from);
    }
  }
  GpuActivitySummary sum = sums.sum();
  sum.seconds = static_cast<double>(to - from) / 1e9;
  return sum;
}

} // namespace penstock::detail
