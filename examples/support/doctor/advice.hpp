// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trial.hpp"

#include <penstock/penstock.hpp>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace doctor {

/// What holds a pipeline back, and what to change: judge() in words.
struct Diagnosis {
  struct Change {
    std::string change;
    double gain; ///< Times as fast.
    std::string next;
  };
  std::string verdict;
  std::string stage;
  std::string cause;
  std::vector<Change> advice;
};

inline Diagnosis diagnose(const penstock::Report& report) {
  return {"held back by " + report.limiting_stage, report.limiting_stage, "unknown", {}};
}

/// Returns the settings that a run had, with penstock's defaults filled in.
inline Settings settings_of(const penstock::Report& report, const Workload& work,
                            const Settings& asked) {
  return {.workers = report.stages.front().workers,
          .depth = report.stages.front().depth,
          .batch_bytes = asked.batch_bytes != 0 ? asked.batch_bytes : work.batch_bytes,
          .replayed = asked.replayed};
}

/// Returns what to try after a run: nothing if no setting would help.
inline std::optional<Settings> settings_after(const penstock::Report& report,
                                              const Diagnosis& diagnosis, const Workload& work) {
  static_cast<void>(work);
  if (diagnosis.stage == "Reader") {
    const unsigned workers = report.stages.front().workers;
    return Settings{.workers = std::min(2 * workers, 32U)};
  }
  return std::nullopt;
}

} // namespace doctor
