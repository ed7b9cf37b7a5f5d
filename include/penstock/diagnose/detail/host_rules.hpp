// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/measure/limiting_stage.hpp>
#include <penstock/diagnose/detail/cores_rules.hpp>
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

// Why a stage on the host held the others back.

/// A stage takes no more.
inline constexpr unsigned most_workers = 1024;

/// Says that more workers would help, and how many.
[[gnu::cold]] inline void advise_workers(penstock::Verdict& verdict, const Finding& finding) {
  constexpr double most_at_once = 4; // more, and other limits may have changed
  constexpr double margin = 1.1;
  const StageReport& stage = finding.stage;
  const Bounds::Bound next = finding.bounds.without_stage(finding.at);
  const double wanted = std::min({1 / std::max(next.share, 0.02), finding.most, most_at_once});
  const double now = std::max(stage.workers, 1U);
  const double workers =
      std::min(std::max(std::ceil(finding.at_work() * wanted * margin - 0.01), now + 1),
               double{most_workers});
  std::string change = change_of(stage.name, ".workers", now, workers);
  // Each of them holds a slot of either ring, and so do the workers beside them.
  const auto& stages = finding.report.stages;
  const auto slots = [&](std::size_t beside) {
    const double held = beside < stages.size() && !on_device(stages[beside])
                            ? std::ceil(wanted * worked(stages[beside], finding.report.seconds) /
                                        finding.report.seconds / workers_a_slot(stages[beside]))
                            : 2;
    return std::ceil(workers / workers_a_slot(stage)) + held + 1;
  };
  change += deeper(finding, finding.at, finding.at, slots(behind(stages, finding.at)));
  if (finding.at != 0) {
    change += deeper(finding, finding.at, finding.at - 1, slots(finding.at - 1));
  }
  Advice& advice = advise(verdict, finding, std::move(change), workers / now, next);
  // Slots are handed on in order: workers side by side wait for the one that has a long unit.
  const double usual_s = worked(stage, finding.report.seconds) /
                         static_cast<double>(std::max<std::uint64_t>(stage.units, 1));
  advice.at_most = advice.at_most || stage.unit_p99_s > 3 * usual_s;
  const double cpu = finding.cpu_at_work();
  if (advice.next == all_cores && cpu > 0) {
    // The promise is half-way between workers that never ask for a processor at once and ones that
    // always do.
    const double turns = std::max(workers * cpu / finding.report.processors, cpu);
    const double at_once = workers / now / (1 - std::min(cpu, 1.0) + turns);
    advice.gain = std::max((advice.gain + std::min(at_once, advice.gain)) / 2, 1.0);
  }
}

/// The Reader's workers are all at work: the disk, or too few of them.
[[gnu::cold]] inline void judge_reader(penstock::Verdict& verdict, const Finding& finding) {
  constexpr double enough_in_flight = 4 << 20; // for a disk of a few GB/s
  const StageReport& stage = finding.stage;
  const Report& report = finding.report;
  const double in_flight = finding.at_work() * static_cast<double>(stage.slot_bytes) /
                           std::max(workers_a_slot(stage), 1.0);
  const bool cold = reads_cold(report);
  const double usable = usable_workers(report.stages, finding.at);
  const bool lacks_units = usable < 0.95 * stage.workers;
  const bool sleeps = finding.cpu_at_work() >= 0 && finding.cpu_at_work() < 0.5;
  const bool enough = in_flight >= enough_in_flight;
  verdict.evidence = at_work_text(finding);
  const auto read =
      rate_of(static_cast<double>(cold ? report.storage_bytes : stage.bytes), report.seconds);
  const Bounds::Bound next = finding.bounds.without_stage(finding.at);
  if (cold) {
    verdict.cause = Cause::disk;
    verdict.evidence +=
        "; cold: storage gave " + read + " to " + bytes_of(in_flight) + " of reads in flight";
    if (!enough) {
      verdict.or_cause = lacks_units ? Cause::too_few_units : Cause::too_few_workers;
    }
  } else if (!sleeps && report.processors != 0 && finding.at_work() >= 0.95 * report.processors) {
    verdict.cause = Cause::disk;
    verdict.evidence +=
        "; warm: the page cache gives " + read + " to as many threads as there are processors";
  } else {
    verdict.cause = Cause::too_few_workers;
    verdict.evidence += !sleeps              ? ", and processors are free"
                        : stage.workers <= 1 ? ", mostly in waits for its data"
                                             : ", mostly in waits for their data";
    if (sleeps && enough) {
      verdict.or_cause = Cause::disk;
    }
  }
  if (verdict.or_cause == Cause::too_few_units) {
    advise_units(verdict, finding, usable);
    if (verdict.advice.empty()) {
      verdict.or_cause = Cause::nothing;
    } else {
      verdict.trial =
          "try " + verdict.advice.front().change + ": if the run gets no faster, the disk binds";
    }
  } else if (verdict.or_cause != Cause::nothing) {
    verdict.trial = "run it with .workers = ";
    verdict.trial += 2 * stage.workers <= most_workers
                         ? digits(2.0 * stage.workers, 0) + ": if it gets no faster"
                         : digits(stage.workers / 2, 0) + ": if it gets no slower";
    verdict.trial += ", what the " + stage.name + " reads from binds";
  }
  for (Advice& advice : verdict.advice) {
    advice.at_most = true;
  }
  if (verdict.cause == Cause::too_few_workers) {
    advise_workers(verdict, finding);
    verdict.advice.back().at_most = verdict.advice.back().at_most || (sleeps && enough);
    return;
  }
  if (verdict.or_cause == Cause::too_few_workers) {
    advise_workers(verdict, finding);
    verdict.advice.back().at_most = true;
  }
  advise(verdict, finding, "half the bytes a record: narrower types, or compression", 2, next);
  advise(verdict, finding,
         cold ? "a disk that is twice as fast, or two" : "memory that is twice as fast", 2, next);
}

