// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/cause.hpp>
#include <penstock/detail/verdict/bounds.hpp>
#include <penstock/detail/verdict/finding.hpp>
#include <penstock/detail/verdict/words.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace penstock::detail {

/// Returns how many of a stage's usual units go by while the other stage does one of its longest.
[[gnu::cold]] inline double units_meanwhile(const StageReport& stage, const StageReport& other,
                                            double seconds) {
  const double usual = worked(stage, seconds) / std::max(stage.units, std::uint64_t{1});
  return usual > 0 ? other.unit_p99_s / usual : 0;
}

/// A ring had too few slots, though no stage was at work all the time.
[[gnu::cold]] inline void judge_depth(penstock::Verdict& verdict, const Finding& finding,
                                      std::size_t ring) {
  const StageReport& stage = finding.report.stages[ring];
  const StageReport& next = finding.report.stages[ring + 1];
  const Bounds::Bound then =
      finding.bounds.with_deeper_ring(finding.report, ring, finding.report.stages.size());
  const auto depth = static_cast<double>(stage.depth);
  const double holders = std::max(stage.workers, 1U) + std::max(next.workers, 1U);
  // What a burst of one side brings, or takes, while the other goes on as usual.
  const double burst = std::max(units_meanwhile(next, stage, finding.report.seconds),
                                units_meanwhile(stage, next, finding.report.seconds));
  const double wanted =
      std::max({2 * depth, std::ceil(2 * holders), std::ceil(1.25 * burst) + holders});
  verdict.cause = Cause::depth;
  verdict.evidence = "the " + stage.name + " waits for room in " +
                     per_cent(stage.blocked_s / finding.report.seconds) + " of the run, the " +
                     next.name + " behind it for input in " +
                     per_cent(next.starved_s / finding.report.seconds) +
                     ", and the ring between them has " + digits(depth, 0) + " slots";
  verdict.advice.push_back({change_of(stage.name, ".depth", depth, wanted),
                            std::min(1 / std::max(then.share, 0.02), wanted / depth), then.name,
                            true});
}

} // namespace penstock::detail
