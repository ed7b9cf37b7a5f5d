// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "findings.hpp"
#include "limits.hpp"
#include "prospect.hpp"
#include "verdict_here.hpp"
#include "workload.hpp"

#include <penstock/penstock.hpp>
#include <penstock/run/json.hpp>

#include <iomanip>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

namespace doctor {

inline void print_rate(std::ostream& os, const std::string& what, double value,
                       const std::string& unit) {
  os << "  " << std::left << std::setw(40) << what << std::right << std::setw(10)
     << three_digits(value) << ' ' << unit << '\n';
}

inline void print_at_most(std::ostream& os, const Bound& bound) {
  print_rate(os, "a pipeline, at most", bound.gb_per_s, "GB/s (" + bound.what + ')');
}

/// Prints what a pipeline and a loop reach on the passes over the data.
inline void print_passes(std::ostream& os, const Findings& found) {
  const std::optional<Bound> first = at_most_first(found);
  if (first && !found.work.from_disk) {
    os << "The first pass, from the disk:\n";
    print_at_most(os, *first);
    if (found.first_pass) {
      print_rate(os, "a pipeline, with defaults, measured", found.first_pass->pipeline, "GB/s");
      print_rate(os, "a loop without it, measured", found.first_pass->plain_loop, "GB/s");
    }
  }
  os << (found.work.from_disk ? "Each pass, from the disk, since the data do not fit into memory"
         : first              ? "Later passes, from the page cache"
                              : "Each pass, from the page cache")
     << ":\n";
  print_at_most(os, at_most(found));
  print_rate(os, "a pipeline, with defaults, measured", gb_per_s(found.first), "GB/s");
  if (found.second) {
    print_rate(os, "with " + in_words(*found.tried) + ", measured", gb_per_s(*found.second),
               "GB/s");
  }
  if (const double loop = plain_loop_gb_per_s(found.limits, found.work); loop > 0) {
    print_rate(os, "a loop without it, as the limits say", loop, "GB/s");
  }
  print_rate(os, "a loop without it, measured", found.plain_loop, "GB/s");
}

/// Prints what was found, to be read.
inline void print_text(std::ostream& os, const Findings& found) {
  const unsigned processors = penstock::usable_processors();
  os << "Measured with " << found.data << ", by " << processors
     << (processors == 1 ? " processor and " : " processors and ")
     << (on_host(found.first) ? "no GPU" : found.device) << ".\n\nWhat this machine allows:\n";
  for (const Limits::Figure& figure : found.limits.figures()) {
    const Named named = without_unit(figure.name);
    print_rate(os, named.name, figure.value, named.unit);
  }
  for (const Limits::Missing& missing : found.limits.what_is_missing()) {
    os << "  not measured: " << missing.what << ": " << missing.why << '\n';
  }

  const bool cut = found.work.batch_bytes < found.work.asked_bytes;
  os << "\nWhat a pipeline can reach with batches of " << bytes_in_words(found.work.batch_bytes)
     << (found.work.is_one_batch() ? ", which are all the data,"
         : cut ? " (" + bytes_in_words(found.work.asked_bytes) + " are too many to measure with)"
               : std::string{})
     << " and kernels of " << found.work.kernel_s * 1e3 << " ms:\n";
  for (const Bound& bound : bounds(found.limits, found.work, true)) {
    print_rate(os, "limit: " + bound.what, bound.gb_per_s, "GB/s");
  }
  print_passes(os, found);

  os << "\nThe pipeline's Report, with defaults (each record is a "
     << (found.small_files ? "file" : "byte") << "):\n"
     << found.first;
  os << "\nVerdict: " << found.diagnosis.verdict << '\n';
  os << worth(found) << '\n';

  const Settings best = best_settings(found);
  os << "\nSettings to take" << (second_is_better(found) ? "" : ", which are the defaults")
     << ":\n  Reader: .workers = " << best.workers << ", .depth = " << best.depth
     << "\n  AsyncCopier: .batch = as many records as make " << bytes_in_words(best.batch_bytes)
     << '\n'
     << (best.replayed ? "  Consumer: ps::replayed\n" : "");
}

/// Returns the most that a pipeline can reach, and what binds then, by passes.
inline penstock::Json at_most_as_json(const Findings& found) {
  const Bound later = at_most(found);
  const Bound first = at_most_first(found).value_or(later);
  return penstock::Json::object({{"first_pass_gb_per_s", first.gb_per_s},
                                 {"first_pass_limit", first.what},
                                 {"later_passes_gb_per_s", later.gb_per_s},
                                 {"later_passes_limit", later.what}});
}

/// Prints what was found as one JSON object.
inline void print_json(std::ostream& os, const Findings& found) {
  using penstock::Json;
  std::vector<Json::Member> limits;
  for (const Limits::Figure& figure : found.limits.figures()) {
    limits.emplace_back(figure.name, figure.value);
  }
  if (const double loop = plain_loop_gb_per_s(found.limits, found.work); loop > 0) {
    limits.emplace_back("plain_loop_computed_gb_per_s", loop);
  }
  limits.emplace_back("plain_loop_gb_per_s", found.plain_loop);
  limits.emplace_back("pipeline_with_defaults_gb_per_s", gb_per_s(found.first));
  if (found.second) {
    limits.emplace_back("pipeline_with_what_was_tried_gb_per_s", gb_per_s(*found.second));
  }
  if (found.first_pass) {
    limits.emplace_back("first_pass_plain_loop_gb_per_s", found.first_pass->plain_loop);
    limits.emplace_back("first_pass_pipeline_gb_per_s", found.first_pass->pipeline);
  }
  std::string verdict = found.diagnosis.verdict + '\n' + worth(found);
  for (const Limits::Missing& missing : found.limits.what_is_missing()) {
    verdict += "\nNot measured: " + missing.what + ": " + missing.why + '.';
  }
  std::vector<Json> advice;
  for (const Diagnosis::Change& change : found.diagnosis.advice) {
    advice.push_back(
        Json::object({{"change", change.change}, {"gain", change.gain}, {"next", change.next}}));
  }
  const Settings best = best_settings(found);
  os << Json::object({{"limits", Json::object(limits)},
                      {"at_most", at_most_as_json(found)},
                      {"verdict", verdict},
                      {"worth_it", is_worth_it(found)},
                      {"stage", found.diagnosis.stage},
                      {"cause", found.diagnosis.cause},
                      {"advice", Json::array(advice)},
                      {"settings", Json::object({{"reader_workers", best.workers},
                                                 {"reader_depth", best.depth},
                                                 {"batch_bytes", best.batch_bytes},
                                                 {"replayed", best.replayed}})}})
            .text()
     << '\n';
}

} // namespace doctor
