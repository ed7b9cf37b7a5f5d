// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/diagnose/detail/activity_intervals.hpp>
#include <penstock/diagnose/detail/call_names.hpp>
#include <penstock/diagnose/detail/idle_sweep.hpp>
#include <penstock/diagnose/gpu_watch_summary.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <span>
#include <unordered_set>
#include <vector>

namespace penstock::detail {

/// Tells the calls of a program's loop from those of its set-up, and of its end. It notes how many
/// there were at each launch whose number is a power of two: what lies between the last but one of
/// these and the last launch is at least half of the launches.
class LoopCalls {
 public:
  void add(CudaCall kind, double seconds) noexcept {
    switch (kind) {
    case CudaCall::allocation:
    case CudaCall::page_lock:
      return count(now_.allocations, seconds);
    case CudaCall::release:
      return count(now_.releases, seconds);
    case CudaCall::launch:
      ++now_.launches;
      at_last_ = now_;
      if ((now_.launches & (now_.launches - 1)) == 0) {
        before_ = at_power_;
        at_power_ = now_;
      }
      return;
    default:
      return;
    }
  }
  /// Returns the later part; nothing unless two launches are in it.
  WatchedLoop later() const noexcept {
    if (before_.launches == 0) {
      return {};
    }
    const auto less = [](const WatchedCalls& all, const WatchedCalls& first) {
      return WatchedCalls{all.calls - first.calls, all.seconds - first.seconds};
    };
    return {at_last_.launches - before_.launches, less(at_last_.allocations, before_.allocations),
            less(at_last_.releases, before_.releases)};
  }

 private:
  static void count(WatchedCalls& calls, double seconds) noexcept {
    ++calls.calls;
    calls.seconds += seconds;
  }

  WatchedLoop now_;
  WatchedLoop at_last_;  ///< At the last launch.
  WatchedLoop at_power_; ///< At the last launch whose number is a power of two.
  WatchedLoop before_;   ///< At the one before that; of no launch, if there was none.
};

/// Finds the rows of kernels between products, of intervals in the order of their begins.
class KernelRows {
 public:
  void add(const GpuInterval& one) noexcept {
    if (one.work != GpuWork::kernel) {
      return;
    }
    if (one.product) {
      end_row();
      behind_product_ = true;
      return;
    }
    begin_ = kernels_ == 0 ? one.begin : begin_;
    end_ = kernels_ == 0 ? one.end : std::max(end_, one.end);
    busy_.add(one.begin, one.end);
    ++kernels_;
  }
  /// Ends the last row and returns all.
  KernelsInARow finish() noexcept {
    end_row();
    return found_;
  }

 private:
  static constexpr std::uint64_t least = 32;

  void end_row() noexcept {
    if (behind_product_ && kernels_ >= least) {
      ++found_.rows;
      found_.kernels += kernels_;
      found_.seconds += static_cast<double>(end_ - begin_) / 1e9;
      found_.busy_s += static_cast<double>(busy_.length()) / 1e9;
    }
    kernels_ = 0;
    busy_ = {};
  }

  KernelsInARow found_;
  bool behind_product_{false};
  std::uint64_t kernels_{0};
  std::uint64_t begin_{0};
  std::uint64_t end_{0};
  IntervalUnion busy_;
};

/// What the program and the GPU did, and when. It sums up as it goes: however long the watch, it
/// keeps what came last, and sums of what came before. For one thread at a time.
class WatchTimeline {
 public:
  /// Keeps at most `most` beginnings and ends, each of 16 bytes or, with the GPU's, of 32.
  explicit WatchTimeline(std::size_t most = 1'000'000) : most_{most} {}

