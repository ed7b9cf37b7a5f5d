// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "feeding_rules.hpp"
#include "kernel_rules.hpp"
#include "watch_figures.hpp"

#include <penstock/diagnose/gpu_watch_summary.hpp>

#include <vector>

namespace doctor {

/// Returns the causes of the time that the GPU or the program lost, the first one first: several
/// causes at once, then single ones by what they cost, then those of which one recording cannot
/// tell which of two it is, then those that cost memory. If nothing costs a tenth of the time,
/// there is a hint at the most. A pure function; throws nothing but std::bad_alloc.
[[gnu::cold]] inline std::vector<WatchFinding> findings(const WatchSummary& summary) {
  RankedFindings found;
  if (summary.seconds > 0 && summary.gpu.busy_s > 0) {
    FeedingRules{summary, found}.find();
    KernelRules{summary, found}.find();
  }
  return found.in_order();
}

} // namespace doctor
