// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/diagnose/detail/figures.hpp>
#include <penstock/diagnose/gpu_watch_summary.hpp>
#include <penstock/gpu_watch_findings.hpp>
#include <penstock/run/json.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace penstock {

namespace detail {

/// Writes "3000 waits (cudaStreamSynchronize, 31 ms)": the function of that kind that took longest.
inline std::string of_kind(const WatchSummary& summary, CudaCall kind, const WatchedCalls& calls,
                           const char* one, const char* many = nullptr) {
  std::string text = counted(calls.calls, one, many);
  for (const WatchedFunction& function : summary.functions) {
    const CudaCall is = cuda_call(function.name);
    if (is == kind || (kind == CudaCall::allocation && is == CudaCall::page_lock)) {
      return text + " (" + function.name + ", " + figure_ms(calls.seconds) + ")";
    }
  }
  return text;
}
/// The first line: how idle the GPU was, and what was asked of it.
inline std::string headline(const WatchSummary& is) {
  if (is.gpu.kernels + is.gpu.copies_to_device + is.gpu.copies_to_host + is.gpu.other_copies == 0) {
    return "GPU idle: nothing ran on it in " + figure(is.seconds) + " s";
  }
  std::string text = "GPU idle " + percent(is.gpu.idle_share()) + " of " + figure(is.seconds) +
                     " s: " + of_kind(is, CudaCall::wait, is.waits, "wait") + ", " +
                     of_kind(is, CudaCall::allocation, is.allocations, "allocation") + ", " +
                     of_kind(is, CudaCall::copy, is.copies, "copy", "copies");
  const std::uint64_t copies =
      is.gpu.copies_to_device + is.gpu.copies_to_host + is.gpu.other_copies;
  if (is.pageable.copies != 0) {
    text += is.pageable.copies == copies
                ? ", all of pageable memory"
                : ", " + std::to_string(is.pageable.copies) + " of them of pageable memory";
  }
  return text + ", " + of_kind(is, CudaCall::launch, is.launches, "launch", "launches");
}
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

} // namespace detail

/// Prints what was asked of the GPU, and each finding with its cost, its evidence and the page that
/// has the cure.
[[gnu::cold]] inline std::ostream& operator<<(std::ostream& os, const WatchSummary& summary) {
  using detail::figure_ms;
  using detail::percent;
  std::string text = detail::headline(summary) + '\n';
  const std::vector<WatchFinding> found = findings(summary);
  const bool blamed = !found.empty() && !found.front().hint;
  if (!blamed && summary.gpu.kernels != 0) {
    text += detail::nothing_found(summary);
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
  for (std::size_t i = 0; i < std::min<std::size_t>(summary.kernels.size(), 3); ++i) {
    const WatchedKernel& kernel = summary.kernels[i];
    text += "   kernel " + detail::short_name(kernel.name) + ": " +
            detail::counted(kernel.launches, "time") + ", " + figure_ms(kernel.seconds) + '\n';
  }
  if (summary.gpu.dropped != 0) {
    text += std::to_string(summary.gpu.dropped) + " records were lost: figures are too low.\n";
  }
  if (summary.late != 0) {
    text += std::to_string(summary.late) +
            " records of the GPU's work came late: it was idle for less than told.\n";
  }
  return os << text;
}

/// Returns a summary as a JSON object: each member by its name, `findings`, and at most 32
/// functions and kernels, the longest. Throws nothing but std::bad_alloc.
[[gnu::cold]] inline Json to_json(const WatchSummary& is) {
  const auto calls = [](const WatchedCalls& of) {
    return Json::object({{"calls", of.calls}, {"seconds", of.seconds}});
  };
  const auto first = [](const auto& all, auto one) {
    std::vector<Json> values;
    for (std::size_t i = 0; i < std::min<std::size_t>(all.size(), 32); ++i) {
      values.push_back(one(all[i]));
    }
    return Json::array(values);
  };
  const GpuActivitySummary& gpu = is.gpu;
  std::vector<Json> found;
  for (const WatchFinding& one : findings(is)) {
    found.push_back(Json::object({{"cause", one.cause},
                                  {"page", one.page},
                                  {"or_cause", one.or_cause},
                                  {"or_page", one.or_page},
                                  {"evidence", one.evidence},
                                  {"cost_s", one.cost_s},
                                  {"hint", one.hint}}));
  }
  return Json::object({{"seconds", is.seconds},
                       {"findings", Json::array(found)},
                       {"gpu", Json::object({{"seconds", gpu.seconds},
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
                                             {"dropped", gpu.dropped}})},
                       {"launches", calls(is.launches)},
                       {"waits", calls(is.waits)},
                       {"allocations", calls(is.allocations)},
                       {"releases", calls(is.releases)},
                       {"copies", calls(is.copies)},
                       {"pageable", Json::object({{"copies", is.pageable.copies},
                                                  {"bytes", is.pageable.bytes},
                                                  {"seconds", is.pageable.seconds}})},
                       {"page_locks", calls(is.page_locks)},
                       {"page_locked", is.page_locked},
                       {"loop", Json::object({{"launches", is.loop.launches},
                                              {"allocations", calls(is.loop.allocations)},
                                              {"releases", calls(is.loop.releases)}})},
                       {"idle", Json::object({{"allocation_s", is.idle.allocation_s},
                                              {"copy_s", is.idle.copy_s},
                                              {"launch_s", is.idle.launch_s},
                                              {"wait_s", is.idle.wait_s},
                                              {"other_s", is.idle.other_s},
                                              {"between_s", is.idle.between_s},
                                              {"elsewhere_s", is.idle.elsewhere_s},
                                              {"gaps", is.idle.gaps},
                                              {"longest_gap_s", is.idle.longest_gap_s},
                                              {"setup_s", is.idle.setup_s}})},
                       {"in_a_row", Json::object({{"rows", is.in_a_row.rows},
                                                  {"kernels", is.in_a_row.kernels},
                                                  {"seconds", is.in_a_row.seconds},
                                                  {"busy_s", is.in_a_row.busy_s}})},
                       {"streams", is.streams},
                       {"device_bytes", is.device_bytes},
                       {"device_memory", is.device_memory},
                       {"memory_bytes_per_s", is.memory_bytes_per_s},
                       {"page_locked_bytes_per_s", is.page_locked_bytes_per_s},
                       {"link_bytes_per_s", is.link_bytes_per_s},
                       {"host_peak_bytes", is.host_peak_bytes},
                       {"cpu_s", is.cpu_s},
                       {"processors", is.processors},
                       {"late", is.late},
                       {"functions", first(is.functions,
                                           [&](const WatchedFunction& one) {
                                             return Json::object({{"name", one.name},
                                                                  {"calls", one.calls.calls},
                                                                  {"seconds", one.calls.seconds}});
                                           })},
                       {"kernels", first(is.kernels, [](const WatchedKernel& one) {
                          return Json::object({{"name", detail::source_name(one.name)},
                                               {"launches", one.launches},
                                               {"seconds", one.seconds},
                                               {"blocks", one.blocks},
                                               {"sizes", one.sizes},
                                               {"threads", one.threads},
                                               {"registers", one.registers},
                                               {"shared_bytes", one.shared_bytes}});
                        })}});
}

} // namespace penstock
