// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/diagnose/detail/call_names.hpp>
#include <penstock/diagnose/gpu_watch_summary.hpp>
#include <penstock/diagnose/watch_text.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace doctor {

using penstock::WatchedCalls;
using penstock::WatchedFunction;
using penstock::WatchedKernel;
using penstock::WatchSummary;
using penstock::detail::copy_waits;
using penstock::detail::counted;
using penstock::detail::figure;
using penstock::detail::figure_bytes;
using penstock::detail::figure_ms;
using penstock::detail::figure_us;
using penstock::detail::is_product;
using penstock::detail::percent;
using penstock::detail::short_name;

/// A cause of lost time, with its cure.
struct WatchFinding {
  std::string cause{}; ///< Such as "a wait for each item".
  /// The page in docs/blocking_events/ that has the cure: "10_sync_per_item".
  std::string page{};
  /// Another cause that one recording cannot tell from it, with the trial that would; else empty.
  std::string or_cause{};
  /// The page of that; or empty.
  std::string or_page{};
  std::string evidence{}; ///< The figures that show it.
  /// Seconds that the cause cost, at most; 0 for one that costs memory and not time.
  double cost_s{};
  /// Nothing shows that the cause costs anything here. A hint stands alone.
  bool hint{};
};

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
  /// Copies that wait as well, for themselves and for what was asked of the GPU before them.
  WatchedCalls waiting_copies() const {
    WatchedCalls sum;
    for (const WatchedFunction& function : is_.functions) {
      if (copy_waits(function.name)) {
        sum.calls += function.calls.calls;
        sum.seconds += function.calls.seconds;
      }
    }
    return sum;
  }
  std::uint64_t waits_in_all() const { return is_.waits.calls + waiting_copies().calls; }
  /// Seconds that the GPU worked for each wait.
  double gpu_s_a_wait() const {
    return waits_in_all() == 0 ? is_.seconds : is_.gpu.busy_s / static_cast<double>(waits_in_all());
  }
  double kernel_s_each() const {
    return is_.gpu.kernels == 0 ? 0 : is_.gpu.kernel_s / static_cast<double>(is_.gpu.kernels);
  }
  /// What copies of page-locked memory reach, in bytes a second: the best of this program, or what
  /// the GPU's link allows.
  double link() const {
    return is_.page_locked_bytes_per_s > 0 ? is_.page_locked_bytes_per_s
           : is_.link_bytes_per_s > 0      ? is_.link_bytes_per_s
                                           : least_link;
  }
  /// Seconds that copies of pageable memory took beyond what page-locked memory would.
  double pageable_s() const {
    return std::max(is_.pageable.seconds - static_cast<double>(is_.pageable.bytes) / link(), 0.0);
  }
  /// Whether the program did something else so often that it must be a loop.
  bool has_gaps() const { return is_.idle.gaps >= least_in_a_loop; }
  /// Seconds in which the GPU was idle because the program's loop allocates: those after the first
  /// kernel, less the share of calls that are in no loop.
  double loop_allocation_s() const {
    const double all_s = is_.allocations.seconds + is_.releases.seconds;
    const double later_s = is_.loop.allocations.seconds + is_.loop.releases.seconds;
    if (is_.loop.launches == 0 || all_s <= 0) {
      return 0;
    }
    const double loop_s =
        later_s * static_cast<double>(is_.launches.calls) / static_cast<double>(is_.loop.launches);
    return is_.idle.allocation_s * std::min(loop_s / all_s, 1.0);
  }
  /// Seconds in which the GPU was idle because of calls in the program's loop.
  double in_calls_s() const {
    return loop_allocation_s() + is_.idle.copy_s + is_.idle.launch_s + is_.idle.wait_s +
           is_.idle.other_s + is_.idle.between_s;
  }
  bool waits_per_item() const {
    return waits_in_all() >= 16 && gpu_s_a_wait() < 1e-3 &&
           is_.launches.calls < 16 * waits_in_all();
  }
  bool allocates_per_item() const {
    return is_.loop.allocations.calls >= least_in_a_loop && counts(loop_allocation_s());
  }
  static double each(const WatchedCalls& calls) {
    return calls.calls == 0 ? 0 : calls.seconds / static_cast<double>(calls.calls);
  }
  std::string waits() const {
    const WatchedCalls copies = waiting_copies();
    return counted(is_.waits.calls, "wait") + " (" + figure_ms(is_.waits.seconds) + ")" +
           (copies.calls == 0
                ? ""
                : " and " + counted(copies.calls, "copy that waits", "copies that wait") + " (" +
                      figure_ms(copies.seconds) + ")");
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
           figure_bytes(static_cast<std::uint64_t>(rate)) +
           "/s, where page-locked memory reaches " +
           figure_bytes(static_cast<std::uint64_t>(link())) + "/s";
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
  /// What is taken for a link of which nothing is known: 16 lanes of PCIe 3.0, in bytes a second.
  static constexpr double least_link = 12e9;
};

/// The causes found, the first one first.
class RankedFindings {
 public:
  void add(WatchRank rank, WatchFinding finding) { all_.push_back({rank, std::move(finding)}); }
  std::vector<WatchFinding> in_order() {
    const bool blamed =
        std::ranges::any_of(all_, [](const RankedFinding& one) { return !one.finding.hint; });
    std::erase_if(all_, [&](const RankedFinding& one) { return blamed && one.finding.hint; });
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

} // namespace doctor
