// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/measure/limiting_stage.hpp>
#include <penstock/diagnose/detail/cores_rules.hpp>
#include <penstock/diagnose/detail/finding.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>

namespace penstock::detail {

// Why a thread that enqueues work on a device held it back.

/// Returns whether the calls inside the stage's callable are known.
[[gnu::cold]] inline bool calls_known(const Report& report, const StageReport& stage) {
  return report.observed || report.device == "host" || has_calls(stage);
}

/// Adds advice: a change that takes `saved_s` seconds from the thread. What the device takes by
/// itself binds next; if nobody knows that, the gain is "at most". `elsewhere`: others do the work.
[[gnu::cold]] inline void advise_thread(penstock::Verdict& verdict, const Finding& finding,
                                        std::string change, double saved_s, double device_share,
                                        bool elsewhere = false) {
  const double seconds = finding.report.seconds;
  const double left = std::max(finding.stage.calling_s - saved_s, 0.0) / seconds;
  const double cpu_s = elsewhere || finding.stage.calling_s <= 0
                           ? 0
                           : finding.stage.cpu_share * seconds * saved_s / finding.stage.calling_s;
  const bool copies = verdict.cause == Cause::pageable_memory; // they have the bus meanwhile
  Bounds::Bound next =
      finding.bounds.sparing(finding.report, cpu_s, copies ? saved_s : 0).without_stage(finding.at);
  if (device_share > next.share) {
    next = {device_share, "the kernel"};
  }
  Advice& advice = advise(verdict, finding, std::move(change), left > 0 ? 1 / left : 50, next);
  advice.at_most = advice.at_most || device_share < 0 || elsewhere || copies;
}

/// Returns the stage that makes the batches which stage `at` takes; `at` if none does.
[[gnu::cold]] inline std::size_t copier_before(const Report& report, std::size_t at) {
  for (std::size_t i = at; i-- != 0;) {
    if (report.stages[i].kind == StageKind::copy_to_device) {
      return i;
    }
  }
  return at;
}
[[gnu::cold]] inline void advise_batch(penstock::Verdict& verdict, const Finding& finding) {
  constexpr double wanted_bytes = 4 << 20;
  // What a larger batch costs the thread beside a small one: 5.6 us became 6.9 on an H200.
  constexpr double dearer = 1.2;
  const StageReport& copier = finding.report.stages[copier_before(finding.report, finding.at)];
  const double record =
      copier.records != 0 ? static_cast<double>(copier.bytes) / static_cast<double>(copier.records)
                          : 0;
  const auto slot = static_cast<double>(copier.slot_bytes);
  const double known = kernel_share(finding.report);
  const double seconds = finding.report.seconds;
  if (record > 0 && slot > 0 && slot < wanted_bytes) {
    const double more = std::min(wanted_bytes / slot, 8.0);
    advise_thread(verdict, finding,
                  change_of(copier.name, ".batch", std::floor(slot / record + 0.5),
                            std::floor(more * slot / record + 0.5)),
                  finding.stage.calling_s - dearer * seconds / more, known);
  }
  advise_thread(verdict, finding, "ps::replayed: one call for up to 64 batches",
                finding.stage.calling_s - seconds / 8, known);
}

/// The largest part of the thread's time, and what it is.
struct ThreadPart {
  Cause cause;
  double seconds;
};
[[gnu::cold]] inline ThreadPart largest_part(const StageReport& stage) {
  const DeviceCalls& calls = stage.calls;
  const double batches = std::max<double>(static_cast<double>(stage.units), 1);
  const bool pageable = 2 * calls.pageable_copies >= std::max<std::uint64_t>(calls.copies, 1);
  const bool many = static_cast<double>(calls.launches + calls.copies) >= 4 * batches;
  const double enqueueing = calls.launch_s + (pageable ? 0 : calls.copy_s);
  const double host =
      stage.calling_s - calls.launch_s - calls.copy_s - calls.wait_s - calls.allocation_s;
  // What waits for the device after each batch enqueues nothing meanwhile: that comes first.
  if (calls.wait_s >= 0.25 * stage.calling_s &&
      calls.wait_s >= std::max({calls.allocation_s, pageable ? calls.copy_s : 0, host})) {
    return {Cause::waits, calls.wait_s};
  }
  const ThreadPart parts[]{
      {Cause::waits, calls.wait_s},
      {Cause::allocations, calls.allocation_s},
      {Cause::pageable_memory, pageable ? calls.copy_s : 0},
      {many ? Cause::launches : Cause::small_batches, enqueueing},
      {stage.calling_s < short_call_s * batches ? Cause::small_batches : Cause::host_work, host}};
  return *std::max_element(std::begin(parts), std::end(parts),
                           [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
}

[[gnu::cold]] inline std::string calls_text(const StageReport& stage) {
  const DeviceCalls& calls = stage.calls;
  std::string text;
  const auto some = [&](std::uint64_t count, const char* one, const char* many, double seconds) {
    if (count != 0) {
      text += (text.empty() ? "" : ", ") + counted(static_cast<double>(count), one, many) + " (" +
              time_of(seconds) + ')';
    }
  };
  some(calls.launches, "launch", "launches", calls.launch_s);
  some(calls.waits, "wait", "waits", calls.wait_s);
  some(calls.allocations, "allocation", "allocations", calls.allocation_s);
  if (calls.pageable_copies == calls.copies) {
    some(calls.copies, "copy of pageable memory", "copies, all of pageable memory", calls.copy_s);
  } else {
    some(calls.copies, "copy", "copies", calls.copy_s);
  }
  return text;
}

/// The thread that calls the callable was in it nearly all the time.
[[gnu::cold]] inline void judge_thread(penstock::Verdict& verdict, const Finding& finding) {
  const StageReport& stage = finding.stage;
  const Report& report = finding.report;
  const double batches = std::max<double>(static_cast<double>(stage.units), 1);
  const std::string body = stage.kind == StageKind::loop ? "the loop's body" : "its callable";
  verdict.evidence = body + " has its thread for " + per_cent(stage.calling_s / report.seconds) +
                     " of the run, " + time_of(stage.calling_s / batches) + " for a batch of " +
                     bytes_of(static_cast<double>(stage.slot_bytes));
  if (!calls_known(report, stage)) {
    const double cpu = finding.cpu_at_work();
    if (stage.calling_s < short_call_s * batches) {
      verdict.cause = Cause::small_batches;
      advise_batch(verdict, finding);
      return;
    }
    verdict.cause = Cause::waits;
    if (cpu < 0 || cpu >= 0.5) { // who waits for a GPU may spin
      verdict.or_cause = Cause::host_work;
      verdict.trial = "run it with .observe, a ps::GpuObserver: it counts waits, launches, "
                      "allocations and copies in the callable";
    } else {
      verdict.evidence += ", and sleeps for most of that";
    }
    advise_thread(verdict, finding, stage.name + ": leave waits and work out of " + body,
                  stage.calling_s, kernel_share(report));
    return;
  }
  const ThreadPart part = largest_part(stage);
  if (part.cause != Cause::waits && finding.cpu_at_work() >= 0 && finding.cpu_at_work() < 0.8 &&
      processors_in_use(report) >= binding) {
    judge_cores(verdict, finding); // it waits for its turn
    return;
  }
  const std::string calls = calls_text(stage);
  verdict.evidence += calls.empty() ? "" : "; in it: " + calls;
  verdict.cause = part.cause;
  double device = kernel_share(report);
  switch (part.cause) {
  case Cause::waits: {
    // The device works in the waits, if they are few: all of them may be its work.
    const bool few = static_cast<double>(stage.calls.waits) <= 4 * batches;
    const std::size_t copier = copier_before(report, finding.at);
    const bool copies = copier != finding.at && finding.bounds.of(copier).share >= binding;
    const bool held_up =
        finding.ends() && copies && report.stages[copier].blocked_s >= 0.03 * report.seconds;
    if (device < binding && copies && !held_up) {
      // A callable is called before its batch is there: a wait in it waits for the copy too.
      verdict.or_cause = Cause::bus;
      verdict.trial = "take the waits out: if it gets no faster, the bus binds";
    } else if (device < 0 && few && part.seconds >= binding * report.seconds) {
      device = part.seconds / report.seconds;
      verdict.or_cause = Cause::kernel;
      verdict.trial = "take the waits out, or run it with .observe, a ps::GpuObserver: if the "
                      "device is at work all the time, the kernel binds";
    }
    if (device >= binding && verdict.or_cause == Cause::nothing) {
      verdict.cause = Cause::kernel;
      verdict.evidence += "; the device is at work for " + per_cent(device) + " of the run";
    }
    advise_thread(verdict, finding,
                  stage.name + ": no wait in " + body + ": ps::Deferred reads results later",
                  part.seconds, device);
    break;
  }
  case Cause::allocations:
    advise_thread(verdict, finding,
                  stage.name + ": allocate before the run, or take memory from a ps::Scratch",
                  part.seconds, device);
    break;
  case Cause::pageable_memory:
    advise_thread(verdict, finding,
                  stage.name +
                      ": copy from page-locked memory, or send the data through the pipeline",
                  part.seconds, device);
    break;
  case Cause::launches:
    verdict.evidence +=
        "; " + digits(static_cast<double>(stage.calls.launches) / batches, 0) + " launches a batch";
    advise_thread(verdict, finding, stage.name + ": ps::replayed, a graph, or fewer kernels",
                  part.seconds * 0.9, device);
    break;
  case Cause::small_batches:
    advise_batch(verdict, finding);
    break;
  default:
    advise_thread(verdict, finding,
                  "put the work of " + body + " into a Decoder of several .workers", part.seconds,
                  device, true);
  }
}

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
