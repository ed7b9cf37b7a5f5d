// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/order/position.hpp>
#include <penstock/run/stage_report.hpp>

#include <algorithm>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <iomanip>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

namespace penstock {

/// What was left out of a run because it failed: see OnError.
struct SkippedItem {
  /// The stage, by its name in the Report.
  std::string stage;
  /// The first record's number in the source.
  std::uint64_t record{};
  /// How many records were left out.
  std::uint64_t records{};
  /// The file; if the error names none, what the source's name() says of the record, with an offset
  /// of 0; empty if that says nothing.
  std::string file;
  /// Bytes from the file's start.
  std::uint64_t offset{};
  /// The error's text.
  std::string reason;
};

/// What a GPU did in some span of time, as GpuActivity (diagnose/activity.hpp) recorded it.
/// `os << summary` prints it in one line. Times are seconds of the span in which at least one of
/// the named things went on, so that two kernels side by side count once.
struct GpuActivitySummary {
  /// The span's length in seconds, from the first thing's begin to the last one's end.
  double seconds{};
  /// Seconds in which a kernel ran. A memset counts as a kernel.
  double kernel_s{};
  /// Seconds in which a copy from the host to the GPU ran.
  double to_device_s{};
  /// Seconds in which a copy from the GPU to the host ran.
  double to_host_s{};
  /// Seconds in which any copy ran, also those within the GPU and between GPUs.
  double copy_s{};
  /// Seconds in which a kernel and a copy ran at once.
  double overlap_s{};
  /// Seconds in which anything ran.
  double busy_s{};
  /// Kernels and memsets that began in the span, each node of a graph by itself.
  std::uint64_t kernels{};
  /// Copies to the device that began in the span. Copies that CUDA has merged count as one.
  std::uint64_t copies_to_device{};
  /// Copies from the GPU to the host that began in the span.
  std::uint64_t copies_to_host{};
  /// Copies within the GPU and between GPUs that began in the span.
  std::uint64_t other_copies{};
  /// Bytes of the copies to the device that began in the span.
  std::uint64_t bytes_to_device{};
  /// Bytes of the copies to the host that began in the span.
  std::uint64_t bytes_to_host{};
  /// Records lost in the whole recording: unless it is 0, all other numbers are too low.
  std::uint64_t dropped{};

  /// Returns the share of the span in which a kernel ran; 0 for an empty one.
  double kernel_share() const noexcept { return share(kernel_s); }
  /// Returns the share of the span in which anything ran; 0 for an empty one.
  double busy_share() const noexcept { return share(busy_s); }
  /// Returns the share of the span in which nothing ran; 0 for an empty one.
  double idle_share() const noexcept { return seconds > 0 ? 1 - share(busy_s) : 0.0; }

