// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"

#include <penstock/penstock.hpp>
#include <penstock/report_json.hpp>
#include <penstock/report_prometheus.hpp>

#include <string>

namespace ps = penstock;

namespace {

ps::Report some_report() {
  ps::Report report;
  report.stages = {{.name = "Reader",
                    .workers = 2,
                    .records = 100,
                    .bytes = 400,
                    .busy_s = 0.5,
                    .starved_s = 0.25,
                    .blocked_s = 1.25,
                    .unit_p50_s = 0.125,
                    .unit_p99_s = 0.375,
                    .busy_now = 1,
                    .starved_now = 2,
                    .blocked_now = 3,
                    .cpu_share = 0.75,
                    .depth = 8,
                    .depth_in_use = 1.5,
                    .skipped = 4,
                    .retries = 5,
                    .note = "a \"note\""},
                   {.name = "loop", .workers = 1, .records = 90, .bytes = 720, .note = {}}};
  report.seconds = 2;
  report.cpu_s = 3.5;
  report.processors = 4;
  report.records = 90;
  report.bytes = 720;
  report.records_in_all = ps::unknown_size;
  report.dropped = 6;
  report.skipped = 4;
  report.skips = {{"Reader", 17, 2, "a\nfile", 68, "why"}};
  report.limiting_stage = "Reader";
  report.device = "host";
  report.stopped = true;
  report.error = "none";
  return report;
}

} // namespace

TEST_CASE("a Report as JSON has each member by its name, and rates") {
  CHECK(
      ps::to_json(some_report()).text() ==
      R"({"seconds": 2, "cpu_s": 3.5, "processors": 4, "records": 90, "bytes": 720, "records_per_s": 45, "bytes_per_s": 360, )"
      R"("records_in_all": null, "dropped": 6, "skipped": 4, "skips": [{"stage": "Reader", )"
      R"("record": 17, "records": 2, "file": "a\u000afile", "offset": 68, "reason": "why"}], )"
      R"("limiting_stage": "Reader", "device": "host", "position": null, "stopped": true, )"
      R"("error": "none", "stages": [{"name": "Reader", "workers": 2, "records": 100, )"
      R"("bytes": 400, "records_per_s": 50, "bytes_per_s": 200, "busy_s": 0.5, )"
      R"("starved_s": 0.25, "blocked_s": 1.25, "unit_p50_s": 0.125, "unit_p99_s": 0.375, "busy_now": 1, "starved_now": 2, )"
      R"("blocked_now": 3, "cpu_share": 0.75, "depth": 8, "depth_in_use": 1.5, "skipped": 4, )"
      R"("retries": 5, "note": "a \"note\""}, {"name": "loop", "workers": 1, "records": 90, )"
      R"("bytes": 720, "records_per_s": 45, "bytes_per_s": 360, "busy_s": 0, "starved_s": 0, )"
      R"("blocked_s": 0, "unit_p50_s": 0, "unit_p99_s": 0, "busy_now": 0, "starved_now": 0, "blocked_now": 0, "cpu_share": 0, )"
      R"("depth": 0, "depth_in_use": 0, "skipped": 0, "retries": 0, "note": ""}]})");
  const std::string none = ps::to_json(ps::Report{}).text();
  CHECK(none.find(R"("records_per_s": 0, )") != std::string::npos);
  CHECK(none.find(R"("records_in_all": 0, )") != std::string::npos);
}
TEST_CASE("a Report as Prometheus's text has a sample for each stage, and labels that are quoted") {
  const std::string text = ps::to_prometheus(some_report(), "a \"b\"\\\n");
  for (const std::string expected : {R"(
# TYPE penstock_records_total counter
penstock_records_total{pipeline="a \"b\"\\\n"} 90
)",
                                     R"(
penstock_stage_workers{pipeline="a \"b\"\\\n",stage="Reader"} 2
penstock_stage_workers{pipeline="a \"b\"\\\n",stage="loop"} 1
)",
                                     R"(
penstock_stage_seconds_total{pipeline="a \"b\"\\\n",stage="Reader",state="blocked"} 1.25
)"}) {
    INFO(text);
    CHECK(text.find(expected) != std::string::npos);
  }
  std::size_t help = 0;
  std::size_t type = 0;
  for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
    help += text.compare(at, 7, "# HELP ") == 0 ? 1U : 0U;
    type += text.compare(at, 7, "# TYPE ") == 0 ? 1U : 0U;
  }
  CHECK(help == 16);
  CHECK(type == help);
}
