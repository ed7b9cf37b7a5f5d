// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"

#include <penstock/penstock.hpp>
#include <penstock/run/report_json.hpp>
#include <penstock/run/report_prometheus.hpp>

#include <sstream>
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
                    .busy_in_waits_s = 0.375,
                    .starved_in_waits_s = 0.5,
                    .blocked_in_waits_s = 0.625,
                    .units = 25,
                    .workers_used = 1,
                    .unit_p50_s = 0.125,
                    .unit_p99_s = 0.375,
                    .calling_s = 0.75,
                    .queued_s = 0.625,
                    .calls = {.launches = 1,
                              .waits = 2,
                              .allocations = 3,
                              .copies = 4,
                              .pageable_copies = 5,
                              .pageable_bytes = 6,
                              .launch_s = 0.125,
                              .wait_s = 0.25,
                              .allocation_s = 0.375,
                              .copy_s = 0.5},
                    .busy_now = 1,
                    .starved_now = 2,
                    .blocked_now = 3,
                    .cpu_share = 0.75,
                    .depth = 8,
                    .depth_in_use = 1.5,
                    .slot_bytes = 128,
                    .ring_bytes = 1024,
                    .ring_memory = ps::MemoryKind::pinned,
                    .skipped = 4,
                    .retries = 5,
                    .note = "a \"note\""},
                   {.name = "loop",
                    .kind = ps::StageKind::loop,
                    .workers = 1,
                    .records = 90,
                    .bytes = 720,
                    .note = {}}};
  report.seconds = 2;
  report.cpu_s = 3.5;
  report.processors = 4;
  report.waited_s = 0.75;
  report.epochs = 3;
  report.storage_bytes = 4096;
  report.pageable_bytes = 1;
  report.pinned_bytes = 1024;
  report.device_bytes = 2;
  report.device_memory = 8;
  report.observed = true;
  report.stolen_s = 0.25;
  report.throttled_s = 0.5;
  report.gpu = ps::GpuActivitySummary{.seconds = 2, .kernel_s = 1, .kernels = 7};
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
  const std::string no_calls =
      R"({"launches": 0, "waits": 0, "allocations": 0, "copies": 0, "pageable_copies": 0, )"
      R"("pageable_bytes": 0, "launch_s": 0, "wait_s": 0, "allocation_s": 0, "copy_s": 0})";
  CHECK(
      ps::to_json(some_report()).text() ==
      R"({"seconds": 2, "cpu_s": 3.5, "processors": 4, "waited_s": 0.75, "records": 90, )"
      R"("bytes": 720, "records_per_s": 45, "bytes_per_s": 360, "records_in_all": null, )"
      R"("epochs": 3, "storage_bytes": 4096, "pageable_bytes": 1, "pinned_bytes": 1024, )"
      R"("device_bytes": 2, "device_memory": 8, "observed": true, "stolen_s": 0.25, )"
      R"("throttled_s": 0.5, "gpu": {"seconds": 2, "kernel_s": 1, "to_device_s": 0, )"
      R"("to_host_s": 0, "copy_s": 0, "overlap_s": 0, "busy_s": 0, "kernels": 7, )"
      R"("copies_to_device": 0, "copies_to_host": 0, "other_copies": 0, "bytes_to_device": 0, )"
      R"("bytes_to_host": 0, "dropped": 0}, "dropped": 6, "skipped": 4, )"
      R"("skips": [{"stage": "Reader", "record": 17, "records": 2, "file": "a\u000afile", )"
      R"("offset": 68, "reason": "why"}], "limiting_stage": "Reader", "device": "host", )"
      R"("position": null, "stopped": true, "error": "none", "stages": [{"name": "Reader", )"
      R"("kind": "reader", "workers": 2, "records": 100, "bytes": 400, "records_per_s": 50, )"
      R"("bytes_per_s": 200, "busy_s": 0.5, "starved_s": 0.25, "blocked_s": 1.25, )"
      R"("busy_in_waits_s": 0.375, "starved_in_waits_s": 0.5, "blocked_in_waits_s": 0.625, )"
      R"("units": 25, "workers_used": 1, "unit_p50_s": 0.125, "unit_p99_s": 0.375, )"
      R"("calling_s": 0.75, "queued_s": 0.625, "calls": {"launches": 1, "waits": 2, "allocations": 3, )"
      R"("copies": 4, "pageable_copies": 5, "pageable_bytes": 6, "launch_s": 0.125, )"
      R"("wait_s": 0.25, "allocation_s": 0.375, "copy_s": 0.5}, "busy_now": 1, )"
      R"("starved_now": 2, "blocked_now": 3, "cpu_share": 0.75, "depth": 8, )"
      R"("depth_in_use": 1.5, "slot_bytes": 128, "ring_bytes": 1024, )"
      R"("ring_memory": "pinned", "skipped": 4, "retries": 5, "note": "a \"note\"", )"
      R"("branch": ""}, )"
      R"({"name": "loop", "kind": "loop", "workers": 1, "records": 90, "bytes": 720, )"
      R"("records_per_s": 45, "bytes_per_s": 360, "busy_s": 0, "starved_s": 0, )"
      R"("blocked_s": 0, "busy_in_waits_s": 0, "starved_in_waits_s": 0, )"
      R"("blocked_in_waits_s": 0, "units": 0, "workers_used": 0, "unit_p50_s": 0, )"
      R"("unit_p99_s": 0, "calling_s": 0, "queued_s": 0, "calls": )" +
          no_calls +
          R"(, "busy_now": 0, "starved_now": 0, "blocked_now": 0, "cpu_share": 0, "depth": 0, )"
          R"("depth_in_use": 0, "slot_bytes": 0, "ring_bytes": 0, "ring_memory": "pageable", )"
          R"("skipped": 0, "retries": 0, "note": "", "branch": ""}]})");
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
)",
                                     R"(
