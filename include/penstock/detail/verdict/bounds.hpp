// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/observe/limiting_stage.hpp>
#include <penstock/report.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace penstock::detail {

/// Returns which share of the processors' time the process used. Time that was taken away counts as
/// used: nobody could have it.
[[gnu::cold]] inline double processors_in_use(const Report& report) {
  const double all = report.processors * report.seconds;
  if (all <= 0) {
    return 0;
  }
  const double used = (report.cpu_s + std::max(report.stolen_s, 0.0)) / all;
  const bool held = report.throttled_s > 0.1 * report.seconds;
  return held ? 1 : std::clamp(used, 0.0, 1.0);
}

/// Returns the CPU seconds of threads that look at a device, which do not grow with the rate.
[[gnu::cold]] inline double looking_cpu_s(const Report& report) {
  double share = 0;
  for (const StageReport& stage : report.stages) {
    share += stage.kind == StageKind::to_device || stage.kind == StageKind::kernel ||
                     stage.kind == StageKind::to_host
                 ? stage.cpu_share
                 : 0;
  }
  return std::min(share * report.seconds, report.cpu_s);
}

/// The limits that a run had: each is a share, how much of what it could the run asked of it. The
/// rate of the run by the share is the most that it allows, by operational analysis, whatever order
/// things come in. The largest share is what binds, and the second largest what binds next.
class Bounds {
 public:
  struct Bound {
    double share;
    std::string name; ///< "the bus"
  };

  [[gnu::cold]] explicit Bounds(const Report& report) {
    double most_calling = 0;
    const auto& stages = report.stages;
    for (std::size_t i = 0; i < stages.size(); ++i) {
      of_stage_.push_back({share_at_work(stages, i, report.seconds), name(stages[i])});
      of_ring_.push_back({share_in_hands(stages, i, report.seconds),
                          "the depth of the " + stages[i].name + "'s ring"});
      if (stages[i].kind == StageKind::kernel && report.seconds > 0) {
        device_thread_.share += stages[i].calling_s / report.seconds;
        device_thread_of_ = stages[i].calling_s > most_calling ? i : device_thread_of_;
        most_calling = std::max(most_calling, stages[i].calling_s);
      }
    }
    const double all = report.processors * report.seconds - looking_cpu_s(report);
    const double growing = report.cpu_s - looking_cpu_s(report);
    cores_ = all > 0 ? std::clamp(growing / all, 0.0, 1.0) : 0;
    if (report.throttled_s > 0.1 * report.seconds) {
      cores_ = 1;
    }
  }

  const Bound& of(std::size_t stage) const { return of_stage_.at(stage); }
  double cores() const noexcept { return cores_; }

  /// Returns the largest share without that of stage `but`, and of the rings beside it.
  Bound without_stage(std::size_t but) const {
    return largest([&](std::size_t i) { return i == but; },
                   [&](std::size_t i) { return i == but || i + 1 == but; });
  }
  /// Returns the largest share without that of the ring that stage `but` fills.
  Bound without_ring(std::size_t but) const {
    return largest([](std::size_t) { return false; }, [&](std::size_t i) { return i == but; });
  }
  /// Returns the largest share, were there processors for all.
  [[gnu::cold]] Bound without_cores(const Report& report) const {
    Bounds free{*this};
    free.cores_ = 0;
    // Who waits for a processor is at work for longer than the work takes.
    for (std::size_t i = 0; i < of_stage_.size(); ++i) {
      if (!on_device(report.stages[i]) && report.stages[i].cpu_share > 0) {
        free.of_stage_[i].share = std::min(
            of_stage_[i].share, report.stages[i].cpu_share / usable_workers(report.stages, i));
      }
      free.of_ring_[i].share = 0;
    }
    return free.largest([](std::size_t) { return false; }, [](std::size_t) { return false; });
  }

 private:
  static std::string name(const StageReport& stage) {
    switch (stage.kind) {
    case StageKind::to_device:
      return "the bus";
    case StageKind::to_host:
      return "the bus on the way back";
    case StageKind::kernel:
      return "the kernel of the " + stage.name;
    default:
      return stage.calling_s > 0 ? "the kernel" : "the " + stage.name;
    }
  }

  template <class Stage, class Ring>
  [[gnu::cold]] Bound largest(Stage but_stage, Ring but_ring) const {
    Bound most{cores_, "the processors"};
    const auto see = [&](const Bound& bound, bool but) {
      most = !but && bound.share > most.share ? bound : most;
    };
    for (std::size_t i = 0; i < of_stage_.size(); ++i) {
      see(of_stage_[i], but_stage(i));
      see(of_ring_[i], but_ring(i));
    }
    see(device_thread_, but_stage(device_thread_of_));
    return most;
  }

  std::vector<Bound> of_stage_;
  std::vector<Bound> of_ring_;
  Bound device_thread_{0, "the thread that enqueues"};
  std::size_t device_thread_of_{}; // the stage that has most of its time
  double cores_{};
};

} // namespace penstock::detail
