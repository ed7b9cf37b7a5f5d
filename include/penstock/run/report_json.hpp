// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/order/order.hpp>
#include <penstock/run/json.hpp>
#include <penstock/run/report.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace penstock {

namespace detail {
[[gnu::cold]] const char* words(StageKind kind) noexcept;
[[gnu::cold]] const char* words(MemoryKind kind) noexcept;
[[gnu::cold]] Json to_json(const DeviceCalls& calls);
[[gnu::cold]] Json to_json(const GpuActivitySummary& gpu);

#if PENSTOCK_BODIES
PENSTOCK_INLINE const char* words(StageKind kind) noexcept {
  static constexpr const char* names[]{"reader", "decoder",      "stager",   "copy_to_device",
                                       "kernel", "copy_to_host", "consumer", "writer",
                                       "loop",   "fan_out",      "tee",      "other"};
  return names[static_cast<std::size_t>(kind)];
}

PENSTOCK_INLINE const char* words(MemoryKind kind) noexcept {
  static constexpr const char* names[]{"pageable", "pinned", "device"};
  return names[static_cast<std::size_t>(kind)];
}

PENSTOCK_INLINE Json to_json(const DeviceCalls& calls) {
  return Json::object({{"launches", calls.launches},
                       {"waits", calls.waits},
                       {"allocations", calls.allocations},
                       {"copies", calls.copies},
                       {"pageable_copies", calls.pageable_copies},
                       {"pageable_bytes", calls.pageable_bytes},
                       {"launch_s", calls.launch_s},
                       {"wait_s", calls.wait_s},
                       {"allocation_s", calls.allocation_s},
                       {"copy_s", calls.copy_s}});
}

PENSTOCK_INLINE Json to_json(const GpuActivitySummary& gpu) {
  return Json::object({{"seconds", gpu.seconds},
                       {"kernel_s", gpu.kernel_s},
                       {"to_device_s", gpu.to_device_s},
                       {"to_host_s", gpu.to_host_s},
                       {"copy_s", gpu.copy_s},
                       {"overlap_s", gpu.overlap_s},
                       {"busy_s", gpu.busy_s},
                       {"kernels", gpu.kernels},
                       {"copies_to_device", gpu.copies_to_device},
                       {"copies_to_host", gpu.copies_to_host},
                       {"other_copies", gpu.other_copies},
                       {"bytes_to_device", gpu.bytes_to_device},
                       {"bytes_to_host", gpu.bytes_to_host},
                       {"dropped", gpu.dropped}});
}
#endif

} // namespace detail

/// Returns a Report as a JSON object: each member of Report, StageReport, DeviceCalls,
/// GpuActivitySummary and SkippedItem by its name. The position is its text, or null if there is
/// none; `records_in_all` is null if it is not known. `records_per_s` and `bytes_per_s` are added,
/// to the stages too. Throws nothing but std::bad_alloc.
[[gnu::cold]] Json to_json(const Report& report);

#if PENSTOCK_BODIES
PENSTOCK_INLINE Json to_json(const Report& report) {
  const auto a_second = [&](std::uint64_t count) {
    return report.seconds > 0 ? static_cast<double>(count) / report.seconds : 0.0;
  };
  std::vector<Json> stages;
  for (const StageReport& stage : report.stages) {
    stages.push_back(Json::object({{"name", stage.name},
                                   {"kind", detail::words(stage.kind)},
                                   {"workers", stage.workers},
                                   {"records", stage.records},
                                   {"bytes", stage.bytes},
                                   {"records_per_s", a_second(stage.records)},
                                   {"bytes_per_s", a_second(stage.bytes)},
                                   {"busy_s", stage.busy_s},
                                   {"starved_s", stage.starved_s},
                                   {"blocked_s", stage.blocked_s},
                                   {"busy_in_waits_s", stage.busy_in_waits_s},
                                   {"starved_in_waits_s", stage.starved_in_waits_s},
                                   {"blocked_in_waits_s", stage.blocked_in_waits_s},
                                   {"units", stage.units},
                                   {"workers_used", stage.workers_used},
                                   {"unit_p50_s", stage.unit_p50_s},
                                   {"unit_p99_s", stage.unit_p99_s},
                                   {"calling_s", stage.calling_s},
                                   {"queued_s", stage.queued_s},
                                   {"calls", detail::to_json(stage.calls)},
                                   {"busy_now", stage.busy_now},
                                   {"starved_now", stage.starved_now},
                                   {"blocked_now", stage.blocked_now},
                                   {"cpu_share", stage.cpu_share},
                                   {"depth", stage.depth},
                                   {"depth_in_use", stage.depth_in_use},
                                   {"slot_bytes", stage.slot_bytes},
                                   {"ring_bytes", stage.ring_bytes},
                                   {"ring_memory", detail::words(stage.ring_memory)},
                                   {"skipped", stage.skipped},
                                   {"retries", stage.retries},
                                   {"note", stage.note},
                                   {"branch", stage.branch}}));
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
                       {"waited_s", report.waited_s},
                       {"records", report.records},
                       {"bytes", report.bytes},
                       {"records_per_s", a_second(report.records)},
                       {"bytes_per_s", a_second(report.bytes)},
                       {"records_in_all", known ? Json{report.records_in_all} : Json{nullptr}},
                       {"epochs", report.epochs},
                       {"storage_bytes", report.storage_bytes},
                       {"pageable_bytes", report.pageable_bytes},
                       {"pinned_bytes", report.pinned_bytes},
                       {"device_bytes", report.device_bytes},
                       {"device_memory", report.device_memory},
                       {"observed", report.observed},
                       {"stolen_s", report.stolen_s},
                       {"throttled_s", report.throttled_s},
                       {"gpu", report.gpu ? detail::to_json(*report.gpu) : Json{nullptr}},
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
#endif

} // namespace penstock
