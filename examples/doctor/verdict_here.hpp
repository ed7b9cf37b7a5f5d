// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "limits.hpp"
#include "memory_budget.hpp"
#include "prospect.hpp"
#include "workload.hpp"

#include <penstock/diagnose/verdict.hpp>
#include <penstock/penstock.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace doctor {

// judge() knows a Report alone. The doctor also knows how long the kernel takes, how fast copies
// are, and whether there is a bus.

inline bool on_host(const penstock::Report& report) {
  return report.device == "host";
}

/// Returns a cause in words that hold on this device.
inline std::string cause_here(penstock::Cause cause, const penstock::Report& report) {
  return cause == penstock::Cause::bus && on_host(report) ? copies_in_memory
                                                          : penstock::name_of(cause);
}

/// How long a batch took in a run, and how long its copy and its kernel take by themselves.
struct BatchTime {
  BatchTime(const penstock::Report& report, const Limits& limits, const Workload& work)
      : kernel_s{work.kernel_s} {
    const auto batches = static_cast<double>(report.stages.back().units);
    const double copying = copying_gb_per_s(limits);
    if (batches > 0 && copying > 0) {
      all_s = report.seconds / batches;
      bytes = static_cast<double>(report.bytes) / batches;
      copy_s = bytes / copying / 1e9;
    }
  }
  /// Returns whether neither the copy nor the kernel is what takes the time.
  bool is_calls() const {
    constexpr double most_of_calls_s = 200e-6;
    constexpr double few_bytes = 64 << 10;
    return (all_s < most_of_calls_s || bytes <= few_bytes) &&
           std::max(copy_s, kernel_s) < all_s / 4;
  }
  bool has_no_kernel() const { return kernel_s < all_s / 4; }

  double all_s = 0;
  double bytes = 0;
  double copy_s = 0;
  double kernel_s;
};

inline std::string microseconds(double seconds) {
  constexpr double least = 1e-8;
  return seconds > 0 && seconds < least ? "less than 0.01 us" : three_digits(seconds * 1e6) + " us";
}

/// Says that something binds.
inline std::string binds(const std::string& what) {
  const bool many =
      what.ends_with(copies_in_memory) || what.ends_with(each_batch) || what.ends_with("launches");
  return what + (what == "all cores" ? " are in use" : many ? " bind" : " binds");
}

/// Says that the calls for a batch take its time, and advises a larger one, if the data are more.
inline void blame_small_batches(penstock::Verdict& verdict, const penstock::Report& report,
                                const Limits& limits, const Workload& work, const BatchTime& time) {
  constexpr std::uint64_t wanted = 4 * mib;
  constexpr double most_promised = 10;
  constexpr double worth_a_change = 1.1; // as for judge()
  verdict.stage = std::max_element(report.stages.begin() + 1, report.stages.end(),
                                   [](const auto& a, const auto& b) { return a.busy_s < b.busy_s; })
                      ->name;
  verdict.cause = penstock::Cause::small_batches;
  verdict.or_cause = penstock::Cause::nothing;
  verdict.trial.clear();
  verdict.advice.clear();
  verdict.evidence = "a batch of " + bytes_in_words(work.batch_bytes) + " takes " +
                     microseconds(time.all_s) + ", of which its copy takes " +
                     microseconds(time.copy_s) + " and its kernel " + microseconds(time.kernel_s) +
                     ": the rest are the calls for it";
  const std::uint64_t larger = std::min(wanted, work.data_bytes);
  if (larger <= work.batch_bytes || !(report.seconds > 0)) {
    return;
  }
  const double times = static_cast<double>(larger) / static_cast<double>(work.batch_bytes);
  Workload next = work;
  next.batch_bytes = static_cast<std::size_t>(larger);
  next.kernel_s *= times;
  const Bound limit = at_most(limits, next, 0);
  const double now = static_cast<double>(report.bytes) / report.seconds / 1e9;
  const double gain = std::min({times, limit.gb_per_s / now, most_promised});
  if (gain >= worth_a_change) {
    verdict.advice.push_back({"AsyncCopier: a .batch of " + bytes_in_words(larger), gain,
                              gain < times ? "the " + limit.what : "the same stage", true});
  }
}

/// Asks judge() what held a run of a Reader, an AsyncCopier and a Consumer back, and puts right
/// what it cannot know: what stands for a kernel takes `kernel_s` and no longer, and the host
/// device has no bus.
inline penstock::Verdict judge_here(const penstock::Report& report, const Limits& limits,
                                    const Workload& work) {
  using penstock::Cause;
  penstock::Verdict verdict = penstock::judge(report);
  const BatchTime time{report, limits, work};
  const bool may_be_calls = verdict.cause == Cause::bus || verdict.cause == Cause::kernel ||
                            verdict.cause == Cause::cores || verdict.cause == Cause::depth;
  if ((may_be_calls && time.is_calls()) ||
      (verdict.cause == Cause::kernel && time.has_no_kernel())) {
    blame_small_batches(verdict, report, limits, work, time);
  }
  if (verdict.or_cause == Cause::kernel && time.has_no_kernel()) {
    verdict.or_cause = Cause::nothing;
    verdict.trial.clear();
  }
  const auto replace = [](std::string& text, std::string_view from, std::string_view to) {
    if (const auto at = text.find(from); at != std::string::npos) {
      text.replace(at, from.size(), to);
    }
  };
  replace(verdict.evidence, "the device works on its batches", "what stands for your kernel runs");
  std::erase_if(verdict.advice, [&](const penstock::Advice& advice) {
    return on_host(report) && advice.change.starts_with("two devices");
  });
  for (penstock::Advice& advice : verdict.advice) {
    if (on_host(report)) {
      replace(advice.change, ", widened on the device", "");
      replace(advice.next, "the bus", std::string{"the "} + copies_in_memory);
    }
    if (work.kernel_s == 0 && advice.next == "the kernel") {
      advice.next = std::string{"the "} + each_batch;
    }
  }
  return verdict;
}

/// Returns a verdict in lines, as penstock prints it.
inline std::string in_lines(const penstock::Verdict& verdict, const penstock::Report& report) {
  using penstock::Cause;
  std::string text;
  if (verdict.cause == Cause::kernel && verdict.or_cause == Cause::nothing && !verdict.worth_it) {
    text += "nothing to gain in the pipeline: ";
  }
  text += (verdict.stage.empty() ? "" : verdict.stage + ": ") + cause_here(verdict.cause, report);
  if (verdict.or_cause != Cause::nothing) {
    text += ", or " + cause_here(verdict.or_cause, report);
  }
  text += ": " + verdict.evidence + '.';
  if (!verdict.trial.empty()) {
    text += "\n  To tell: " + verdict.trial + '.';
  }
  for (const penstock::Advice& advice : verdict.advice) {
    text +=
        "\n  " + advice.change + (advice.at_most ? ": at most x " : ": x ") + tenths(advice.gain);
    if (!advice.next.empty()) {
      text += "; then " + binds(advice.next);
    }
  }
  return text;
}

} // namespace doctor