/// What hands slots on to several devices was at work nearly all the time: it has one thread.
[[gnu::cold]] inline void judge_fan_out(penstock::Verdict& verdict, const Finding& finding) {
  const auto& stages = finding.report.stages;
  const StageReport& filler = stages[finding.at == 0 ? 0 : finding.at - 1];
  const double slots = std::max(slots_filled(filler), 1.0);
  const double records = std::max(std::ceil(static_cast<double>(filler.records) / slots), 1.0);
  verdict.cause = Cause::small_batches;
  verdict.evidence = "its thread hands slots on for " + per_cent(finding.share) +
                     " of the run, each in " + time_of(finding.report.seconds / slots);
  advise(verdict, finding, change_of(stages.front().name, ".batch", records, 8 * records), 8,
         finding.bounds.without_stage(finding.at));
}

/// A stage on the host was at work nearly all the time.
[[gnu::cold]] inline void judge_host_stage(penstock::Verdict& verdict, const Finding& finding) {
  const StageReport& stage = finding.stage;
  const double usable = usable_workers(finding.report.stages, finding.at);
  if (cores_bind(finding)) {
    judge_cores(verdict, finding);
  } else if (stage.kind == StageKind::fan_out) {
    judge_fan_out(verdict, finding);
  } else if (stage.kind == StageKind::writer) {
    verdict.cause = Cause::writer;
    verdict.evidence = at_work_text(finding) + ", and writes " +
                       rate_of(static_cast<double>(stage.bytes), finding.report.seconds);
    const Bounds::Bound next = finding.bounds.without_stage(finding.at);
    advise(verdict, finding, "half the bytes a record: narrower types, or compression", 2, next);
    advise(verdict, finding, "a disk that is twice as fast, or two", 2, next);
  } else if (stage.kind == StageKind::reader &&
             (reads_cold(finding.report) || usable >= 0.95 * stage.workers)) {
    judge_reader(verdict, finding);
  } else if (usable < 0.95 * stage.workers) {
    verdict.cause = Cause::too_few_units;
    verdict.evidence = advise_units(verdict, finding, usable);
  } else if (stage.kind == StageKind::loop && stage.records == 0) {
    verdict.cause = Cause::host_work;
    verdict.evidence = "the thread that is to have it has asked for no batch";
  } else if (stage.kind == StageKind::loop) {
    verdict.cause = Cause::host_work;
    verdict.evidence = "the loop's body has " + per_cent(finding.share) + " of the run";
    advise(verdict, finding, "put the body's work into a Decoder of several .workers", 8,
           finding.bounds.without_stage(finding.at))
        .at_most = true;
  } else {
    verdict.cause = Cause::too_few_workers;
    verdict.evidence = at_work_text(finding) + ", and processors are free";
    advise_workers(verdict, finding);
    if (stage.kind == StageKind::stager) {
      advise(verdict, finding,
             "leave it out: ps::to_pinned in the stage before it reads or decodes in place", 50,
             finding.bounds.without_stage(finding.at))
          .at_most = true;
    }
  }
  const bool at_work = verdict.cause == Cause::too_few_workers || verdict.cause == Cause::disk;
  verdict.evidence += at_work ? waited_for_text(finding) : "";
}

} // namespace penstock::detail
