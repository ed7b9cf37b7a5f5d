// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/gpu_activity_summary.hpp>
#include <penstock/position.hpp>
#include <penstock/skipped_item.hpp>
#include <penstock/stage_report.hpp>

#include <cstddef>
#include <cstdint>
#include <iomanip>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

namespace penstock {

/// What a run did, or, while it runs, what it has done so far. `os << report` prints it as a table.
struct Report {
  /// One for each stage, in the order of the pipeline.
  std::vector<StageReport> stages;
  /// Seconds from call to return, without what prepare() sets up; in a run going on, until now.
  double seconds{};
  /// CPU seconds that the whole process used meanwhile, with what is not the pipeline's.
  double cpu_s{};
  /// How many processors it may use at once, as usable_processors() says when the pipeline is
  /// prepared: if `cpu_s` comes near to `processors * seconds`, processors are what lacks.
  unsigned processors{};
  /// Seconds that the last stage waited for input: its first worker or, of a stage that enqueues
  /// work on a device, that device, as far as fences tell.
  double waited_s{};
  /// Records that reached the last stage.
  std::uint64_t records{};
  /// Bytes of those records.
  std::uint64_t bytes{};
  /// Records that a whole run has to read, epochs included; unknown_size if the source does not
  /// know.
  std::uint64_t records_in_all{};
  /// How often a whole run reads the source.
  std::uint64_t epochs{};
  /// Bytes that the process fetched from storage meanwhile, with what is not the pipeline's: 0 if
  /// all came from the page cache, or from a file system that Linux does not count.
  std::uint64_t storage_bytes{};
  /// Bytes of pageable memory that the pipeline's rings have.
  std::uint64_t pageable_bytes{};
  /// Bytes of page-locked memory that they have.
  std::uint64_t pinned_bytes{};
  /// Bytes of device memory that they have.
  std::uint64_t device_bytes{};
  /// Bytes of memory that the device has in all; 0 if there is none, or if it does not say.
  std::uint64_t device_memory{};
  /// Whether RunOptions::observe looked on: the three members below are known.
  bool observed{};
  /// Seconds that other virtual machines had this one's processors while it wanted them, of all
  /// processors together.
  double stolen_s{};
  /// Seconds in which the quota of a control group (a container's limit) held the process.
  double throttled_s{};
  /// What the GPU did, if a GpuObserver looked on.
  std::optional<GpuActivitySummary> gpu;
  /// Records read that were neither skipped nor seen by the last stage: a stop or an error came
  /// first, or ReaderOptions::drop_last left them out.
  std::uint64_t dropped{};
  /// Records left out because they failed.
  std::uint64_t skipped{};
  /// The first thousand failures, in the order in which they happened.
  std::vector<SkippedItem> skips;
  /// The stage that held the others back. judge() (verdict.hpp) says why, and what to change.
  std::string limiting_stage;
  /// The device's name, or "none".
  std::string device;
  /// Where the run stands: behind the last batch that the last stage was done with, as far as none
  /// before it is open. Done is a Consumer when its callable has returned, and a loop when it has
  /// asked for the next batch. `pipeline.run({.from = report.position})` goes on there. A default
  /// one if the run has no positions: see Lease::position().
  Position position;
  /// Whether a stop ended the run early.
  bool stopped{};
  /// The text of the StageError that the run threw, or that the next run throws if the error was
  /// found after the loop was left. Else empty. If a run could not begin, all other members are
  /// those of the run before.
  std::string error;
};

namespace detail {
inline constexpr std::size_t most_skips_printed = 10;

/// Prints one number of the table.
[[gnu::noinline]] inline void print(std::ostream& os, int width, int precision, double number) {
  os << std::setw(width) << std::setprecision(precision) << number;
}
} // namespace detail

/// Prints the report as a table of several lines, each ended. A * marks the stage that held the
/// others back.
inline std::ostream& operator<<(std::ostream& os, const Report& report) {
  const auto flags = os.flags();
  const auto precision = os.precision();
  const double gb = static_cast<double>(report.bytes) / 1e9;
  os << std::fixed << std::setprecision(3) << report.records << " records, " << gb << " GB in "
     << report.seconds << " s: " << (report.seconds > 0 ? gb / report.seconds : 0.0) << " GB/s on "
     << report.device << (report.stopped ? ", stopped early" : "");
  if (report.dropped != 0) {
    os << ", " << report.dropped << " records dropped";
  }
  if (report.skipped != 0) {
    os << ", " << report.skipped << " records skipped";
  }
  os << "\n  stage          workers   busy  starved  blocked    cpu  depth in use       GB/s   p50 "
        "ms   p99 ms\n";
  const double per_cent = report.seconds > 0 ? 100 / report.seconds : 0;
  for (const StageReport& stage : report.stages) {
    os << (stage.name == report.limiting_stage ? "* " : "  ") << std::left << std::setw(14)
       << stage.name << std::right << std::setw(8) << stage.workers;
    detail::print(os, 6, 1, stage.busy_s * per_cent);
    os << '%';
    detail::print(os, 8, 1, stage.starved_s * per_cent);
    os << '%';
    detail::print(os, 8, 1, stage.blocked_s * per_cent);
    os << '%';
    detail::print(os, 7, 2, stage.cpu_share);
    if (stage.depth != 0) {
      detail::print(os, 7, 1, stage.depth_in_use);
      os << '/' << std::left << std::setw(6) << stage.depth << std::right;
    } else {
      os << std::setw(14) << "";
    }
    detail::print(os, 10, 3,
                  report.seconds > 0 ? static_cast<double>(stage.bytes) / 1e9 / report.seconds
                                     : 0.0);
    if (stage.unit_p99_s > 0) {
      detail::print(os, 9, 3, stage.unit_p50_s * 1e3);
      detail::print(os, 9, 3, stage.unit_p99_s * 1e3);
    }
    if (!stage.note.empty()) {
      os << "  (" << stage.note << ')';
    }
    os << '\n';
  }
  os << "  held back by: " << report.limiting_stage << '\n';
  if (report.processors != 0 && report.seconds > 0) {
    os << "  processors in use: ";
    detail::print(os, 0, 2, report.cpu_s / report.seconds);
    os << " of " << report.processors << '\n';
  }
  if (!report.error.empty()) {
    os << "  error: " << report.error << '\n';
  }
  for (std::size_t i = 0; i < report.skips.size() && i < detail::most_skips_printed; ++i) {
    const SkippedItem& skip = report.skips[i];
    os << "  skipped by " << skip.stage << ": record " << skip.record;
    if (skip.records != 1) {
      os << " to " << skip.record + skip.records - 1;
    }
    os << ": " << skip.reason << '\n';
  }
  os.flags(flags);
  os.precision(precision);
  return os;
}

} // namespace penstock
