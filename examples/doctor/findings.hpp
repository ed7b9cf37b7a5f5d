// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "advice.hpp"
#include "limits.hpp"
#include "memory_budget.hpp"
#include "prospect.hpp"
#include "trial.hpp"
#include "workload.hpp"

#include <penstock/penstock.hpp>

#include <algorithm>
#include <optional>
#include <string>

namespace doctor {

/// What was reached on the first pass over the data, from the disk, in GB/s.
struct FirstPass {
  double pipeline;
  double plain_loop;
};

/// All that 17_doctor has found out.
struct Findings {
  std::string data;         ///< What was measured with, in words.
  bool small_files = false; ///< Each of which is a record.
  std::string device;       ///< Its name.
  Limits limits;
  Workload work{};
  double plain_loop = 0;  ///< GB/s, measured.
  penstock::Report first; ///< Of the pipeline with all defaults.
  Diagnosis diagnosis;    ///< Of that.
  std::optional<Settings> tried;
  std::optional<penstock::Report> second; ///< With the settings that were tried.
  /// None if every pass is from the disk, or none is, or if that cannot be measured.
  std::optional<FirstPass> first_pass;
};

inline double gb_per_s(const penstock::Report& report) {
  return report.seconds > 0 ? static_cast<double>(report.bytes) / report.seconds / 1e9 : 0;
}

/// Returns whether what was tried was faster by more than two runs differ by chance.
inline bool second_is_better(const Findings& found) {
  return found.second && gb_per_s(*found.second) > 1.05 * gb_per_s(found.first);
}

/// Returns the settings to take, with their numbers.
inline Settings best_settings(const Findings& found) {
  return second_is_better(found) ? settings_of(*found.second, found.work, *found.tried)
                                 : settings_of(found.first, found.work, {});
}

/// Says settings in words, as far as they differ from the defaults.
inline std::string in_words(const Settings& settings) {
  std::string text;
  const auto add = [&text](const std::string& words) {
    text += (text.empty() ? "" : ", ") + words;
  };
  if (settings.workers != 0) {
    add(".workers = " + std::to_string(settings.workers));
  }
  if (settings.depth != 0) {
    add(".depth = " + std::to_string(settings.depth));
  }
  if (settings.replayed) {
    add("ps::replayed");
  }
  return text;
}

/// Returns the GB/s of the pipeline with the settings to take.
inline double best_gb_per_s(const Findings& found) {
  return second_is_better(found) ? gb_per_s(*found.second) : gb_per_s(found.first);
}

/// Returns the most that a pipeline can reach on each pass but the first, and what binds it then.
inline Bound at_most(const Findings& found) {
  return at_most(found.limits, found.work, best_gb_per_s(found));
}

/// Returns the same of the first pass, which is from the disk; nothing if the disk could not be
/// measured, as of data in memory.
inline std::optional<Bound> at_most_first(const Findings& found) {
  Workload first = found.work;
  first.from_disk = true;
  if (!(reading_gb_per_s(found.limits, first, false) > 0)) {
    return {};
  }
  const double measured = found.work.from_disk ? best_gb_per_s(found)
                          : found.first_pass   ? found.first_pass->pipeline
                                               : 0;
  return at_most(found.limits, first, measured);
}

/// How much faster a pipeline has to be.
inline constexpr double worth_times = 1.1;

inline bool is_worth_it_first(const Findings& found) {
  return !found.work.is_one_batch() && found.first_pass &&
         found.first_pass->pipeline >= worth_times * found.first_pass->plain_loop;
}
inline bool is_worth_it_later(const Findings& found) {
  return !found.work.is_one_batch() && best_gb_per_s(found) >= worth_times * found.plain_loop;
}
/// Returns whether a pipeline is worth it, on the first pass or on each other one.
inline bool is_worth_it(const Findings& found) {
  return is_worth_it_first(found) || is_worth_it_later(found);
}

/// Says in some sentences whether a pipeline is worth it.
inline std::string worth(const Findings& found) {
  const auto rates = [](double pipeline, double plain_loop) {
    return "a pipeline reaches " + three_digits(pipeline) +
           " GB/s, and a loop that reads, copies and computes one after the other " +
           three_digits(plain_loop) + " GB/s";
  };
  const auto faster = [](double pipeline, double plain_loop) {
    return ": it is " + three_digits(pipeline / plain_loop) + " times as fast.";
  };
  const double pipeline = best_gb_per_s(found);
  const std::string later = rates(pipeline, found.plain_loop);
  if (found.work.is_one_batch()) {
    return "A pipeline is not worth it for one pass over these data: they are a single batch, and "
           "nothing can overlap. If they are read again and again, " +
           later + '.' +
           (found.work.data_bytes >= mib ? " A smaller --batch makes several of them." : "");
  }
  std::string text;
  const bool later_too = is_worth_it_later(found);
  if (found.first_pass) {
    const auto [first, loop] = *found.first_pass;
    const bool first_too = is_worth_it_first(found);
    text = std::string{first_too ? "A pipeline is worth it" : "A pipeline is not worth it"} +
           " on the first pass, from the disk: " + rates(first, loop) +
           (first_too ? faster(first, loop) : ".") + '\n';
  }
  const std::string when = found.first_pass       ? " on later passes, from the page cache"
                           : found.work.from_disk ? ", on each pass from the disk"
                                                  : "";
  if (later_too) {
    return text + "A pipeline is worth it" + when + ": " + later +
           faster(pipeline, found.plain_loop);
  }
  const double kernel = found.work.kernel_s > 0 ? static_cast<double>(found.work.batch_bytes) /
                                                      found.work.kernel_s / 1e9
                                                : 0;
  if (kernel > 0 && found.plain_loop > 0.85 * kernel) {
    return text + "A pipeline is hardly worth it" + when + ": " + later +
           ". The kernel takes nearly all of the time in both.";
  }
  return text + "A pipeline is not worth it" + when + ": " + later + '.';
}

} // namespace doctor
