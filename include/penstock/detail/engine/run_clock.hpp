// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#include <chrono>

#include <time.h>

namespace penstock::detail {

/// Measures a run.
class RunClock {
 public:
  /// Begins.
  [[gnu::cold]] void start() noexcept {
    start_ = Clock::now();
    cpu_start_ = cpu_now();
  }
  /// Return the seconds since then, and the CPU seconds of the whole process.
  /// @{
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  double cpu_seconds() const noexcept { return cpu_now() - cpu_start_; }
  /// @}

 private:
  using Clock = std::chrono::steady_clock;

  static double cpu_now() noexcept {
    timespec now{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
  }

  Clock::time_point start_{};
  double cpu_start_{};
};

} // namespace penstock::detail
