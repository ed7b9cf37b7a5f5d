// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/run/run_options.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

namespace penstock::detail {

/// Looks at a run from time to time, and reports its progress and its stalls. One thread.
class Observer {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Observer(RunOptions options, Clock::time_point now = Clock::now())
      : options_{std::move(options)}, told_{now}, moved_{now} {
    // A time too long to be added to another would look like none.
    options_.every = std::min(options_.every, longest);
    options_.stall_limit = std::min(options_.stall_limit, longest);
  }

  /// Returns how often to look.
  std::chrono::milliseconds period() const {
    constexpr std::chrono::milliseconds least{1};
    const auto limit = options_.stall_limit / 4;
    return std::max(least, !options_.stalled    ? options_.every
                           : !options_.progress ? limit
                                                : std::min(options_.every, limit));
  }

  [[gnu::cold]] void look(const Report& report, Clock::time_point now = Clock::now()) {
    if (options_.progress && now - told_ >= options_.every) {
      told_ = now;
      options_.progress(report);
    }
    if (!options_.stalled) {
      return;
    }
    std::uint64_t sum = 0;
    for (const StageReport& stage : report.stages) {
      sum += stage.records + stage.bytes + stage.skipped + stage.retries;
    }
    if (sum != sum_) {
      sum_ = sum;
      moved_ = now;
      reported_ = false;
    } else if (!reported_ && now - moved_ >= options_.stall_limit) {
      reported_ = true;
      options_.stalled(describe(report, std::chrono::duration<double>(now - moved_).count()));
    }
  }

 private:
  // The last stage that is at work holds up the rest; if none is at work, time is lost at the last
  // stage that waits for room.
  [[gnu::cold]] static Stall describe(const Report& report, double seconds) {
    Stall stall{report.stages.front().name, "waits for what comes in", seconds, report};
    for (const StageReport& stage : report.stages) {
      if (stage.blocked_now != 0) {
        stall.stage = stage.name;
        stall.reason = "waits for room after it";
      }
    }
    for (const StageReport& stage : report.stages) {
      if (stage.busy_now != 0) {
        stall.stage = stage.name;
        stall.reason = stage.kind == StageKind::loop && stage.records == 0
                           ? "has asked for no batch"
                           : "is at work and has not come back";
      }
    }
    return stall;
  }

  static constexpr std::chrono::milliseconds longest = std::chrono::hours{24 * 365};

  RunOptions options_;
  Clock::time_point told_;
  Clock::time_point moved_;
  std::uint64_t sum_{};
  bool reported_{};
};

} // namespace penstock::detail
