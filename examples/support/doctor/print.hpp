// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "findings.hpp"

#include <penstock/json.hpp>
#include <penstock/penstock.hpp>

#include <iomanip>
#include <ostream>
#include <string>
#include <vector>

namespace doctor {

inline void print_rate(std::ostream& os, const std::string& what, double value,
                       const std::string& unit) {
  os << "  " << std::left << std::setw(40) << what << std::right << std::setw(10)
     << three_digits(value) << ' ' << unit << '\n';
}

/// Prints what was found, to be read.
inline void print_text(std::ostream& os, const Findings& found) {
  os << "Measured with " << found.data << ", on " << found.device << " and "
     << penstock::usable_processors() << " processors.\n\nWhat this machine allows:\n";
  for (const Limits::Figure& figure : found.limits.figures()) {
    const Named named = without_unit(figure.name);
    print_rate(os, named.name, figure.value, named.unit);
  }
  for (const Limits::Missing& missing : found.limits.what_is_missing()) {
    os << "  not measured: " << missing.what << ": " << missing.why << '\n';
  }

  os << "\nWhat a pipeline can reach with batches of " << found.work.batch_bytes
     << " bytes and kernels of " << found.work.kernel_s * 1e3 << " ms, read from the "
     << (found.work.from_disk ? "disk" : "page cache") << ":\n";
  for (const Bound& bound : bounds(found.limits, found.work)) {
    print_rate(os, "limit: " + bound.what, bound.gb_per_s, "GB/s");
  }
  Workload cold = found.work;
  cold.from_disk = true;
  if (const double disk = reading_gb_per_s(found.limits, cold, false);
      disk > 0 && !found.work.from_disk) {
    print_rate(os, "limit: disk, for what is not cached yet", disk, "GB/s");
  }
  print_rate(os, "the pipeline, with defaults", gb_per_s(found.first), "GB/s");
  if (found.second) {
    print_rate(os, "the pipeline, with " + in_words(*found.tried), gb_per_s(*found.second), "GB/s");
  }
  print_rate(os, "a loop without it, as the limits say",
             plain_loop_gb_per_s(found.limits, found.work), "GB/s");
  print_rate(os, "a loop without it, measured", found.plain_loop, "GB/s");

  os << "\nThe pipeline's Report, with defaults:\n" << found.first;
  os << "\nVerdict: " << found.diagnosis.verdict << '\n';
  os << worth(found) << '\n';

  const Settings best = best_settings(found);
  os << "\nSettings to take" << (second_is_better(found) ? "" : ", which are the defaults")
     << ":\n  Reader: .workers = " << best.workers << ", .depth = " << best.depth
     << "\n  AsyncCopier: .batch = as many records as make " << best.batch_bytes << " bytes\n"
     << (best.replayed ? "  Consumer: ps::replayed\n" : "");
}

/// Prints what was found as one JSON object.
inline void print_json(std::ostream& os, const Findings& found) {
  using penstock::Json;
  std::vector<Json::Member> limits;
  for (const Limits::Figure& figure : found.limits.figures()) {
    limits.emplace_back(figure.name, figure.value);
  }
  limits.emplace_back("plain_loop_computed_gb_per_s",
                      plain_loop_gb_per_s(found.limits, found.work));
  limits.emplace_back("plain_loop_gb_per_s", found.plain_loop);
  limits.emplace_back("pipeline_with_defaults_gb_per_s", gb_per_s(found.first));
  if (found.second) {
    limits.emplace_back("pipeline_with_what_was_tried_gb_per_s", gb_per_s(*found.second));
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
                      {"verdict", verdict},
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