  /// The program is watched from then on. Times do not overlap.
  void begin_time(std::uint64_t at) {
    sweep_.begin_time(at);
    time_ = at;
  }
  /// It is watched no longer.
  void end_time(std::uint64_t at) {
    sweep_.end_time(at);
    watched_ns_ += at - time_;
  }
  /// Throws std::bad_alloc.
  void add(const CallSpan& call) {
    if (call.kind != CudaCall::other) {
      return sweep_.add_call(call);
    }
    // A program that asks and asks whether the GPU is done would have nothing else in memory.
    if (other_ && call.begin <= other_->end + short_pause &&
        other_->begin <= call.end + short_pause) {
      other_->begin = std::min(other_->begin, call.begin);
      other_->end = std::max(other_->end, call.end);
      return;
    }
    add_other();
    other_ = call;
  }
  /// What the GPU began in the times. Throws std::bad_alloc.
  void add(std::span<const GpuInterval> intervals) {
    for (const GpuInterval& one : intervals) {
      late_ += one.begin < settled_ ? 1 : 0;
      if (one.work == GpuWork::kernel) {
        sweep_.add_kernel(one.begin, one.end);
      } else {
        sweep_.add_copy(one.begin, one.end);
      }
      intervals_.push_back(one);
    }
  }
  bool is_full() const noexcept { return sweep_.pending() >= most_; }
  /// Sums up the older half. What CUPTI hands over later comes late, and so do calls that take
  /// longer than all that is kept.
  void settle() {
    add_other();
    settle(sweep_.middle());
  }
  /// Sums up all, whose times have ended.
  void finish(WatchSummary& summary) {
    add_other();
    summary.idle = sweep_.finish();
    settle(~std::uint64_t{0});
    const std::uint64_t dropped = summary.gpu.dropped;
    summary.gpu = gpu_.sum();
    summary.gpu.dropped = dropped;
    summary.seconds = static_cast<double>(watched_ns_) / 1e9;
    summary.gpu.seconds = summary.seconds;
    summary.pageable = pageable_;
    summary.pageable.seconds = static_cast<double>(pageable_time_.length()) / 1e9;
    summary.page_locked_bytes_per_s = page_locked_bytes_per_s_;
    summary.streams = static_cast<unsigned>(streams_.size());
    summary.in_a_row = rows_.finish();
    summary.late = late_;
  }

 private:
  // Nanoseconds: shorter than what a watch adds to a call.
  static constexpr std::uint64_t short_pause = 2000;
  // Of smaller copies most of the time is no transfer.
  static constexpr std::uint64_t large_copy = std::uint64_t{1} << 20;

  void add_other() {
    if (other_) {
      sweep_.add_call(*other_);
      other_.reset();
    }
  }
  void settle(std::uint64_t until) {
    sweep_.settle(until);
    settled_ = std::max(settled_, until);
    const auto later = std::partition(intervals_.begin(), intervals_.end(),
                                      [&](const GpuInterval& one) { return one.begin < until; });
    std::sort(intervals_.begin(), later,
              [](const GpuInterval& a, const GpuInterval& b) { return a.begin < b.begin; });
    std::for_each(intervals_.begin(), later, [&](const GpuInterval& one) { sum_up(one); });
    intervals_.erase(intervals_.begin(), later);
  }
  void sum_up(const GpuInterval& one) noexcept {
    gpu_.add(one);
    rows_.add(one);
    try {
      streams_.insert(one.stream);
    } catch (const std::bad_alloc&) { // one stream too few
    }
    if (one.pageable) {
      ++pageable_.copies;
      pageable_.bytes += one.bytes;
      pageable_time_.add(one.begin, one.end);
    } else if (one.bytes >= large_copy && one.work != GpuWork::other_copy) {
      page_locked_bytes_per_s_ =
          std::max(page_locked_bytes_per_s_,
                   1e9 * static_cast<double>(one.bytes) / static_cast<double>(one.end - one.begin));
    }
  }

  std::size_t most_;
  IdleSweep sweep_;
  std::optional<CallSpan> other_;
  std::uint64_t time_{0};
  std::uint64_t watched_ns_{0};
  std::vector<GpuInterval> intervals_;
  std::uint64_t settled_{0};
  std::uint64_t late_{0};
  ActivitySums gpu_;
  KernelRows rows_;
  PageableCopies pageable_;
  IntervalUnion pageable_time_;
  double page_locked_bytes_per_s_{0};
  std::unordered_set<std::uint32_t> streams_; // a program may make one for each item
};

} // namespace penstock::detail
