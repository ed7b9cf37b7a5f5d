// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/measure/branches.hpp>
#include <penstock/detail/measure/limiting_stage.hpp>
#include <penstock/diagnose/cause.hpp>
#include <penstock/diagnose/detail/bounds.hpp>
#include <penstock/diagnose/detail/device_rules.hpp>
#include <penstock/diagnose/detail/finding.hpp>
#include <penstock/diagnose/detail/host_rules.hpp>
#include <penstock/run/report.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <ostream>
#include <string>
#include <vector>

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

namespace penstock {

namespace detail {

/// Returns the seconds in which one unit goes through all stages but the one at hand: a run has
/// such a beginning, and such an end.
[[gnu::cold]] inline double seconds_of_one_unit(const Finding& finding) {
  const auto& stages = finding.report.stages;
  const std::size_t branches = first_branch(stages);
  double seconds = 0;
  double branch = 0; // of one device; the others go on side by side
  double longest = 0;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const StageReport& stage = stages[i];
    const double units = stage.units != 0 ? static_cast<double>(stage.units) : slots_filled(stage);
    branch = i >= branches && stage.kind == StageKind::copy_to_device ? 0 : branch;
    (i < branches ? seconds : branch) +=
        i != finding.at && units > 0 ? worked(stage, finding.report.seconds) / units : 0;
    longest = std::max(longest, branch);
  }
  return seconds + longest;
}
/// Says of which device of a FanOut the stage is. What another one has of the same is left out of
/// the gains: a change is to be made for all.
[[gnu::cold]] inline void name_device(penstock::Verdict& verdict, const Finding& finding) {
  const auto& stages = finding.report.stages;
  const std::size_t first = first_branch(stages);
  const std::size_t devices = copiers(stages, first, stages.size());
  if (verdict.stage.empty() || finding.at < first || devices < 2) {
    return;
  }
  const std::size_t so_far = copiers(stages, first, finding.at + 1);
  verdict.evidence += "; its device is number " + std::to_string(so_far == 0 ? 0 : so_far - 1) +
                      " of " + std::to_string(devices) + ", counted from 0";
  const bool its_own = verdict.cause != Cause::bus && verdict.cause != Cause::cores;
  for (Advice& advice : verdict.advice) {
    advice.change += its_own ? ", for each device" : "";
  }
}

/// Much was lost at the ring that the stage fills.
[[gnu::cold]] inline void judge_ring(penstock::Verdict& verdict, const Finding& finding) {
  // Slots that its own workers lack, or that are in others' hands.
  if (finding.share >= 0.7 && !on_device(finding.stage) &&
      usable_workers(finding.report.stages, finding.at) < 0.95 * finding.stage.workers) {
    judge_host_stage(verdict, finding);
  } else {
    judge_depth(verdict, finding);
  }
}

/// Returns what holds a run back once this advice is followed, in words.
[[gnu::cold]] inline std::string then_text(const Advice& advice) {
  return "then " + advice.next + (advice.next == all_cores ? " are in use" : " binds");
}
/// Leaves out the advice that would gain less than a tenth.
[[gnu::cold]] inline void leave_out_small_gains(penstock::Verdict& verdict) {
  std::vector<Advice>& all = verdict.advice;
  const Advice first = all.empty() ? Advice{} : all.front();
  std::erase_if(all, [](const Advice& one) { return promised(one.gain) <= 1; });
  if (!first.change.empty() && all.empty()) {
    verdict.evidence += "; no change would gain a tenth";
    const bool other = !first.next.empty() && first.next != same_stage;
    verdict.evidence += other ? ", since " + then_text(first) : "";
  }
}

[[gnu::cold]] inline void judge_stage(penstock::Verdict& verdict, const Finding& finding) {
  if (on_device(finding.stage)) {
    judge_device_stage(verdict, finding);
  } else {
    judge_host_stage(verdict, finding);
  }
}

} // namespace detail

