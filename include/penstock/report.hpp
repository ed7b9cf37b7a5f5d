// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/position.hpp>
#include <penstock/skipped_item.hpp>

#include <cstddef>
#include <cstdint>
#include <iomanip>
#include <ostream>
#include <string>
#include <vector>

namespace penstock {

/// What one stage did in a run. Times are seconds of one worker, the mean over its workers: busy,
/// starved (waiting for input) and blocked (waiting for room) make up the run. The thread that
/// polls the fences of a stage on the GPU measures it, to within some microseconds.
struct StageReport {
  std::string name;        ///< Such as "Reader" or "Decoder 2".
  unsigned workers{};      ///< How many threads.
  std::uint64_t records{}; ///< Records that it has passed on.
  std::uint64_t bytes{};   ///< Bytes of those records.
  double busy_s{};         ///< Seconds at work.
  double starved_s{};      ///< Seconds without anything to work on.
  double blocked_s{};      ///< Seconds without room for its output.
  /// Seconds that half of its units took at most, to within an eighth. A unit is what a worker does
  /// at a time, without a wait: a slot, a share of one, or the body of your loop. 0 for what a GPU
  /// does.
  double unit_p50_s{};
  /// Seconds that 99 of a hundred units took at most.
  double unit_p99_s{};
  /// In a run going on: how many workers are at work now.
  unsigned busy_now{};
  /// In a run going on: how many workers wait for input now.
  unsigned starved_now{};
  /// In a run going on: how many workers wait for room now.
  unsigned blocked_now{};
  /// CPU seconds of its threads per second of the run, known at the end of the run: 1 is one core
  /// kept busy.
  double cpu_share{};
  /// Slots in the ring that it fills; 0 for a last stage, which fills none.
  std::size_t depth{};
  /// How many of those slots were in use, on average, when one was added.
  double depth_in_use{};
  /// Records left out because they failed.
  std::uint64_t skipped{};
  /// Tries made again after a failure.
  std::uint64_t retries{};
  /// What the stage decided differently from what you asked or from the usual; else empty.
  std::string note;
};

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
  /// Records that reached the last stage.
  std::uint64_t records{};
  /// Bytes of those records.
  std::uint64_t bytes{};
  /// Records that a whole run has to read, epochs included; unknown_size if the source does not
  /// know.
  std::uint64_t records_in_all{};
  /// Records read that were neither skipped nor seen by the last stage: a stop or an error came
  /// first, or ReaderOptions::drop_last left them out.
  std::uint64_t dropped{};
  /// Records left out because they failed.
  std::uint64_t skipped{};
  /// The first thousand failures, in the order in which they happened.
  std::vector<SkippedItem> skips;
  /// The stage that was busy for the largest share of the run: the one that held the others back.
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
