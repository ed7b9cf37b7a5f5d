// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/diagnose/detail/call_names.hpp>
#include <penstock/diagnose/detail/words.hpp>
#include <penstock/diagnose/gpu_watch_summary.hpp>
#include <penstock/run/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include <cxxabi.h>

namespace penstock::detail {

/// Writes three digits, or all before the point: 0.0123, 12.3, 1234.
inline std::string figure(double value) {
  const double size = std::abs(value);
  const int before = size < 1 ? 1 : static_cast<int>(std::log10(size)) + 1;
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", size < 0.1 ? 3 : std::max(3 - before, 0), value);
  return text.data();
}
inline std::string figure_ms(double seconds) {
  return figure(seconds * 1e3) + " ms";
}
inline std::string figure_us(double seconds) {
  return figure(seconds * 1e6) + " us";
}
inline std::string percent(double share) {
  return figure(share * 100) + " %";
}
/// Writes bytes with the unit that leaves at least one digit before the point.
inline std::string figure_bytes(std::uint64_t bytes) {
  constexpr std::array units{"B", "kB", "MB", "GB", "TB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1000 && unit + 1 < units.size(); ++unit) {
    value /= 1000;
  }
  return (unit == 0 ? std::to_string(bytes) : figure(value)) + ' ' + units[unit];
}
/// Returns what is written in the source for a mangled name, without a return type and parameters.
inline std::string source_name(const std::string& mangled) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text{
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status), std::free};
  std::string name = status == 0 && text != nullptr ? text.get() : mangled;
  for (const std::string_view anonymous : {"(anonymous namespace)::"}) {
    for (auto at = name.find(anonymous); at != name.npos; at = name.find(anonymous)) {
      name.erase(at, anonymous.size());
    }
  }
  // The parameters begin at the first parenthesis outside of <>.
  int depth = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    depth += name[i] == '<' ? 1 : name[i] == '>' ? -1 : 0;
    if (name[i] == '(' && depth == 0) {
      name.resize(i);
      break;
    }
  }
  return name.starts_with("void ") ? name.substr(5) : name;
}
/// Returns that name without template arguments.
inline std::string base_name(const std::string& mangled) {
  std::string base;
  int depth = 0;
  for (const char c : source_name(mangled)) {
    depth += c == '<' ? 1 : 0;
    base += depth == 0 ? std::string{c} : std::string{};
    depth -= c == '>' ? 1 : 0;
  }
  return base;
}
/// Returns a name that fits into a line.
inline std::string short_name(const std::string& mangled) {
  constexpr std::size_t most = 72;
  const std::string name = source_name(mangled);
  return name.size() <= most ? name : name.substr(0, most - 3) + "...";
}

} // namespace penstock::detail

namespace penstock {

namespace detail {

/// Writes "3000 waits (cudaStreamSynchronize, 31 ms)": the function of that kind that took longest.
inline std::string of_kind(const WatchSummary& summary, CudaCall kind, const WatchedCalls& calls,
                           const char* one, const char* many = nullptr) {
  std::string text = counted(static_cast<double>(calls.calls), one, many);
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
/// The lines behind that: the kernels that took longest, and the records that figures lack.
inline std::string later_lines(const WatchSummary& is) {
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(is.kernels.size(), 3); ++i) {
    const WatchedKernel& kernel = is.kernels[i];
    text += "   kernel " + short_name(kernel.name) + ": " +
            counted(static_cast<double>(kernel.launches), "time") + ", " +
            figure_ms(kernel.seconds) + '\n';
  }
  if (is.gpu.dropped != 0) {
    text += std::to_string(is.gpu.dropped) + " records were lost: figures are too low.\n";
  }
  if (is.late != 0) {
    text += std::to_string(is.late) +
            " records of the GPU's work came late: it was idle for less than told.\n";
  }
  return text;
}

/// Returns the members of a summary as JSON.
[[gnu::cold]] inline std::vector<Json::Member> watch_members(const WatchSummary& is) {
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
  return {{"seconds", is.seconds},
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
             return Json::object({{"name", source_name(one.name)},
                                  {"launches", one.launches},
                                  {"seconds", one.seconds},
                                  {"blocks", one.blocks},
                                  {"sizes", one.sizes},
                                  {"threads", one.threads},
                                  {"registers", one.registers},
                                  {"shared_bytes", one.shared_bytes}});
           })}};
}

} // namespace detail

/// Prints what was asked of the GPU, the kernels that took longest, and how many records were lost
/// or late.
[[gnu::cold]] inline std::ostream& operator<<(std::ostream& os, const WatchSummary& summary) {
  return os << detail::headline(summary) + '\n' + detail::later_lines(summary);
}

/// Returns a summary as a JSON object: each member by its name, and at most 32 functions and
/// kernels, the longest. Throws nothing but std::bad_alloc.
[[gnu::cold]] inline Json to_json(const WatchSummary& summary) {
  return Json::object(detail::watch_members(summary));
}

} // namespace penstock
