// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/run/stage_report.hpp>

#include <cstddef>
#include <limits>
#include <vector>

namespace penstock::detail {

// Where the stages of a Report lie. Most are a chain, each behind the one before. Those of a
// FanOut are a chain, what hands its slots on, and a copier and a loop for each device.

/// Returns the number of the first stage that one of several devices has for itself; that of all
/// stages if there is none.
[[gnu::cold]] inline std::size_t first_branch(const std::vector<StageReport>& stages) {
  std::size_t i = 0;
  while (i < stages.size() && stages[i].kind != StageKind::fan_out) {
    ++i;
  }
  return i < stages.size() ? i + 1 : i;
}
/// Returns how many copiers to devices there are from stage `begin` on, before stage `end`.
[[gnu::cold]] inline std::size_t copiers(const std::vector<StageReport>& stages, std::size_t begin,
                                         std::size_t end) {
  std::size_t count = 0;
  for (std::size_t i = begin; i < end; ++i) {
    count += stages[i].kind == StageKind::copy_to_device ? 1U : 0U;
  }
  return count;
}
/// Returns whether two stages do the same, for different devices of a FanOut.
[[gnu::cold]] inline bool do_the_same(const std::vector<StageReport>& stages, std::size_t a,
                                      std::size_t b) {
  const std::size_t first = first_branch(stages);
  return a != b && a >= first && b >= first && a < stages.size() && b < stages.size() &&
         stages[a].kind == stages[b].kind;
}
/// Returns whether a stage is the last that records come to.
inline bool is_end(const std::vector<StageReport>& stages, std::size_t at) {
  return at + 1 == stages.size() || stages[at].kind == StageKind::loop;
}
/// Returns the stage that takes from the ring that stage `at` fills. Of a FanOut's copiers it is
/// the one that holds its slots longest: that waits least for others.
[[gnu::cold]] inline std::size_t behind(const std::vector<StageReport>& stages, std::size_t at) {
  std::size_t next = at + 1;
  if (next >= stages.size() || stages[next].kind != StageKind::fan_out) {
    return next;
  }
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t i = at + 2; i < stages.size(); ++i) {
    const double waits = stages[i].starved_s - stages[i].blocked_s;
    if (stages[i].kind == StageKind::copy_to_device && waits < least) {
      next = i;
      least = waits;
    }
  }
  return next;
}

} // namespace penstock::detail
