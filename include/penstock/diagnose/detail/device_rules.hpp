// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/measure/branches.hpp>
#include <penstock/diagnose/detail/thread_rules.hpp>

#include <algorithm>
#include <cstddef>
#include <string>

namespace penstock::detail {

// Why a stage on the device held the others back.

/// Adds "copy it once" if the data fit into the device's memory and go there more than once.
[[gnu::cold]] inline void advise_copy_once(penstock::Verdict& verdict, const Finding& finding) {
  const Report& report = finding.report;
  std::size_t copier = 0;
  while (copier != report.stages.size() &&
         report.stages[copier].kind != StageKind::copy_to_device) {
    ++copier;
  }
  if (report.epochs <= 1 || report.device_memory == 0 || copier + 1 >= report.stages.size() ||
      (finding.at > copier && !do_the_same(report.stages, copier, finding.at))) {
    return;
  }
  const auto epochs = static_cast<double>(report.epochs);
  const double epoch = static_cast<double>(report.stages[copier].bytes) / epochs;
  const double room =
      0.8 * static_cast<double>(report.device_memory) - static_cast<double>(report.device_bytes);
  if (epoch <= 0 || epoch > room) {
    return;
  }
  Bounds::Bound next{0, "the first epoch"};
  for (std::size_t i = copier + 1; i < report.stages.size(); ++i) {
    const bool larger = finding.bounds.of(i).share > next.share;
    next = larger && !do_the_same(report.stages, copier, i) ? finding.bounds.of(i) : next;
  }
  const double gain = std::min(1 / (1 / epochs + (1 - 1 / epochs) * next.share), most_promised);
  if (gain >= 1.2) {
    verdict.advice.push_back({"copy it once: an epoch's " + bytes_of(epoch) +
                                  " fit on the device, if all epochs have the same data",
                              gain, next.share > 1 / epochs ? next.name : "the first epoch",
                              false});
  }
}

[[gnu::cold]] inline void judge_bus(penstock::Verdict& verdict, const Finding& finding) {
  const Bounds::Bound next = finding.bounds.without_stage(finding.at);
  verdict.cause = Cause::bus;
  verdict.evidence = "copies run for " + per_cent(finding.share) + " of the run, at " +
                     rate_of(static_cast<double>(finding.stage.bytes), finding.report.seconds);
  const auto& stages = finding.report.stages;
  std::size_t end = finding.at;
  while (!is_end(stages, end)) {
    ++end;
  }
  const StageReport& last = stages[end];
  if (finding.stage.kind == StageKind::copy_to_device &&
      waits_for_copies(stages, end, finding.report.seconds)) {
    verdict.evidence += "; the " + last.name +
                        (has_calls(last) ? " waits for them meanwhile" : " holds up none of them");
    if (!calls_known(finding.report, last)) {
      verdict.or_cause = Cause::pageable_memory;
      verdict.trial = "run it with .observe, a ps::GpuObserver: if the callable copies pageable "
                      "memory, that takes the bus";
    }
  }
  advise(verdict, finding, "half the bytes a record: narrower types, widened on the device", 2,
         next);
  if (finding.at < first_branch(stages)) {
    advise(verdict, finding, "two devices, each with a link of its own", 2, next);
  }
}

[[gnu::cold]] inline void judge_kernel(penstock::Verdict& verdict, const Finding& finding) {
  const double known = kernel_share(finding.report);
  verdict.cause = Cause::kernel;
  verdict.evidence = "the device works on its batches for " +
                     (known >= 0 ? per_cent(known) + " of the run, as CUPTI tells"
                                 : "at most " + per_cent(finding.share) + " of the run");
  Advice& advice = advise(verdict, finding, "a kernel that takes half the time", 2,
                          finding.bounds.without_device(finding.at));
  // Copies that the callable enqueues stay as long as they are.
  advice.at_most = advice.at_most || finding.stage.calls.copies != 0;
}

/// A stage on the device was at work nearly all the time.
[[gnu::cold]] inline void judge_device_stage(penstock::Verdict& verdict, const Finding& finding) {
  const StageReport& stage = finding.stage;
  const Report& report = finding.report;
  if (stage.kind == StageKind::copy_to_device || stage.kind == StageKind::copy_to_host) {
    judge_bus(verdict, finding);
    return;
  }
  const double known = kernel_share(report);
  const double all = worked(stage, report.seconds);
  const double batch_s = stage.units != 0 ? report.seconds / static_cast<double>(stage.units) : 1;
  if (known >= binding || (known < 0 && device_has_backlog(stage, report.seconds))) {
    judge_kernel(verdict, finding);
  } else if (stage.calling_s >= binding * all ||
             (known >= 0 && known < 0.75 && stage.calling_s >= 0.5 * all)) {
    judge_thread(verdict, finding);
  } else if (finding.short_calls()) {
    // penstock's own calls around the callable are the rest.
    verdict.cause = Cause::small_batches;
    verdict.evidence = "a batch of " + bytes_of(static_cast<double>(stage.slot_bytes)) + " takes " +
                       time_of(batch_s) + ", not much more than the calls for it";
    if (known < 0) {
      verdict.or_cause = Cause::kernel;
      verdict.trial = "run it with twice the AsyncCopier's .batch: if it gets no faster, the "
                      "kernel binds";
    }
    advise_batch(verdict, finding);
  } else {
    judge_kernel(verdict, finding);
  }
}

} // namespace penstock::detail
