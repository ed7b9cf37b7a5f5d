// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/measure/limiting_stage.hpp>
#include <penstock/run/report.hpp>

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

/// Returns the CPU seconds of threads that look at a device, or hand slots on, which do not grow
/// with the rate.
[[gnu::cold]] inline double looking_cpu_s(const Report& report) {
  double share = 0;
  for (const StageReport& stage : report.stages) {
    share += stage.kind == StageKind::copy_to_device || stage.kind == StageKind::kernel ||
                     stage.kind == StageKind::copy_to_host || stage.kind == StageKind::fan_out
                 ? stage.cpu_share
                 : 0;
  }
  return std::min(share * report.seconds, report.cpu_s);
}

/// Returns whether at least half of what the Reader read came from storage, and not from memory.
[[gnu::cold]] inline bool reads_cold(const Report& report) {
  return !report.stages.empty() && report.stages.front().bytes != 0 &&
         2 * report.storage_bytes >= report.stages.front().bytes;
}

/// Returns which share of the run the device's kernels ran, as CUPTI tells; below 0 if nobody does.
/// It does not tell devices apart.
[[gnu::cold]] inline double kernel_share(const Report& report) {
  return report.gpu && report.gpu->dropped == 0 && report.seconds > 0 &&
                 copiers(report.stages, first_branch(report.stages), report.stages.size()) <= 1
             ? std::min(report.gpu->kernel_s / report.seconds, 1.0)
             : -1;
}

