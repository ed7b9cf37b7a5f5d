// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/cuda/detail/activity_intervals.hpp>
#include <penstock/detail/observe/call_names.hpp>
#include <penstock/gpu_watch_summary.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <unordered_set>
#include <vector>

namespace penstock::detail {

/// A time in which the program was watched, in nanoseconds of the clock of the GpuIntervals.
struct WatchedTime {
  std::uint64_t begin{};
  std::uint64_t end{};
};

/// A call of CUDA by some thread, on that clock.
struct CallSpan {
  std::uint64_t begin{};
  std::uint64_t end{};
  CudaCall kind{};
};

/// Sweeps over the time and says what the program did while the GPU was idle.
class IdleSweep {
 public:
  /// The times do not overlap; the GPU's intervals and the calls come in any order, and may reach
  /// outside the times.
  static IdleTimes over(std::span<const WatchedTime> times, std::span<const GpuInterval> gpu,
                        std::span<const CallSpan> calls) {
    std::vector<Edge> edges;
    edges.reserve(2 * (times.size() + gpu.size() + calls.size()));
    const auto add = [&](std::uint64_t begin, std::uint64_t end, std::size_t what) {
      if (begin < end) {
        edges.push_back({begin, 1, static_cast<std::uint8_t>(what)});
        edges.push_back({end, -1, static_cast<std::uint8_t>(what)});
      }
    };
    for (const WatchedTime& time : times) {
      add(time.begin, time.end, watched);
    }
    for (const GpuInterval& one : gpu) {
      add(one.begin, one.end, busy);
    }
    for (const CallSpan& call : calls) {
      add(call.begin, call.end, first_call + static_cast<std::size_t>(call.kind));
    }
    std::sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) { return a.at < b.at; });
    IdleSweep sweep;
    for (const Edge& edge : edges) {
      sweep.pass(edge.at);
      sweep.open_[edge.what] += edge.by;
    }
    sweep.end_gap();
    return sweep.idle_;
  }

 private:
  static constexpr std::size_t watched = 0;
  static constexpr std::size_t busy = 1;
  static constexpr std::size_t first_call = 2;
  static constexpr std::size_t kinds = 7; // of calls
  static constexpr double least_gap_s = 20e-6;

  struct Edge {
    std::uint64_t at;
    std::int8_t by;
    std::uint8_t what;
  };

  bool is_in(CudaCall kind) const { return open_[first_call + static_cast<std::size_t>(kind)] > 0; }
  /// Accounts for the time from the last edge to `at`, in which nothing changed.
  void pass(std::uint64_t at) {
    const double seconds = static_cast<double>(at - at_) / 1e9;
    at_ = at;
    if (seconds == 0) {
      return;
    }
    double* const to = part();
    if (to == nullptr) { // nobody is in a call, for as long as this goes on
      gap_s_ += open_[watched] > 0 && open_[busy] == 0 ? seconds : 0;
      if (open_[watched] == 0 || open_[busy] != 0) {
        end_gap();
      }
      return;
    }
    end_gap();
    *to += seconds;
  }
  /// Returns where idle time counts now; null if it does not, or if no thread is in a call.
  double* part() {
    if (open_[watched] == 0 || open_[busy] != 0) {
      return nullptr;
    }
    if (is_in(CudaCall::allocation) || is_in(CudaCall::page_lock) || is_in(CudaCall::release)) {
      return &idle_.allocation_s;
    }
    return is_in(CudaCall::copy)     ? &idle_.copy_s
           : is_in(CudaCall::launch) ? &idle_.launch_s
           : is_in(CudaCall::wait)   ? &idle_.wait_s
           : is_in(CudaCall::other)  ? &idle_.other_s
                                     : nullptr;
  }
  void end_gap() {
    if (gap_s_ < least_gap_s) {
      idle_.between_s += gap_s_;
    } else {
      idle_.elsewhere_s += gap_s_;
      ++idle_.gaps;
      idle_.longest_gap_s = std::max(idle_.longest_gap_s, gap_s_);
    }
    gap_s_ = 0;
  }

  std::uint64_t at_{0};
  std::array<std::int64_t, first_call + kinds> open_{};
  double gap_s_{0};
  IdleTimes idle_;
};

/// Finds the rows of kernels between products; `intervals` are sorted by their begin.
inline KernelsInARow kernels_in_a_row(std::span<const GpuInterval> intervals) {
  constexpr std::uint64_t least = 32;
  KernelsInARow found;
  bool behind_product = false;
  std::uint64_t kernels = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  IntervalUnion busy;
  const auto end_row = [&] {
    if (behind_product && kernels >= least) {
      ++found.rows;
      found.kernels += kernels;
      found.seconds += static_cast<double>(end - begin) / 1e9;
      found.busy_s += static_cast<double>(busy.length()) / 1e9;
    }
    kernels = 0;
    busy = {};
  };
  for (const GpuInterval& one : intervals) {
    if (one.work != GpuWork::kernel) {
      continue;
    }
    if (one.product) {
      end_row();
      behind_product = true;
      continue;
    }
    begin = kernels == 0 ? one.begin : begin;
    end = kernels == 0 ? one.end : std::max(end, one.end);
    busy.add(one.begin, one.end);
    ++kernels;
  }
  end_row();
  return found;
}

/// Fills in what the GPU did in these times: the counts, bytes and seconds of what began in them.
/// `intervals` are sorted by their begin, and so are the times, which do not overlap. Removes the
/// intervals that began outside the times.
inline void add_activity(WatchSummary& summary, std::vector<GpuInterval>& intervals,
                         std::span<const WatchedTime> times) {
  std::erase_if(intervals, [&](const GpuInterval& one) {
    const auto later = std::ranges::upper_bound(times, one.begin, {}, &WatchedTime::begin);
    return later == times.begin() || one.begin >= std::prev(later)->end;
  });
  const std::uint64_t dropped = summary.gpu.dropped;
  summary.gpu = summarize(intervals, 0, 1);
  summary.gpu.dropped = dropped;
  std::uint64_t watched = 0;
  for (const WatchedTime& time : times) {
    watched += time.end - time.begin;
  }
  summary.seconds = static_cast<double>(watched) / 1e9;
  summary.gpu.seconds = summary.seconds;
  IntervalUnion pageable;
  std::unordered_set<std::uint32_t> streams; // a program may make one for each item
  for (const GpuInterval& one : intervals) {
    if (one.pageable) {
      ++summary.pageable.copies;
      summary.pageable.bytes += one.bytes;
      pageable.add(one.begin, one.end);
    }
    streams.insert(one.stream);
  }
  summary.pageable.seconds = static_cast<double>(pageable.length()) / 1e9;
  summary.streams = static_cast<unsigned>(streams.size());
  summary.in_a_row = kernels_in_a_row(intervals);
}

} // namespace penstock::detail
