// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/diagnose/detail/finding.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

namespace penstock::detail {

// What it looks like if processors are what lacks.

/// Returns whether processors are what lacks. Who has one all the time that it is at work lacks
/// none.
[[gnu::cold]] inline bool cores_bind(const Finding& finding) {
  const double in_use = processors_in_use(finding.report);
  return in_use >= 0.95 || (in_use >= binding && finding.cpu_at_work() < 0.95);
}

/// All processors are in use: only less work, or more of them, will help.
[[gnu::cold]] inline void judge_cores(penstock::Verdict& verdict, const Finding& finding) {
  const Report& report = finding.report;
  verdict.cause = Cause::cores;
  verdict.evidence = digits(report.cpu_s / report.seconds, 2) + " of " +
                     counted(report.processors, "processor is in use", "processors are in use");
  if (report.stolen_s > 0.05 * report.seconds * report.processors) {
    verdict.evidence += ", and other machines took " + time_of(report.stolen_s) + " of them";
  }
  if (report.throttled_s > 0.1 * report.seconds) {
    verdict.evidence += ", and a quota held the process for " + time_of(report.throttled_s);
  }
  verdict.evidence += ": more workers gain nothing";
  std::size_t most = 0;
  for (std::size_t i = 1; i < report.stages.size(); ++i) {
    const StageReport& stage = report.stages[i];
    const bool larger = stage.cpu_share > report.stages[most].cpu_share;
    most = larger && stage.kind != StageKind::fan_out ? i : most; // its work is penstock's
  }
  const StageReport& stage = report.stages[most];
  const double share =
      report.cpu_s > 0 ? std::min(stage.cpu_share * report.seconds / report.cpu_s, 1.0) : 0;
  const auto add = [&](std::string change, double factor, const Bounds::Bound& next) {
    const double limit = 1 / std::max(next.share, 1 / most_promised);
    verdict.advice.push_back({std::move(change), std::max(std::min(factor, limit), 1.0),
                              factor < limit ? all_cores : next.name, finding.bounds.reads() > 0});
  };
  if (share > 0.3) {
    add(stage.name + ": half the work a record, since it takes " + per_cent(share) +
            " of the CPU time",
        1 / (1 - share / 2), finding.bounds.without_cores(report, most));
  }
  add("twice the processors", 2, finding.bounds.without_cores(report, report.stages.size()));
}

} // namespace penstock::detail
