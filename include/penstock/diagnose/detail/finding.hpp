// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/measure/limiting_stage.hpp>
#include <penstock/diagnose/cause.hpp>
#include <penstock/diagnose/detail/bounds.hpp>
#include <penstock/diagnose/detail/words.hpp>
#include <penstock/run/report.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace penstock::detail {

// Figures as a person reads them.

/// Returns the number with as many digits behind the point.
inline std::string per_cent(double share) {
  return digits(100 * share, 0) + " %";
}
/// Rounds a gain down to a tenth: a promise.
inline double promised(double gain) {
  return std::floor(gain * 10 + 0.01) / 10;
}
inline std::string times(double gain) {
  return "x " + digits(promised(gain), 1);
}
[[gnu::cold]] inline std::string time_of(double seconds) {
  return seconds < 1e-3 ? digits(seconds * 1e6, 1) + " us"
         : seconds < 1  ? digits(seconds * 1e3, 1) + " ms"
                        : digits(seconds, 1) + " s";
}
[[gnu::cold]] inline std::string bytes_of(double bytes) {
  return bytes < 1 << 10   ? digits(bytes, 0) + (bytes > 0.5 && bytes < 1.5 ? " byte" : " bytes")
         : bytes < 1 << 20 ? digits(bytes / (1 << 10), 0) + " KiB"
                           : digits(bytes / (1 << 20), 0) + " MiB";
}
inline std::string rate_of(double bytes, double seconds) {
  return digits(seconds > 0 ? bytes / seconds / 1e9 : 0, 2) + " GB/s";
}
/// "Decoder: .workers 4 -> 9"
[[gnu::cold]] inline std::string change_of(const std::string& stage, const char* option,
                                           double from, double to) {
  return stage + ": " + option + ' ' + digits(from, 0) + " -> " + digits(to, 0);
}

/// Less than this a batch, and what each call costs is most of it.
inline constexpr double short_call_s = 15e-6;

/// What the rules look at: a Report, and the stage that held the others back in it.
struct Finding {
  [[gnu::cold]] explicit Finding(const Report& of)
      : report{of}, at{limiting_stage(of.stages, of.seconds, of.waited_s)}, stage{of.stages[at]},
        bounds{of}, share{bounds.of(at).share},
        // The rest of the run does not get shorter.
        most{share < binding && !short_calls() &&
                     lost_at_ring(of.stages, at, of.seconds) < much_lost
                 ? 1 / std::max(1 - held_back() / of.seconds, 0.02)
                 : 50.0} {}

  /// Returns whether its thread does nothing but short calls, penstock's own among them, which no
  /// time at work has.
  bool short_calls() const {
    return stage.calling_s >= 0.25 * report.seconds &&
           report.seconds < short_call_s * static_cast<double>(stage.units);
  }
  /// Returns how many of the stage's workers were at work, on average.
  double at_work() const { return worked(stage, report.seconds) / report.seconds; }
  /// Returns whether it is the last stage that records come to.
  bool ends() const { return is_end(report.stages, at); }
  /// Returns the processors that one of its workers at work keeps busy; below 0 if it is not known.
  double cpu_at_work() const {
    return stage.cpu_share > 0 && at_work() > 0 ? stage.cpu_share / at_work() : -1;
  }
  /// Returns the seconds in which it was at work while the last stage waited for input.
  double held_back() const {
    return ends() ? share * report.seconds
                  : std::min(stage.busy_in_waits_s * std::max(stage.workers, 1U) /
                                 usable_workers(report.stages, at),
                             report.waited_s);
  }

  const Report& report;
  const std::size_t at;
  const StageReport& stage;
  const Bounds bounds;
  const double share; ///< Which share of the run its usable workers were at work.
  const double most;  ///< The gain if it took no time at all and nothing else bound.
};

/// The largest gain that is promised: by then other things have changed too.
inline constexpr double most_promised = 10;

/// Adds advice: a change that speeds its part up by `factor`, whatever else binds.
[[gnu::cold]] inline Advice& advise(penstock::Verdict& verdict, const Finding& finding,
                                    std::string change, double factor, const Bounds::Bound& next) {
  const double limit = next.share > 0 ? 1 / next.share : most_promised;
  const double gain = std::max(std::min({factor, limit, finding.most, most_promised}), 1.0);
  const bool itself = factor < limit && factor < finding.most;
  verdict.advice.push_back(
      {std::move(change), gain, itself ? same_stage : next.name,
       finding.bounds.unsure() || (finding.at != 0 && gain * finding.bounds.reads() > 1)});
  return verdict.advice.back();
}

/// The usual sentence: how much of the run the stage's workers were at work.
[[gnu::cold]] inline std::string at_work_text(const Finding& finding) {
  const StageReport& stage = finding.stage;
  if (stage.workers <= 1) {
    return "it is at work for " + per_cent(finding.share) + " of the run";
  }
  return "of its " + digits(stage.workers, 0) + " workers " + digits(finding.at_work(), 1) +
         " are at work on average";
}
/// What names a stage that was not at work all the time: how long the last one waited for it.
[[gnu::cold]] inline std::string waited_for_text(const Finding& finding) {
  return finding.share < binding && !finding.ends()
             ? "; the last stage waits for it for " +
                   per_cent(finding.held_back() / finding.report.seconds) + " of the run"
             : "";
}

} // namespace penstock::detail
