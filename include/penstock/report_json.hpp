// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/json.hpp>
#include <penstock/report.hpp>
#include <penstock/sources/source.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace penstock {

/// Returns a Report as a JSON object: each member of Report, StageReport and SkippedItem by its
/// name. The position is its text, or null if there is none; `records_in_all` is null if it is
/// not known. `records_per_s` and `bytes_per_s` are added, to the stages too. Throws nothing but
/// std::bad_alloc.
[[gnu::cold]] inline Json to_json(const Report& report) {
  const auto a_second = [&](std::uint64_t count) {
    return report.seconds > 0 ? static_cast<double>(count) / report.seconds : 0.0;
  };
  std::vector<Json> stages;
  for (const StageReport& stage : report.stages) {
    stages.push_back(Json::object({{"name", stage.name},
                                   {"workers", stage.workers},
                                   {"records", stage.records},
                                   {"bytes", stage.bytes},
                                   {"records_per_s", a_second(stage.records)},
                                   {"bytes_per_s", a_second(stage.bytes)},
                                   {"busy_s", stage.busy_s},
                                   {"starved_s", stage.starved_s},
                                   {"blocked_s", stage.blocked_s},
                                   {"unit_p50_s", stage.unit_p50_s},
                                   {"unit_p99_s", stage.unit_p99_s},
                                   {"busy_now", stage.busy_now},
                                   {"starved_now", stage.starved_now},
                                   {"blocked_now", stage.blocked_now},
                                   {"cpu_share", stage.cpu_share},
                                   {"depth", stage.depth},
                                   {"depth_in_use", stage.depth_in_use},
                                   {"skipped", stage.skipped},
                                   {"retries", stage.retries},
                                   {"note", stage.note}}));
  }
  std::vector<Json> skips;
  for (const SkippedItem& item : report.skips) {
    skips.push_back(Json::object({{"stage", item.stage},
                                  {"record", item.record},
                                  {"records", item.records},
                                  {"file", item.file},
                                  {"offset", item.offset},
                                  {"reason", item.reason}}));
  }
  const bool known = report.records_in_all != unknown_size;
  return Json::object({{"seconds", report.seconds},
                       {"cpu_s", report.cpu_s},
                       {"processors", report.processors},
                       {"records", report.records},
                       {"bytes", report.bytes},
                       {"records_per_s", a_second(report.records)},
                       {"bytes_per_s", a_second(report.bytes)},
                       {"records_in_all", known ? Json{report.records_in_all} : Json{nullptr}},
                       {"dropped", report.dropped},
                       {"skipped", report.skipped},
                       {"skips", Json::array(skips)},
                       {"limiting_stage", report.limiting_stage},
                       {"device", report.device},
                       {"position", report.position ? Json{report.position.text()} : Json{nullptr}},
                       {"stopped", report.stopped},
                       {"error", report.error},
                       {"stages", Json::array(stages)}});
}

} // namespace penstock
