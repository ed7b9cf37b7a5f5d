// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/owned.hpp>
#include <penstock/run/report.hpp>
#include <penstock/run/run_options.hpp>

#include <utility>

namespace penstock::detail {

/// Those who look on at a run: the user's observer, and a thread that shows the run to the
/// application. One thread.
class Onlookers {
 public:
  /// Forgets those of the last run.
  void reset() noexcept { observer_ = nullptr; }
  /// Has the observer begin, calls begun(), and starts the thread. Throws if one of them cannot.
  template <class Begun>
  [[gnu::cold]] void begin(const RunOptions& options, Engine& engine, Begun begun) {
    if (options.observe) {
      options.observe->begin();
      observer_ = options.observe;
      begun();
    }
    const auto start = options.progress ? options.progress.start() : options.stalled.start();
    if (!start) {
      return;
    }
    try {
      watch_ = Owned<Watch>{start(options, engine)};
    } catch (...) {
      Report of_no_run;
      end(of_no_run);
      throw;
    }
  }
  /// Blocks until the thread has ended.
  [[gnu::cold]] void stop_watching() noexcept { watch_ = {}; }
  /// Has the observer add to the Report.
  [[gnu::cold]] void end(Report& report) noexcept {
    if (RunObserver* const observer = std::exchange(observer_, nullptr)) {
      observer->end(report);
    }
  }

 private:
  Owned<Watch> watch_;
  RunObserver* observer_{};
};

} // namespace penstock::detail
