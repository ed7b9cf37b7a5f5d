// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/detail/engine/node.hpp>
#include <penstock/detail/measure/branches.hpp>
#include <penstock/detail/measure/limiting_stage.hpp>
#include <penstock/order/detail/run_order.hpp>
#include <penstock/run/report.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <vector>

#include <sys/resource.h>

namespace penstock::detail {

/// What a Report says of a whole run, from the moment when it begins.
class RunSums {
  using Clock = std::chrono::steady_clock;
  using Nodes = Vector<Owned<Node>>;

 public:
  void begin() noexcept;
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  /// Fills in what is known after `seconds`; 0 before the first run. Allocates nothing if `report`
  /// is an earlier one of these nodes.
  [[gnu::cold]] void fill(Report& report, const Nodes& nodes, const RunControl& control,
                          const RunOrder& order, double seconds) const;

 private:
  static double waited(const RunControl& control) noexcept;
  static double cpu_now() noexcept;
  static std::uint64_t fetched_now() noexcept;

  Clock::time_point start_{};
  double cpu_start_{};
  std::uint64_t fetched_start_{};
};

/// Returns whether nothing follows a node: it is the last, or the last of a branch.
bool is_last(const Vector<Owned<Node>>& nodes, std::size_t at) noexcept;
/// Returns the place in the run's order behind all that every last stage has used up; unknown, if
/// one has none, and where several ranks have branches, whose batches may differ.
[[gnu::cold]] std::uint64_t place_of(const Vector<Owned<Node>>& nodes,
                                     const RunOrder& order) noexcept;

/// Returns how many records were read and neither skipped nor seen at the end: when a run was
/// stopped, and where short batches are left out. The end is the first stage that gives another
/// number of records than it takes: what became of the records that it took is not known.
///
///     Reader 100 -> Decoder 90, 10 left out -> Kernel 60, 2 for 1 -> Consumer 120
///     dropped = 100 - 10 - 60 = 30
///
/// Of several branches it is what the one with most has dropped.
[[gnu::cold]] std::uint64_t dropped(const std::vector<StageReport>& stages,
                                    const Vector<Owned<Node>>& nodes) noexcept;

#if PENSTOCK_BODIES
PENSTOCK_INLINE void RunSums::begin() noexcept {
  start_ = Clock::now();
  cpu_start_ = cpu_now();
  fetched_start_ = fetched_now();
}

PENSTOCK_INLINE void RunSums::fill(Report& report, const Nodes& nodes, const RunControl& control,
                                   const RunOrder& order, double seconds) const {
  report.seconds = seconds;
  report.cpu_s = seconds > 0 ? cpu_now() - cpu_start_ : 0;
  report.storage_bytes = seconds > 0 ? fetched_now() - fetched_start_ : 0;
  report.waited_s = seconds > 0 ? waited(control) : 0;
  report.epochs = order.epochs() - order.first_epoch();
  report.stopped = control.stopped();
  control.copy_error(report.error);
  if (report.stages.size() != nodes.size()) {
    std::vector<StageReport>(nodes.size()).swap(report.stages);
  }
  report.observed = false;
  report.stolen_s = report.throttled_s = 0;
  report.gpu.reset();
  report.skipped = 0;
  report.pageable_bytes = report.pinned_bytes = report.device_bytes = 0;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    StageReport& stage = report.stages[i];
    nodes[i]->report(seconds, stage);
    report.skipped += stage.skipped;
    (stage.ring_memory == MemoryKind::pageable ? report.pageable_bytes
     : stage.ring_memory == MemoryKind::pinned ? report.pinned_bytes
                                               : report.device_bytes) += stage.ring_bytes;
  }
  control.skips().copy(report.skips);
  report.position = order.position(place_of(nodes, order));
  report.records = report.stages.back().records;
  report.bytes = report.stages.back().bytes;
  if (has_branches(report.stages)) {
    const std::vector<StageReport> chain = slowest_chain(report.stages);
    report.limiting_stage = chain[limiting_stage(chain, seconds, chain.back().starved_s)].name;
  } else {
    report.limiting_stage =
        report.stages[limiting_stage(report.stages, seconds, report.waited_s)].name;
  }
}

PENSTOCK_INLINE bool is_last(const Vector<Owned<Node>>& nodes, std::size_t at) noexcept {
  return at + 1 == nodes.size() ||
         (nodes[at]->kind() != StageKind::tee && nodes[at]->branch() != nodes[at + 1]->branch());
}

PENSTOCK_INLINE std::uint64_t place_of(const Vector<Owned<Node>>& nodes,
                                       const RunOrder& order) noexcept {
  if (nodes.back()->branch().empty()) {
    return nodes.back()->place();
  }
  std::uint64_t first = RunOrder::unknown;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (is_last(nodes, i)) {
      const std::uint64_t place = nodes[i]->place();
      if (place == RunOrder::unknown || !order.one_rank()) {
        return RunOrder::unknown;
      }
      first = std::min(first, place);
    }
  }
  return first;
}

PENSTOCK_INLINE double RunSums::waited(const RunControl& control) noexcept {
  const auto now = Clock::now().time_since_epoch() / std::chrono::nanoseconds{1};
  return static_cast<double>(control.waits().at(static_cast<std::uint64_t>(now))) / 1e9;
}

PENSTOCK_INLINE double RunSums::cpu_now() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

PENSTOCK_INLINE std::uint64_t RunSums::fetched_now() noexcept {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  return static_cast<std::uint64_t>(used.ru_inblock) * 512; // the blocks of getrusage(2)
}

PENSTOCK_INLINE std::uint64_t dropped(const std::vector<StageReport>& stages,
                                      const Vector<Owned<Node>>& nodes) noexcept {
  std::uint64_t most = 0;
  for (std::size_t last = 0; last != nodes.size(); ++last) {
    std::uint64_t left = stages.front().records;
    for (std::size_t i = 1; is_last(nodes, last) && i <= last; ++i) {
      if (comes_through(nodes[last]->branch(), nodes[i]->branch())) {
        left -= stages[i].skipped;
        if (i == last || nodes[i]->recounts()) {
          most = std::max(most, left - stages[i].records);
          break;
        }
      }
    }
  }
  return most;
}
#endif

} // namespace penstock::detail
