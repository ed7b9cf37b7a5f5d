// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <iomanip>
#include <ostream>
#include <string>
#include <vector>

namespace penstock {

/// What one stage did in a run. Times are seconds of one worker, the mean over its workers: busy,
/// starved (waiting for what comes in) and blocked (waiting for room) make up the run. A stage on
/// the GPU is seen from its fences by the thread that polls them, so to within some microseconds.
struct StageReport {
  std::string name;
  unsigned workers{};
  std::uint64_t records{};
  std::uint64_t bytes{};
  double busy_s{};
  double starved_s{};
  double blocked_s{};
  /// CPU seconds of its threads per second of the run: 1 is one core kept busy.
  double cpu_share{};
  /// Places in the ring it fills, and how many were in use on average when one was added. A last
  /// stage fills none.
  std::size_t depth{};
  double depth_in_use{};
  /// What the stage had to decide otherwise than asked or usual, or empty.
  std::string note;
};

/// What a run did. `os << report` prints it as a table.
struct Report {
  std::vector<StageReport> stages;
  /// Call to return, without what prepare() sets up.
  double seconds{};
  /// What reached the last stage.
  std::uint64_t records{};
  std::uint64_t bytes{};
  /// Records read that a stop kept from the last stage.
  std::uint64_t dropped{};
  /// The stage that was busy for the largest share of the run: the one that held the others back.
  std::string limiting_stage;
  /// The device's name, or "none".
  std::string device;
  /// Whether a stop ended the run early.
  bool stopped{};
};

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
  os << "\n  stage          workers   busy  starved  blocked    cpu  depth in use       GB/s\n";
  const double per_cent = report.seconds > 0 ? 100 / report.seconds : 0;
  for (const StageReport& stage : report.stages) {
    os << (stage.name == report.limiting_stage ? "* " : "  ") << std::left << std::setw(14)
       << stage.name << std::right << std::setw(8) << stage.workers << std::setprecision(1)
       << std::setw(6) << stage.busy_s * per_cent << '%' << std::setw(8)
       << stage.starved_s * per_cent << '%' << std::setw(8) << stage.blocked_s * per_cent << '%'
       << std::setprecision(2) << std::setw(7) << stage.cpu_share;
    if (stage.depth != 0) {
      os << std::setprecision(1) << std::setw(7) << stage.depth_in_use << '/' << std::left
         << std::setw(6) << stage.depth << std::right;
    } else {
      os << std::setw(14) << "";
    }
    os << std::setprecision(3) << std::setw(10)
       << (report.seconds > 0 ? static_cast<double>(stage.bytes) / 1e9 / report.seconds : 0.0);
    if (!stage.note.empty()) {
      os << "  (" << stage.note << ')';
    }
    os << '\n';
  }
  os << "  held back by: " << report.limiting_stage << '\n';
  os.flags(flags);
  os.precision(precision);
  return os;
}

} // namespace penstock
