// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "advice.hpp"
#include "limits.hpp"
#include "prospect.hpp"
#include "trial.hpp"
#include "workload.hpp"

#include <penstock/penstock.hpp>

#include <algorithm>
#include <iomanip>
#include <optional>
#include <sstream>
#include <string>

namespace doctor {

/// All that 17_doctor has found out.
struct Findings {
  std::string data;   ///< What was measured with, in words.
  std::string device; ///< Its name.
  Limits limits;
  Workload work{};
  double plain_loop = 0;  ///< GB/s, measured.
  penstock::Report first; ///< Of the pipeline with all defaults.
  Diagnosis diagnosis;    ///< Of that.
  std::optional<Settings> tried;
  std::optional<penstock::Report> second; ///< With the settings that were tried.
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

/// Returns a number with three digits that count, or all of its whole ones.
inline std::string three_digits(double number) {
  std::ostringstream text;
  if (number >= 0.1) {
    text << std::fixed << std::setprecision(number >= 100 ? 0 : number >= 10 ? 1 : 2);
  } else {
    text << std::setprecision(3);
  }
  text << number;
  return text.str();
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

/// Says in a sentence or two whether a pipeline is worth it.
inline std::string worth(const Findings& found) {
  const double pipeline = second_is_better(found) ? gb_per_s(*found.second) : gb_per_s(found.first);
  const double times = pipeline / found.plain_loop;
  const std::string rates =
      "a pipeline reaches " + three_digits(pipeline) +
      " GB/s, and a loop that reads, copies and computes one after the other " +
      three_digits(found.plain_loop) + " GB/s";
  if (times >= 1.1) {
    return "A pipeline is worth it: " + rates + ", so it is " + three_digits(times) +
           " times as fast.";
  }
  const double kernel = found.work.kernel_s > 0 ? static_cast<double>(found.work.batch_bytes) /
                                                      found.work.kernel_s / 1e9
                                                : 0;
  if (kernel > 0 && found.plain_loop > 0.85 * kernel) {
    return "A pipeline is hardly worth it: " + rates +
           ". The kernel takes nearly all of the time in both.";
  }
  return "A pipeline is not worth it here: " + rates + '.';
}

} // namespace doctor
