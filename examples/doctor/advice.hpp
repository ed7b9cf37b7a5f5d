// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "limits.hpp"
#include "trial.hpp"
#include "verdict_here.hpp"
#include "workload.hpp"

#include <penstock/diagnose/verdict.hpp>
#include <penstock/machine/usable.hpp>
#include <penstock/penstock.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace doctor {

/// What holds a pipeline back, and what to change, in words.
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
  Settings to_try; ///< Differs from the defaults if other settings may help.
};

/// Returns the settings that cure a cause; the defaults if none does.
inline Settings cure(const penstock::Report& report, penstock::Cause cause, double gain) {
  using penstock::Cause;
  const penstock::StageReport& reader = report.stages.front();
  switch (cause) {
  case Cause::disk: // more reads in flight take no processor
    return {.workers = std::min(2 * reader.workers, 32U)};
  case Cause::too_few_workers: {
    // Workers that wait for the disk take no processor.
    const bool they_wait = reader.cpu_share > 0 && reader.cpu_share < 0.5 * reader.workers;
    const unsigned most = they_wait ? 32 : penstock::usable_processors();
    return {.workers =
                std::clamp(static_cast<unsigned>(std::ceil(reader.workers * std::min(gain, 8.0))),
                           reader.workers + 1, std::max(most, reader.workers + 1))};
  }
  case Cause::depth:
    return {.depth = 2 * reader.depth};
  case Cause::small_batches:
  case Cause::launches:
    return {.replayed = true};
  default:
    return {};
  }
}

/// Says what held a run back.
inline Diagnosis diagnose(const penstock::Report& report, const Limits& limits,
                          const Workload& work) {
  const penstock::Verdict verdict = judge_here(report, limits, work);
  std::string cause = cause_here(verdict.cause, report);
  if (verdict.or_cause != penstock::Cause::nothing) {
    cause += " or " + cause_here(verdict.or_cause, report);
  }
  Diagnosis diagnosis{in_lines(verdict, report), verdict.stage, std::move(cause), {}, {}};
  for (const penstock::Advice& advice : verdict.advice) {
    diagnosis.advice.push_back({advice.change, advice.gain, advice.next});
  }
  const bool reader_or_last =
      verdict.stage == report.stages.front().name || verdict.stage == report.stages.back().name;
  const bool some_gain = !verdict.advice.empty() || verdict.or_cause != penstock::Cause::nothing;
  if (reader_or_last && some_gain) {
    diagnosis.to_try =
        cure(report, verdict.cause, verdict.advice.empty() ? 2 : verdict.advice.front().gain);
  }
  return diagnosis;
}

/// Returns the settings that a run had, with penstock's defaults filled in.
inline Settings settings_of(const penstock::Report& report, const Workload& work,
                            const Settings& asked) {
  return {.workers = report.stages.front().workers,
          .depth = report.stages.front().depth,
          .batch_bytes = work.batch_bytes,
          .replayed = asked.replayed};
}

} // namespace doctor
