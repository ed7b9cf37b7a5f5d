// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/run/report.hpp>

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace penstock {

namespace detail {

/// Metrics in Prometheus's text format, 0.0.4.
class PrometheusText {
 public:
  explicit PrometheusText(std::string_view pipeline) : pipeline_{label("pipeline", pipeline)} {}

  /// Begins a metric, of which samples follow.
  void metric(std::string_view name, std::string_view type, std::string_view help);
  /// `kind`: the name of one more label, whose value follows.
  void sample(auto value, std::string_view stage = {}, std::string_view kind = {},
              std::string_view of_kind = {}) {
    (text_ += "penstock_").append(name_).append("{").append(pipeline_);
    text_ += stage.empty() ? "" : ',' + label("stage", stage);
    text_ += kind.empty() ? "" : ',' + label(kind, of_kind);
    char number[32];
    text_.append("} ").append(number, std::to_chars(number, number + sizeof number, value).ptr);
    text_ += '\n';
  }
  std::string take() { return std::move(text_); }

 private:
  static std::string label(std::string_view name, std::string_view value);

  std::string pipeline_;
  std::string name_;
  std::string text_;
};

#if PENSTOCK_BODIES
PENSTOCK_INLINE void PrometheusText::metric(std::string_view name, std::string_view type,
                                            std::string_view help) {
  name_ = name;
  ((text_ += "# HELP penstock_") += name_).append(" ").append(help).append("\n# TYPE penstock_");
  (text_ += name_).append(" ").append(type).append("\n");
}

PENSTOCK_INLINE std::string PrometheusText::label(std::string_view name, std::string_view value) {
  std::string text = std::string{name} + "=\"";
  for (const char c : value) {
    text += c == '\n' ? "\\n" : c == '"' ? "\\\"" : c == '\\' ? "\\\\" : std::string{c};
  }
  return text + '"';
}
#endif

} // namespace detail

/// Returns a Report as Prometheus's text format, 0.0.4, has it, for its node exporter's textfile
/// collector or for a server of yours: counters and gauges whose names begin with `penstock_`, each
/// with the label `pipeline`, and those of a stage with the label `stage`. All begin at 0 again in
/// each run. Throws nothing but std::bad_alloc.
[[gnu::cold]] std::string to_prometheus(const Report& report, std::string_view pipeline);

#if PENSTOCK_BODIES
PENSTOCK_INLINE std::string to_prometheus(const Report& report, std::string_view pipeline) {
  detail::PrometheusText text{pipeline};
  const auto of_run = [&](const char* name, const char* type, const char* help, auto value) {
    text.metric(name, type, help);
    text.sample(value);
  };
  const auto of_stages = [&](const char* name, const char* type, const char* help, auto member) {
    text.metric(name, type, help);
    for (const StageReport& stage : report.stages) {
      text.sample(stage.*member, stage.name);
    }
  };
  of_run("run_seconds", "gauge", "Seconds since the run began.", report.seconds);
  of_run("cpu_seconds_total", "counter", "CPU seconds of the process.", report.cpu_s);
  of_run("processors", "gauge", "Processors that the process may use.", report.processors);
  of_run("waited_seconds_total", "counter", "Seconds that the last stage waited for input.",
         report.waited_s);
  of_run("storage_bytes_total", "counter", "Bytes that the process fetched from storage.",
         report.storage_bytes);
  text.metric("ring_bytes", "gauge", "Memory of the pipeline's rings.");
  text.sample(report.pageable_bytes, {}, "memory", "pageable");
  text.sample(report.pinned_bytes, {}, "memory", "pinned");
  text.sample(report.device_bytes, {}, "memory", "device");
  of_run("records_total", "counter", "Records that reached the last stage.", report.records);
  of_run("bytes_total", "counter", "Bytes of those records.", report.bytes);
  of_run("dropped_records_total", "counter", "Records that never reached it.", report.dropped);
  of_stages("stage_records_total", "counter", "Records that a stage has passed on.",
            &StageReport::records);
  of_stages("stage_bytes_total", "counter", "Bytes of those records.", &StageReport::bytes);
  of_stages("stage_skipped_records_total", "counter", "Records left out, since they failed.",
            &StageReport::skipped);
  of_stages("stage_retries_total", "counter", "Tries made again.", &StageReport::retries);
  of_stages("stage_workers", "gauge", "Threads of a stage.", &StageReport::workers);
  of_stages("stage_ring_slots", "gauge", "Slots in the ring that a stage fills.",
            &StageReport::depth);
  of_stages("stage_ring_slots_in_use", "gauge", "Slots in use when one was added, on average.",
            &StageReport::depth_in_use);
  of_stages("stage_units_total", "counter", "Units that a stage's workers did.",
            &StageReport::units);
  of_stages("stage_calling_seconds_total", "counter",
            "Seconds of a thread in a callable that enqueues work.", &StageReport::calling_s);
  of_stages("stage_waited_for_seconds_total", "counter",
            "Seconds of one worker at work while the last stage waited.",
            &StageReport::busy_in_waits_s);
  of_stages("stage_unit_p50_seconds", "gauge", "What half of a stage's units took at most.",
            &StageReport::unit_p50_s);
  of_stages("stage_unit_p99_seconds", "gauge", "What 99 of 100 of a stage's units took at most.",
            &StageReport::unit_p99_s);
  text.metric("stage_seconds_total", "counter", "Seconds of one worker, the mean of all.");
  for (const StageReport& stage : report.stages) {
    text.sample(stage.busy_s, stage.name, "state", "busy");
    text.sample(stage.starved_s, stage.name, "state", "starved");
    text.sample(stage.blocked_s, stage.name, "state", "blocked");
  }
  text.metric("stage_device_calls_total", "counter", "Calls of a device in a stage's callable.");
  for (const StageReport& stage : report.stages) {
    text.sample(stage.calls.launches, stage.name, "call", "launch");
    text.sample(stage.calls.waits, stage.name, "call", "wait");
    text.sample(stage.calls.allocations, stage.name, "call", "allocation");
    text.sample(stage.calls.copies, stage.name, "call", "copy");
  }
  return text.take();
}
#endif

} // namespace penstock
