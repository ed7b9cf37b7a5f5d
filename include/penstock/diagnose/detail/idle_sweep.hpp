// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/diagnose/detail/call_names.hpp>
#include <penstock/diagnose/gpu_watch_summary.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace penstock::detail {

/// A call of CUDA by some thread, in nanoseconds of the clock of the GpuIntervals.
struct CallSpan {
  std::uint64_t begin{};
  std::uint64_t end{};
  CudaCall kind{};
};

/// Sweeps over the time and says what the program did while the GPU was idle. What you add comes in
/// any order. settle() accounts for the time up to some moment, and gives back the memory of what
/// lies before it; of what comes later and began before that moment, only the part behind it
/// counts.
class IdleSweep {
 public:
  /// The program is watched from then on.
  void begin_time(std::uint64_t at) { edges_.push_back({std::max(at, settled_), 1, watched}); }
  /// It is watched no longer.
  void end_time(std::uint64_t at) { edges_.push_back({std::max(at, settled_), -1, watched}); }
  void add_kernel(std::uint64_t begin, std::uint64_t end) { add(begin, end, kernel); }
  void add_copy(std::uint64_t begin, std::uint64_t end) { add(begin, end, copy); }
  void add_call(const CallSpan& call) {
    add(call.begin, call.end, first_call + static_cast<std::size_t>(call.kind));
  }

  /// How many beginnings and ends are not settled.
  std::size_t pending() const noexcept { return edges_.size(); }
  /// Returns when as much lies before as behind, of what is not settled, of which there is some.
  std::uint64_t middle() {
    const auto half = edges_.begin() + static_cast<std::ptrdiff_t>(edges_.size() / 2);
    std::nth_element(edges_.begin(), half, edges_.end(), earlier);
    return half->at;
  }
  void settle(std::uint64_t until) {
    const auto later = std::partition(edges_.begin(), edges_.end(),
                                      [&](const Edge& edge) { return edge.at < until; });
    std::sort(edges_.begin(), later, earlier);
    std::for_each(edges_.begin(), later, [&](const Edge& edge) {
      pass(edge.at);
      open_[edge.what] += edge.by;
      had_kernel_ = had_kernel_ || edge.what == kernel;
    });
    edges_.erase(edges_.begin(), later);
    settled_ = std::max(settled_, until);
  }
  /// Settles all, whose times have ended, and returns the sums.
  IdleTimes finish() {
    settle(~std::uint64_t{0});
    end_gap();
    return idle_;
  }

 private:
  static constexpr std::size_t watched = 0;
  static constexpr std::size_t kernel = 1;
  static constexpr std::size_t copy = 2;
  static constexpr std::size_t first_call = 3;
  static constexpr std::size_t kinds = 7; // of calls
  static constexpr double least_gap_s = 20e-6;

  struct Edge {
    std::uint64_t at;
    std::int8_t by;
    std::uint8_t what;
  };
  static bool earlier(const Edge& a, const Edge& b) noexcept { return a.at < b.at; }

  void add(std::uint64_t begin, std::uint64_t end, std::size_t what) {
    begin = std::max(begin, settled_);
    if (begin < end) {
      if (edges_.capacity() - edges_.size() < 2) { // both, or none
        edges_.reserve(2 * edges_.size() + 64);
      }
      edges_.push_back({begin, 1, static_cast<std::uint8_t>(what)});
      edges_.push_back({end, -1, static_cast<std::uint8_t>(what)});
    }
  }
  bool is_in(CudaCall kind) const { return open_[first_call + static_cast<std::size_t>(kind)] > 0; }
  bool is_idle() const { return open_[watched] > 0 && open_[kernel] == 0 && open_[copy] == 0; }
  /// Accounts for the time from the last edge to `at`, in which nothing changed.
  void pass(std::uint64_t at) {
    const double seconds = static_cast<double>(at - at_) / 1e9;
    at_ = at;
    if (seconds == 0) {
      return;
    }
    double* const to = part();
    if (to == nullptr) { // nobody is in a call, for as long as this goes on
      gap_s_ += is_idle() ? seconds : 0;
      if (!is_idle()) {
        end_gap();
      }
      return;
    }
    end_gap();
    *to += seconds;
  }
  /// Returns where idle time counts now; null if it does not, or if no thread is in a call.
  double* part() {
    if (!is_idle()) {
      return nullptr;
    }
    const bool allocates =
        is_in(CudaCall::allocation) || is_in(CudaCall::page_lock) || is_in(CudaCall::release);
    if (allocates) {
      return had_kernel_ ? &idle_.allocation_s : &idle_.setup_s;
    }
    return is_in(CudaCall::copy)     ? &idle_.copy_s
           : is_in(CudaCall::launch) ? &idle_.launch_s
           : is_in(CudaCall::wait)   ? &idle_.wait_s
           : !is_in(CudaCall::other) ? nullptr
           : had_kernel_             ? &idle_.other_s
                                     : &idle_.setup_s;
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

  std::vector<Edge> edges_;
  std::uint64_t settled_{0};
  std::uint64_t at_{0};
  std::array<std::int64_t, first_call + kinds> open_{};
  bool had_kernel_{false};
  double gap_s_{0};
  IdleTimes idle_;
};

} // namespace penstock::detail