/// Says what held a run back, why, how sure that is, what to change, what that gains and what binds
/// next, by operational analysis: docs/verdict.md has the arithmetic. It is a pure function of the
/// Report, of a run that ended, was stopped, failed, or still goes on. Throws nothing but
/// std::bad_alloc.
[[gnu::cold]] inline Verdict judge(const Report& report) {
  Verdict verdict;
  if (report.stages.empty() || !(report.seconds > 0)) {
    verdict.cause = Cause::too_short;
    verdict.evidence = "nothing has run yet";
    return verdict;
  }
  if (detail::has_branches(report.stages)) {
    Report chain = report;
    chain.stages = detail::slowest_chain(report.stages);
    chain.waited_s = chain.stages.back().starved_s;
    for (StageReport& stage : chain.stages) {
      stage.branch.clear();
    }
    return judge(chain);
  }
  const detail::Finding finding{report};
  verdict.stage = finding.stage.name;
  if (finding.share >= detail::binding) {
    detail::judge_stage(verdict, finding);
  } else if (detail::processors_in_use(report) >= detail::binding) {
    detail::judge_cores(verdict, finding);
  } else if (detail::lost_at_ring(report.stages, finding.at, report.seconds) >= detail::much_lost) {
    detail::judge_ring(verdict, finding);
  } else if (detail::seconds_of_one_unit(finding) > 0.2 * report.seconds || report.seconds < 2e-3) {
    verdict.stage.clear();
    verdict.cause = Cause::too_short;
    verdict.evidence = "no stage was at work for more than " + detail::per_cent(finding.share) +
                       " of the run's " + detail::time_of(report.seconds) +
                       ": its beginning and its end are most of it";
  } else if (detail::on_device(finding.stage) && finding.share < detail::least_of_a_device) {
    verdict.stage.clear();
    verdict.cause = Cause::too_short;
    verdict.evidence = "the " + finding.stage.name + " held the others back longest, for " +
                       detail::per_cent(finding.share) + " of the run's " +
                       detail::time_of(report.seconds) + ", and the rest has no single cause";
  } else if (detail::waits_in_turns(report.stages, finding.at, report.seconds)) {
    detail::judge_depth(verdict, finding);
  } else {
    detail::judge_stage(verdict, finding);
  }
  if (verdict.cause != Cause::kernel && !verdict.stage.empty()) {
    detail::advise_copy_once(verdict, finding);
  }
  // A stage that limited only part of the run may have overlapped with the others, and start-up
  // does not shrink: such gains are upper bounds.
  const bool at_ring = verdict.cause == Cause::depth || verdict.cause == Cause::too_few_units;
  if ((finding.share < detail::binding && !at_ring && !finding.short_calls()) ||
      detail::seconds_of_one_unit(finding) > 0.05 * report.seconds) {
    for (Advice& advice : verdict.advice) {
      advice.at_most = true;
    }
  }
  // So does the end of a faster one, for which most workers wait until one has done a long unit.
  for (Advice& advice : verdict.advice) {
    advice.at_most =
        advice.at_most || advice.gain * finding.stage.unit_p99_s > 0.1 * report.seconds;
  }
  const bool in_reach =
      verdict.cause != Cause::kernel && verdict.cause != Cause::bus &&
      (verdict.cause != Cause::disk || verdict.or_cause == Cause::too_few_workers) &&
      verdict.cause != Cause::writer && verdict.cause != Cause::cores;
  for (const Advice& advice : verdict.advice) {
    verdict.worth_it =
        verdict.worth_it || (advice.gain >= 1.1 && (in_reach || advice.change.starts_with("copy")));
  }
  detail::name_device(verdict, finding);
  detail::leave_out_small_gains(verdict);
  return verdict;
}

/// Prints the verdict in a few lines, each ended.
[[gnu::cold]] inline std::ostream& operator<<(std::ostream& os, const Verdict& verdict) {
  const bool by_kernel = verdict.cause == Cause::kernel && verdict.or_cause == Cause::nothing;
  os << (by_kernel && !verdict.worth_it ? "nothing to gain in the pipeline: " : "");
  os << (verdict.stage.empty() ? "" : verdict.stage + ": ") << name_of(verdict.cause);
  if (verdict.or_cause != Cause::nothing) {
    os << ", or " << name_of(verdict.or_cause);
  }
  os << ": " << verdict.evidence << ".\n";
  if (!verdict.trial.empty()) {
    os << "  To tell: " << verdict.trial << ".\n";
  }
  for (const Advice& advice : verdict.advice) {
    os << "  " << advice.change << ": " << (advice.at_most ? "at most " : "")
       << detail::times(advice.gain);
    os << (advice.next.empty() ? "" : "; " + detail::then_text(advice)) << '\n';
  }
  return os;
}

} // namespace penstock
