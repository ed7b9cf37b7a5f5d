// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/verdict/finding.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace penstock::detail {

// What to do about rings with too few slots, and runs with too few units.

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
    change += deeper(finding, ring, ring == before ? finding.at : before, wanted);
    advise(verdict, finding, std::move(change), gain,
           finding.bounds.with_deeper_ring(finding.report, ring, finding.at));
    return its + " share the " + digits(depth_of(ring), 0) + " slots of the " + stages[ring].name +
           "'s ring, and a slot is one worker's";
  }
  const auto units = static_cast<double>(std::max<std::uint64_t>(stage.units, 1));
  const auto records = static_cast<double>(std::max(stage.records, stages.front().records));
  const double each = std::max(std::floor(records / (8 * workers)), 1.0);
  const double now = std::ceil(records / units);
  const std::string few = "the whole run has " + digits(units, 0) + " units for " + its;
  if (each >= now) {
    return few + ", and a unit is a record: fewer workers do as well";
  }
  advise(verdict, finding, change_of(stages.front().name, ".batch", now, each), gain,
         finding.bounds.without_stage(finding.at));
  return few;
}

/// The ring that the stage fills had too few slots, though no stage was at work all the time.
[[gnu::cold]] inline void judge_depth(penstock::Verdict& verdict, const Finding& finding) {
  const StageReport& stage = finding.stage;
  const StageReport& next = finding.report.stages[finding.at + 1];
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
  verdict.evidence = "the " + stage.name + " waits for room in " +
                     per_cent(stage.blocked_s / finding.report.seconds) + " of the run, the " +
                     next.name + " behind it for input in " +
                     per_cent(next.starved_s / finding.report.seconds) +
                     ", and the ring between them has " + digits(depth, 0) + " slots";
  verdict.advice.push_back({change_of(stage.name, ".depth", depth, wanted),
                            std::clamp(gain, 1.0, std::min(wanted / depth, most_promised)),
                            then.name, holders > 2 || finding.bounds.reads() > 0});
}

} // namespace penstock::detail
