// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/detail/measure/calls_here.hpp>

#include <chrono>
#include <cstdint>

namespace penstock::detail {

/// How long a callable keeps its thread, in all its calls. Only that thread adds. It looks at the
/// clock for every call, but where calls are short on average for one of several, which counts for
/// all of them: the clock costs as much as a hundredth of the shortest.
class CallTimes {
  using Number = StdAtomics::Atomic<std::uint64_t>;
  static constexpr auto relaxed = StdAtomics::relaxed;
  using Clock = std::chrono::steady_clock;

 public:
  void clear() noexcept {
    calls_.store(0, relaxed);
    ns_.store(0, relaxed);
    each_ = 1;
    skips_ = 0;
  }
  /// A call begins. Calls do not nest.
  void begin() noexcept {
    looks_ = skips_ == 0;
    if (looks_) {
      begin_ = Clock::now();
    } else {
      --skips_;
    }
  }
  /// That call ends.
  void end() noexcept {
    calls_.store(calls() + 1, relaxed);
    if (looks_) {
      const auto ns =
          static_cast<std::uint64_t>((Clock::now() - begin_) / std::chrono::nanoseconds{1});
      const std::uint64_t sum = ns_.load(relaxed) + ns * each_;
      ns_.store(sum, relaxed);
      each_ = sum < short_ns * calls() ? one_of : 1;
      skips_ = each_ - 1;
    }
  }

  std::uint64_t calls() const noexcept { return calls_.load(relaxed); }
  double seconds() const noexcept { return static_cast<double>(ns_.load(relaxed)) / 1e9; }

 private:
  static constexpr std::uint64_t short_ns = 4'096;
  static constexpr std::uint64_t one_of = 16;

  Number calls_{0};
  Number ns_{0};
  std::uint64_t each_{1}; // calls for which the next that is looked at counts
  std::uint64_t skips_{}; // calls until then
  bool looks_{};
  Clock::time_point begin_{};
};

/// While it lives, its thread is in a callable that enqueues work on a device.
class [[nodiscard]] Calling {
 public:
  Calling(CallTimes& times, CallCounts& counts) noexcept : times_{times}, here_{&counts} {
    times_.begin();
  }
  Calling(const Calling&) = delete;
  Calling& operator=(const Calling&) = delete;
  ~Calling() { times_.end(); }

 private:
  CallTimes& times_;
  const CallsCountIn here_;
};

} // namespace penstock::detail