 private:
  double share(double part) const noexcept { return seconds > 0 ? part / seconds : 0.0; }
};

/// Prints one line, and ends it.
inline std::ostream& operator<<(std::ostream& os, const GpuActivitySummary& gpu) {
  const auto flags = os.flags();
  const auto precision = os.precision();
  const double per_cent = gpu.seconds > 0 ? 100 / gpu.seconds : 0;
  os << std::fixed << std::setprecision(1) << "GPU: kernels " << gpu.kernel_s * per_cent << " % ("
     << gpu.kernels << "), copies " << gpu.copy_s * per_cent << " % (" << gpu.copies_to_device
     << " to the device, " << gpu.copies_to_host << " to the host, " << gpu.other_copies
     << " other), both at once " << gpu.overlap_s * per_cent << " %, idle "
     << gpu.idle_share() * 100 << std::setprecision(3) << " % of " << gpu.seconds << " s";
  if (gpu.dropped != 0) {
    os << "; " << gpu.dropped << " records were lost, so that these figures are too low";
  }
  os << '\n';
  os.flags(flags);
  os.precision(precision);
  return os;
}

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
  /// How often the run reads the source; the first time only a part, if it begins at a position.
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
  /// The stage that held the others back. judge() (diagnose/verdict.hpp) says why, and what to
  /// change.
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

/// Some printed text, of one line at most: what is longer is cut off.
struct Printed {
  [[gnu::cold, gnu::format(printf, 2, 3)]] explicit Printed(const char* format, ...);
  char text[192];
};

/// Prints a number with three digits, and a letter for thousands, millions and so on.
[[gnu::cold]] Printed shortly(double number);

/// Prints "1 record", or "2 records".
[[gnu::cold]] Printed in_records(std::uint64_t count);

/// Prints the row of a stage, without an end. `last`: it waits itself.
[[gnu::cold]] void print(std::ostream& os, const Report& report, const StageReport& stage,
                         bool last);
/// Prints what the run used of the machine, in lines.
[[gnu::cold]] void print_use(std::ostream& os, const Report& report);

#if PENSTOCK_BODIES
PENSTOCK_INLINE Printed::Printed(const char* format, ...) {
  va_list values;
  va_start(values, format);
  static_cast<void>(std::vsnprintf(text, sizeof text, format, values));
  va_end(values);
}

PENSTOCK_INLINE Printed shortly(double number) {
  const char* letter = " kMGTP";
  while (number >= 999.5 && letter[1] != '\0') {
    number /= 1000;
    ++letter;
  }
  return Printed{"%.3g%.*s", number, *letter == ' ' ? 0 : 1, letter};
}

PENSTOCK_INLINE Printed in_records(std::uint64_t count) {
  return Printed{"%llu record%s", static_cast<unsigned long long>(count), count == 1 ? "" : "s"};
}

PENSTOCK_INLINE void print(std::ostream& os, const Report& report, const StageReport& stage,
                           bool last) {
  const double a_second = report.seconds > 0 ? 1 / report.seconds : 0;
  const double of_waits = report.waited_s > 0 ? 100 / report.waited_s : 0;
  // A worker's time may begin before the last stage's.
  const double waited_for = std::min(stage.busy_in_waits_s * of_waits, 100.0);
  os << (stage.name == report.limiting_stage ? "* " : "  ")
     << Printed{"%-13s", stage.name.c_str()}.text
     << Printed{"%9s %5.1f%% %7.1f%% %7.1f%%",
                Printed{"%u/%u", stage.workers_used, stage.workers}.text,
                100 * stage.busy_s * a_second, 100 * stage.starved_s * a_second,
                100 * stage.blocked_s * a_second}
            .text
     << (last ? Printed{"%11s", ""} : Printed{"%10.1f%%", waited_for}).text
     << Printed{"%7.2f %12s %10s %8.3f", stage.cpu_share,
                stage.depth == 0 ? "" : Printed{"%.1f/%zu", stage.depth_in_use, stage.depth}.text,
                shortly(static_cast<double>(stage.records) * a_second).text,
                static_cast<double>(stage.bytes) / 1e9 * a_second}
            .text;
  if (stage.unit_p99_s > 0) {
    os << Printed{" %8.3f %8.3f", stage.unit_p50_s * 1e3, stage.unit_p99_s * 1e3}.text;
  }
  if (!stage.note.empty()) {
    os << "  (" << stage.note << ')';
  }
}

PENSTOCK_INLINE void print_use(std::ostream& os, const Report& report) {
  if (report.processors != 0 && report.seconds > 0) {
    os << Printed{"  processors in use: %.2f of %u", report.cpu_s / report.seconds,
                  report.processors}
              .text;
    if (report.stolen_s + report.throttled_s > 0) {
      os << Printed{"; %.2f s stolen, %.2f s throttled", report.stolen_s, report.throttled_s}.text;
    }
    os << '\n';
  }
  os << Printed{"  memory of rings: %sB pageable, %sB pinned, %sB on the device\n",
                shortly(static_cast<double>(report.pageable_bytes)).text,
                shortly(static_cast<double>(report.pinned_bytes)).text,
                shortly(static_cast<double>(report.device_bytes)).text}
            .text;
  if (report.storage_bytes != 0) {
    os << Printed{"  fetched from storage: %sB\n",
                  shortly(static_cast<double>(report.storage_bytes)).text}
              .text;
  }
  if (report.gpu) {
    os << "  " << *report.gpu;
  }
}
#endif

} // namespace detail

/// Prints the report as a table of several lines, each ended. A * marks the stage that held the
/// others back.
[[gnu::cold]] inline std::ostream& operator<<(std::ostream& os, const Report& report) {
  const double gb = static_cast<double>(report.bytes) / 1e9;
  const double a_second = report.seconds > 0 ? 1 / report.seconds : 0;
  os << detail::Printed{"%s, %.3f GB in %.3f s: %s records/s, %.3f GB/s",
                        detail::in_records(report.records).text,
                        gb,
                        report.seconds,
                        detail::shortly(static_cast<double>(report.records) * a_second).text,
                        gb * a_second}
            .text
     << (report.device.empty() ? "" : " on ") << report.device
     << (report.stopped ? ", stopped early" : "");
  if (report.dropped != 0) {
    os << ", " << detail::in_records(report.dropped).text << " dropped";
  }
  if (report.skipped != 0) {
    os << ", " << detail::in_records(report.skipped).text << " skipped";
  }
  os << '\n';
  if (!report.stages.empty()) { // else no run has begun
    os << "  stage          workers   busy  starved  blocked waited for    cpu slots in use  "
          "records/s     GB/s   p50 ms   p99 ms\n";
  }
  for (const StageReport& stage : report.stages) {
    detail::print(os, report, stage, &stage == &report.stages.back());
    os << '\n';
  }
  if (!report.limiting_stage.empty()) {
    os << "  held back by: " << report.limiting_stage << '\n';
  }
  detail::print_use(os, report);
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
  return os;
}

} // namespace penstock
