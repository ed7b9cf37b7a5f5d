// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/diagnose/detail/finding.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace penstock::detail {

// What to do if workers have too few slots, or a run too few units.

/// Gives the ring that stage `at` fills at least `slots`: returns what else to change for that,
/// behind a change of `stage`; nothing if it has them.
[[gnu::cold]] inline std::string deeper(const Finding& finding, std::size_t stage, std::size_t at,
                                        double slots) {
  const StageReport& filler = finding.report.stages[at];
  const auto depth = static_cast<double>(filler.depth);
  if (filler.depth == 0 || on_device(filler) || depth >= slots) {
    return {};
  }
  const std::string change = change_of(filler.name, ".depth", depth, slots);
  return "; " + (at == stage ? change.substr(filler.name.size() + 2) : change);
}

/// More slots for the workers, or smaller ones. Returns what there is too little of, in words.
[[gnu::cold]] inline std::string advise_units(penstock::Verdict& verdict, const Finding& finding,
                                              double usable) {
  const auto& stages = finding.report.stages;
  const StageReport& stage = finding.stage;
  const double workers = stage.workers;
  const std::string its = "its " + digits(workers, 0) + " workers";
  const double wanted = std::ceil(workers / workers_a_slot(stage)) + 2;
  const std::size_t before = finding.at == 0 ? 0 : finding.at - 1;
  const auto depth_of = [&](std::size_t i) {
    return on_device(stages[i]) || stages[i].depth == 0 ? wanted
                                                        : static_cast<double>(stages[i].depth);
  };
  const std::size_t ring = depth_of(before) < depth_of(finding.at) ? before : finding.at;
  const double gain = workers / usable;
  if (depth_of(ring) <= usable / workers_a_slot(stage)) {
    std::string change = change_of(stages[ring].name, ".depth", depth_of(ring), wanted);
    if (before != finding.at) { // the first stage has one ring
      change += deeper(finding, ring, ring == before ? finding.at : before, wanted);
    }
    advise(verdict, finding, std::move(change), gain,
           finding.bounds.with_deeper_ring(finding.report, ring, finding.at));
    return its + " share the " + counted(depth_of(ring), "slot") + " of the " + stages[ring].name +
           "'s ring, and a slot is one worker's";
  }
  const auto units = static_cast<double>(std::max<std::uint64_t>(stage.units, 1));
  const auto records = static_cast<double>(std::max(stage.records, stages.front().records));
  const double each = std::max(std::floor(records / (8 * workers)), 1.0);
  const double now = std::ceil(records / units);
  const std::string few = "the whole run has " + counted(units, "unit") + " for " + its;
  if (each >= now) {
    return few + ", and a unit is a record: fewer workers do as well";
  }
  advise(verdict, finding, change_of(stages.front().name, ".batch", now, each), gain,
         finding.bounds.without_stage(finding.at));
  return few;
}

} // namespace penstock::detail
