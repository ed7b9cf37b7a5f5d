// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/observe/figures.hpp>
#include <penstock/gpu_watch_summary.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace penstock::detail {

/// What comes first: several causes at once; one cause; what may be two; what costs no time.
enum class WatchRank : std::uint8_t { several, one, perhaps, memory };

/// A finding, and where it belongs among the others.
struct RankedFinding {
  WatchRank rank;
  WatchFinding finding;
};

/// What the rules ask of a WatchSummary, and how they write it.
class WatchFigures {
 public:
  explicit WatchFigures(const WatchSummary& summary) : is_{summary} {}

  double share(double seconds) const { return seconds / is_.seconds; }
  /// Whether seconds are enough for a cause: a tenth of the time.
  bool counts(double seconds) const { return share(seconds) >= 0.1; }
  std::uint64_t copies() const {
    return is_.gpu.copies_to_device + is_.gpu.copies_to_host + is_.gpu.other_copies;
  }
  std::uint64_t copied_bytes() const { return is_.gpu.bytes_to_device + is_.gpu.bytes_to_host; }
  /// Seconds that the GPU worked for each wait.
  double gpu_s_a_wait() const {
    return is_.waits.calls == 0 ? is_.seconds
                                : is_.gpu.busy_s / static_cast<double>(is_.waits.calls);
  }
  double kernel_s_each() const {
    return is_.gpu.kernels == 0 ? 0 : is_.gpu.kernel_s / static_cast<double>(is_.gpu.kernels);
  }
  /// Seconds that copies of pageable memory took beyond what page-locked memory would.
  double pageable_s() const {
    return std::max(is_.pageable.seconds - static_cast<double>(is_.pageable.bytes) / least_link,
                    0.0);
  }
  /// Whether the program did something else so often that it must be a loop.
  bool has_gaps() const { return is_.idle.gaps >= least_in_a_loop; }
  /// Seconds in which the GPU was idle because of calls.
  double in_calls_s() const {
    return is_.idle.allocation_s + is_.idle.copy_s + is_.idle.launch_s + is_.idle.wait_s +
           is_.idle.other_s + is_.idle.between_s;
  }
  bool waits_per_item() const {
    return is_.waits.calls >= 16 && gpu_s_a_wait() < 1e-3 &&
           is_.launches.calls < 16 * is_.waits.calls;
  }
  bool allocates_per_item() const {
    return is_.allocations.calls >= 16 && counts(is_.idle.allocation_s);
  }
  static double each(const WatchedCalls& calls) {
    return calls.calls == 0 ? 0 : calls.seconds / static_cast<double>(calls.calls);
  }
  std::string waits() const {
    return counted(is_.waits.calls, "wait") + " (" + figure_ms(is_.waits.seconds) + ")";
  }
  /// Waits, and copies of pageable memory, which wait too.
  std::string all_waits() const {
    return waits() + (is_.pageable.copies == 0
                          ? ""
                          : "; copies kept threads for " + figure_ms(is_.copies.seconds));
  }
  std::string elsewhere() const {
    return "for " + percent(share(is_.idle.elsewhere_s)) + " of the time, " +
           counted(is_.idle.gaps, "time") +
           ", the GPU was idle and no thread was in a call of CUDA";
  }
  std::string pageable() const {
    const double rate = is_.pageable.seconds > 0
                            ? static_cast<double>(is_.pageable.bytes) / is_.pageable.seconds
                            : 0;
    return counted(is_.pageable.copies, "copy", "copies") + " of pageable memory, " +
           figure_bytes(is_.pageable.bytes) + " at " +
           figure_bytes(static_cast<std::uint64_t>(rate)) + "/s";
  }
  std::string cpu() const {
    return figure(is_.cpu_s / is_.seconds) + " of " + counted(is_.processors, "processor") +
           " in use";
  }
  std::string memory() const {
    return figure_bytes(is_.device_bytes) + " of " + figure_bytes(is_.device_memory) +
           " of the GPU's memory in use";
  }

 protected:
  /// What happens so often is done again and again, and not at the start or the end alone.
  static constexpr std::uint64_t least_in_a_loop = 8;

  const WatchSummary& is_;

 private:
  /// What every PCIe link of a GPU reaches from page-locked memory, in bytes a second.
  static constexpr double least_link = 20e9;
};

/// The causes found, the first one first.
class RankedFindings {
 public:
  void add(WatchRank rank, WatchFinding finding) { all_.push_back({rank, std::move(finding)}); }
  std::vector<WatchFinding> in_order() {
    std::ranges::stable_sort(all_, [](const RankedFinding& a, const RankedFinding& b) {
      return a.rank != b.rank ? a.rank < b.rank : a.finding.cost_s > b.finding.cost_s;
    });
    std::vector<WatchFinding> findings;
    for (RankedFinding& one : all_) {
      findings.push_back(std::move(one.finding));
    }
    return findings;
  }

 private:
  std::vector<RankedFinding> all_;
};

} // namespace penstock::detail