inline constexpr const char* all_cores = "all cores";
inline constexpr const char* same_stage = "the same stage";

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
      small_copies_.push_back(copies_into_a_full_ring(stages[i]));
      unsure_ = unsure_ || small_copies_.back();
      if (on_device(stages[i])) {
        // Waits last as long as what is waited for.
        const double calling = device_has_backlog(stages[i], report.seconds)
                                   ? 0
                                   : std::max(stages[i].calling_s - stages[i].calls.wait_s, 0.0);
        threads_.push_back({calling / report.seconds, "the thread that enqueues"});
      } else {
        threads_.push_back({0, ""});
      }
      if (stages[i].kind == StageKind::kernel) {
        device_thread_ += threads_.back().share;
        device_thread_of_ = stages[i].calling_s > most_calling ? i : device_thread_of_;
        most_calling = std::max(most_calling, stages[i].calling_s);
      }
    }
    for (std::size_t i = 0; i < stages.size(); ++i) {
      if (report.seconds > 0 && is_end(stages, i) && waits_for_copies(stages, i, report.seconds)) {
        // What the device and the thread do beside waits is all that is known of them.
        const StageReport& last = stages[i];
        const double works = std::max((last.busy_s - last.calling_s) / report.seconds, 0.0);
        of_stage_[i].share = std::max(works, kernel_share(report));
        threads_[i].share *= has_calls(last) ? 1 : 0;
        unsure_ = true;
      }
      std::size_t same = 0;
      while (same != i && !do_the_same(stages, same, i)) {
        ++same;
      }
      same_as_.push_back(same);
    }
    if (reads_cold(report)) {
      // A read may take the longer the more go on at once. Its longest times then are those of all
      // at once.
      const StageReport& reader = stages.front();
      const double at_once = static_cast<double>(reader.units) * reader.unit_p99_s /
                             usable_workers(stages, 0) / report.seconds;
      reads_ = reader.workers > 1 ? std::clamp(at_once, of_stage_.front().share, 1.0) : 0;
    }
    const double looking = looking_cpu_s(report);
    const double all = report.processors * report.seconds - looking;
    cores_ = all > 0 ? std::clamp((report.cpu_s - looking) / all, 0.0, 1.0) : 0;
    cores_ = report.throttled_s > 0.1 * report.seconds ? 1 : cores_;
  }

  /// Returns the share of a stage, or of its work on the device.
  const Bound& of(std::size_t stage) const { return of_stage_.at(stage); }
  /// Returns the share that the Reader may have if all its workers read at once from storage; 0 if
  /// that is none of its limits.
  double reads() const noexcept { return reads_; }
  /// Returns whether some limit is not known: of a copier that others keep from larger copies.
  bool unsure() const noexcept { return unsure_; }
  /// Returns the largest share without that of stage `but`, and of what does the same for other
  /// devices: a change is for all.
  Bound without_stage(std::size_t but) const { return largest(but, but); }
  /// Returns it without that of the stage's work on the device; its thread counts.
  Bound without_device(std::size_t but) const { return largest(but, of_stage_.size()); }
  /// Returns it without that of stage `but`, if the ring that stage `at` fills had slots for all.
  [[gnu::cold]] Bound with_deeper_ring(const Report& report, std::size_t at,
                                       std::size_t but) const {
    Bounds deeper{*this};
    for (const std::size_t i : {at, at + 1}) {
      if (i < of_stage_.size() && !on_device(report.stages[i])) {
        deeper.of_stage_[i].share *=
            usable_workers(report.stages, i) / std::max(report.stages[i].workers, 1U);
      }
    }
    return deeper.without_stage(but);
  }
  /// Returns it without that of stage `but`, were there processors for all.
  [[gnu::cold]] Bound without_cores(const Report& report, std::size_t but) const {
    Bounds free{*this};
    free.cores_ = 0;
    // Who waits for a processor is at work for longer than the work takes. Nobody waits for more
    // than the one who waits least, of those who only compute.
    double stretch = 50;
    for (const StageReport& stage : report.stages) {
      if (!on_device(stage) && stage.cpu_share > 0.05) {
        stretch =
            std::min(stretch, worked(stage, report.seconds) / report.seconds / stage.cpu_share);
      }
    }
    for (std::size_t i = 0; i < of_stage_.size(); ++i) {
      const StageReport& stage = report.stages[i];
      const double waits = std::max(stretch - 1, 0.0) * stage.cpu_share;
      const double fewer = waits / usable_workers(report.stages, i);
      free.of_stage_[i].share = std::max(of_stage_[i].share - fewer, 0.0);
      free.threads_[i].share = std::max(threads_[i].share - fewer, 0.0);
    }
    free.device_thread_ = std::max(
        device_thread_ - std::max(stretch - 1, 0.0) * looking_cpu_s(report) / report.seconds, 0.0);
    return free.without_stage(but);
  }
  /// Takes CPU seconds that a change spares from what grows with the rate, and from the copiers'
  /// time that of copies for whose end theirs may have waited.
  [[gnu::cold]] Bounds sparing(const Report& report, double cpu_s, double copies_s = 0) const {
    Bounds spared{*this};
    for (std::size_t i = 0; i < of_stage_.size(); ++i) {
      const StageKind kind = report.stages[i].kind;
      const bool copies = kind == StageKind::copy_to_device || kind == StageKind::copy_to_host;
      spared.of_stage_[i].share -=
          copies ? std::min(copies_s / report.seconds, of_stage_[i].share) : 0;
    }
    const double growing = report.cpu_s - looking_cpu_s(report);
    spared.cores_ *= growing > 0 ? std::clamp(1 - cpu_s / growing, 0.0, 1.0) : 0;
    return spared;
  }

 private:
  static std::string name(const StageReport& stage) {
    switch (stage.kind) {
    case StageKind::copy_to_device:
      return "the bus";
    case StageKind::copy_to_host:
      return "the bus on the way back";
    case StageKind::kernel:
      return "the kernel of the " + stage.name;
    default:
      return stage.calling_s > 0 ? "the kernel" : "the " + stage.name;
    }
  }
  [[gnu::cold]] Bound largest(std::size_t but_stage, std::size_t but_thread) const {
    Bound most{cores_, all_cores};
    const auto same = [&](std::size_t i, std::size_t but) {
      return but < same_as_.size() && same_as_[i] == same_as_[but];
    };
    const auto see = [&](const Bound& bound, bool but) {
      most = !but && bound.share > most.share ? bound : most;
    };
    for (std::size_t i = 0; i < of_stage_.size(); ++i) {
      see(of_stage_[i], same(i, but_stage) || small_copies_[i]);
      see(threads_[i], same(i, but_thread));
    }
    see({device_thread_, "the thread that enqueues"}, but_thread == device_thread_of_);
    return most;
  }

  std::vector<Bound> of_stage_;
  std::vector<Bound> threads_;     // that enqueue, by stage
  double device_thread_{};         // calls all Kernels
  std::size_t device_thread_of_{}; // the stage that has most of its time
  double cores_{};
  double reads_{};
  std::vector<bool> small_copies_;   // whose share says nothing
  std::vector<std::size_t> same_as_; // the first stage that does the same, perhaps itself
  bool unsure_{};
};

} // namespace penstock::detail
