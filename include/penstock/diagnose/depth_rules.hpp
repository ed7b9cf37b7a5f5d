// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/measure/branches.hpp>
#include <penstock/diagnose/cause.hpp>
#include <penstock/diagnose/detail/bounds.hpp>
#include <penstock/diagnose/detail/finding.hpp>
#include <penstock/diagnose/detail/words.hpp>
#include <penstock/run/report.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace penstock::detail {

/// The ring that the stage fills had too few slots, though no stage was at work all the time.
[[gnu::cold]] inline void judge_depth(penstock::Verdict& verdict, const Finding& finding) {
  const StageReport& stage = finding.stage;
  const StageReport& next = finding.report.stages[behind(finding.report.stages, finding.at)];
  const Bounds::Bound then =
      finding.bounds.with_deeper_ring(finding.report, finding.at, finding.report.stages.size());
  const auto depth = static_cast<double>(stage.depth);
  const double holders = std::max(stage.workers, 1U) + std::max(next.workers, 1U);
  const double gain = 1 / std::max(then.share, 1 / most_promised);
  // So many slots go by while one of the longest units lasts.
  const double longest_s = std::max(stage.unit_p99_s, next.unit_p99_s);
  const double bursts = longest_s * gain * slots_filled(stage) / finding.report.seconds;
  const double most_slots = std::max(
      double{1 << 30} / static_cast<double>(std::max<std::size_t>(stage.slot_bytes, 1)), 2 * depth);
  const double wanted =
      std::ceil(std::min(std::max({2 * depth, 2 * holders, 1.2 * bursts + holders}), most_slots));
  verdict.cause = Cause::depth;
  verdict.evidence = "the " + stage.name + " waits for room for " +
                     per_cent(stage.blocked_s / finding.report.seconds) + " of the run, the " +
                     next.name + " behind it waits for input for " +
                     per_cent(next.starved_s / finding.report.seconds) +
                     ", and the ring between them has " + counted(depth, "slot");
  verdict.advice.push_back({change_of(stage.name, ".depth", depth, wanted),
                            std::clamp(gain, 1.0, std::min(wanted / depth, most_promised)),
                            then.name, holders > 2 || finding.bounds.reads() > 0});
}

} // namespace penstock::detail