penstock_ring_bytes{pipeline="a \"b\"\\\n",memory="pinned"} 1024
)",
                                     R"(
penstock_stage_device_calls_total{pipeline="a \"b\"\\\n",stage="Reader",call="wait"} 2
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
  CHECK(help == 23);
  CHECK(type == help);
}
TEST_CASE("a Report is printed with rates, waits, memory and what was taken away") {
  std::ostringstream text;
  ps::Report report = some_report();
  report.stages[0].name = "A stage whose name is longer than its column";
  report.records = 1'234'567'890'123;
  text << std::hex << report;
  INFO(text.str());
  for (const char* expected :
       {"1234567890123 records, 0.000 GB in 2.000 s: 617G records/s, 0.000 GB/s on host, stopped "
        "early, 6 records dropped, 4 records skipped\n",
        "A stage whose name is longer than its column", "      1/2  25.0%    12.5%    62.5%",
        "      50.0%   0.75        1.5/8         50    0.000  125.000  375.000  (a \"note\")\n",
        "processors in use: 1.75 of 4; 0.25 s stolen, 0.50 s throttled\n",
        "memory of rings: 1B pageable, 1.02kB pinned, 2B on the device\n",
        "fetched from storage: 4.1kB\n", "  GPU: kernels 50.0 % (7)", "error: none\n"}) {
    CAPTURE(expected);
    CHECK(text.str().find(expected) != std::string::npos);
  }
  report.records = report.dropped = report.skipped = 1;
  text.str({});
  text << report;
  CHECK(text.str().starts_with("1 record, 0.000 GB in 2.000 s: 0.5 records/s, "));
  CHECK(text.str().find(", 1 record dropped, 1 record skipped\n") != std::string::npos);
}
TEST_CASE("a Report of a run that never began has no words without what they announce") {
  std::ostringstream text;
  text << ps::Report{};
  CHECK(text.str() == "0 records, 0.000 GB in 0.000 s: 0 records/s, 0.000 GB/s\n"
                      "  memory of rings: 0B pageable, 0B pinned, 0B on the device\n");
}
