// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What `17_doctor --run` prints of a program: what the library tells, and the doctor's findings.

#include "watch_figures.hpp"
#include "watch_findings.hpp"

#include <penstock/diagnose/gpu_watch_summary.hpp>
#include <penstock/diagnose/watch_text.hpp>
#include <penstock/run/json.hpp>

#include <algorithm>
#include <cstddef>
#include <ostream>
#include <string>
#include <vector>

namespace doctor {

/// What is said where no rule finds a cause: the GPU may be idle all the same, as while a program
/// gets its data once.
inline std::string nothing_found(const WatchSummary& is) {
  const double copies = is.seconds > 0 ? is.gpu.copy_s / is.seconds : 0;
  const std::string ran = "kernels ran in " + percent(is.gpu.kernel_share()) +
                          " of it, copies in " + percent(copies) + ".\n";
  if (is.seconds <= 0 || is.gpu.idle_share() < 0.1) {
    return "Nothing costs a tenth of the time: " + ran;
  }
  const double calls = is.gpu.seconds - is.gpu.busy_s - is.idle.elsewhere_s - is.idle.setup_s;
  const std::string setup = is.idle.setup_s > 0 ? "; CUDA's set-up before the first kernel took " +
                                                      percent(is.idle.setup_s / is.seconds)
                                                : "";
  return "No rule tells why: while the GPU was idle, no thread was in a call of CUDA for " +
         percent(is.idle.elsewhere_s / is.seconds) + " of the time (" +
         counted(is.idle.gaps, "time") + "), and threads called CUDA for " +
         percent(std::max(calls, 0.0) / is.seconds) + " of it" + setup + "; " + ran;
}

/// Prints what was asked of the GPU, and each finding with its cost, its evidence and the page that
/// has the cure.
inline void print(std::ostream& os, const WatchSummary& summary) {
  std::string text = penstock::detail::headline(summary) + '\n';
  const std::vector<WatchFinding> found = findings(summary);
  const bool blamed = !found.empty() && !found.front().hint;
  if (!blamed && summary.gpu.kernels != 0) {
    text += nothing_found(summary);
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    const WatchFinding& one = found[i];
    text += (one.hint ? "A hint" : std::to_string(i + 1)) + (one.hint ? ": " : ". ") + one.cause;
    if (one.cost_s > 0) {
      text +=
          ", up to " + figure_ms(one.cost_s) + " (" + percent(one.cost_s / summary.seconds) + ")";
    }
    text += ": " + one.evidence + ".\n   Cure: docs/blocking_events/" + one.page + ".md\n";
    if (!one.or_cause.empty()) {
      text += "   Or: " + one.or_cause +
              (one.or_page.empty() ? ".\n" : ": docs/blocking_events/" + one.or_page + ".md\n");
    }
  }
  os << text + penstock::detail::later_lines(summary);
}

/// Returns what to_json() does, with the member `findings` behind the first one.
inline penstock::Json json_with_findings(const WatchSummary& summary) {
  using penstock::Json;
  std::vector<Json> found;
  for (const WatchFinding& one : findings(summary)) {
    found.push_back(Json::object({{"cause", one.cause},
                                  {"page", one.page},
                                  {"or_cause", one.or_cause},
                                  {"or_page", one.or_page},
                                  {"evidence", one.evidence},
                                  {"cost_s", one.cost_s},
                                  {"hint", one.hint}}));
  }
  std::vector<Json::Member> members = penstock::detail::watch_members(summary);
  members.insert(members.begin() + 1, {"findings", Json::array(found)});
  return Json::object(members);
}

} // namespace doctor
