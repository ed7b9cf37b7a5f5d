// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/diagnose/verdict.hpp>
#include <penstock/run/json.hpp>

#include <sstream>
#include <string>
#include <vector>

namespace penstock {

/// Returns a Verdict as a JSON object: its text as `verdict`, and its members by their names.
/// Causes are in words; `or` is null if there is no second one. Throws nothing but std::bad_alloc.
[[gnu::cold]] inline Json to_json(const Verdict& verdict) {
  std::vector<Json> advice;
  for (const Advice& one : verdict.advice) {
    advice.push_back(Json::object({{"change", one.change},
                                   {"gain", one.gain},
                                   {"at_most", one.at_most},
                                   {"next", one.next}}));
  }
  std::ostringstream text;
  text << verdict;
  const bool two = verdict.or_cause != Cause::nothing;
  return Json::object({{"verdict", text.str()},
                       {"stage", verdict.stage},
                       {"cause", name_of(verdict.cause)},
                       {"or", two ? Json{name_of(verdict.or_cause)} : Json{nullptr}},
                       {"evidence", verdict.evidence},
                       {"trial", verdict.trial},
                       {"worth_it", verdict.worth_it},
                       {"advice", Json::array(advice)}});
}

} // namespace penstock
