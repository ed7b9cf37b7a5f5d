// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "feed.hpp"

#include <penstock/device/device.hpp>
#include <penstock/diagnose/gpu_watch_summary.hpp>
#if defined(__CUDACC__) && defined(EXAMPLES_HAVE_CUPTI)
#include <penstock/diagnose/watch.hpp>
#endif

#include <chrono>
#include <cstdint>
#include <optional>
#include <stdexcept>

namespace transformer {

/// What steps took.
struct StepTimes {
  double seconds{};
  double waited_s{};                       ///< Of these, seconds of waiting for data.
  std::optional<std::uint64_t> syncs{};    ///< Calls that waited for the device.
  std::optional<std::uint64_t> launches{}; ///< Kernels and graphs launched, or work enqueued.
  /// What the GPU did, if somebody looked on.
  std::optional<penstock::WatchSummary> watched{};
};

/// Takes the times of steps, without what pauses them. A host device counts its calls; of a GPU,
/// CUPTI does if you ask for it, and then the pauses are in these counts.
template <penstock::AnyDevice D> class StepClock {
  static constexpr bool counts_itself = requires(const D& device) { device.counts().launches; };

 public:
  /// `watched`: whether CUPTI is to look on. Throws std::invalid_argument if it cannot.
  StepClock(D& device, const Feed<D>& feed, bool watched)
      : device_{device}, feed_{feed}, watched_{watched} {
#if !defined(EXAMPLES_HAVE_CUPTI)
    if (watched && !counts_itself) {
      throw std::invalid_argument{"this program was built without CUPTI, so nothing can look at "
                                  "the GPU: install CUPTI and build anew, or leave out --profile"};
    }
#endif
  }

  bool runs() const noexcept { return runs_; }
  /// Begins, or goes on. Waits for the stream's work before.
  void start(penstock::Stream<D> stream) {
    device_.sync(stream);
#if defined(__CUDACC__) && defined(EXAMPLES_HAVE_CUPTI)
    if constexpr (!counts_itself) {
      if (watched_ && !watch_) {
        watch_.emplace();
      }
    }
#endif
    runs_ = true;
    before_ = now();
  }
  /// Pauses, if it runs. Waits for the stream's work.
  void pause(penstock::Stream<D> stream) {
    if (!runs_) {
      return;
    }
    const Moment counted = now(); // without the wait that is the clock's own
    device_.sync(stream);
    runs_ = false;
    times_.seconds += std::chrono::duration<double>(Clock::now() - before_.at).count();
    times_.waited_s += counted.waited_s - before_.waited_s;
    if constexpr (counts_itself) {
      times_.syncs = times_.syncs.value_or(0) + (counted.syncs - before_.syncs);
      times_.launches = times_.launches.value_or(0) + (counted.launches - before_.launches);
    }
  }
  /// Ends, and returns the times. Waits as pause() does.
  StepTimes stop(penstock::Stream<D> stream) {
    pause(stream);
#if defined(__CUDACC__) && defined(EXAMPLES_HAVE_CUPTI)
    if (watch_) {
      times_.watched = watch_->stop();
      times_.syncs = times_.watched->waits.calls;
      times_.launches = times_.watched->launches.calls;
    }
#endif
    return times_;
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Moment {
    Clock::time_point at{};
    double waited_s{};
    std::uint64_t syncs{};
    std::uint64_t launches{};
  };

  Moment now() const {
    Moment moment{.waited_s = feed_.waited_s()};
    if constexpr (counts_itself) {
      const auto counts = device_.counts();
      moment.syncs = counts.syncs;
      moment.launches = counts.launches;
    }
    moment.at = Clock::now();
    return moment;
  }

  D& device_;
  const Feed<D>& feed_;
  bool watched_;
#if defined(__CUDACC__) && defined(EXAMPLES_HAVE_CUPTI)
  std::optional<penstock::Watch> watch_;
#endif
  bool runs_ = false;
  Moment before_;
  StepTimes times_;
};

} // namespace transformer
