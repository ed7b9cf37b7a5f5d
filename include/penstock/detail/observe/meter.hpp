// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/config.hpp>
#include <penstock/detail/observe/unit_times.hpp>
#include <penstock/report.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>

namespace penstock::detail {

enum class Activity : std::uint8_t { busy, starved, blocked, resting };

/// Where one worker's time goes and what it gets done. Only its own thread writes to it.
class alignas(cache_line) Meter {
  template <class T> using Atomic = StdAtomics::Atomic<T>;
  static constexpr auto relaxed = StdAtomics::relaxed;

 public:
  using Clock = std::chrono::steady_clock;

  /// Clears all, before a run, while the workers rest.
  void clear() noexcept {
    units_.clear();
    for (auto& time : times_) {
      time.store(0, relaxed);
    }
    for (Atomic<std::uint64_t>* count :
         {&records_, &bytes_, &skipped_, &retries_, &additions_, &in_use_, &cpu_ns_}) {
      count->store(0, relaxed);
    }
  }
  void start() noexcept {
    now_in(Activity::starved);
    last_ = Clock::now();
    cpu_start_ = thread_cpu_ns();
  }
  /// Books the time since the last call for `on`, says that `next` begins, and returns that time.
  /// Time that was busy is a unit's.
  Clock::duration spent(Activity on, Activity next) noexcept {
    const Clock::duration time = went_by(on, next);
    if (on == Activity::busy) {
      units_.add(static_cast<std::uint64_t>(time / std::chrono::nanoseconds{1}));
    }
    return time;
  }
  /// Does so for what is only looked at from time to time: the time is no unit's.
  Clock::duration went_by(Activity on, Activity next) noexcept {
    const Clock::time_point now = Clock::now();
    const Clock::duration time = now - last_;
    add(times_[static_cast<std::size_t>(on)],
        static_cast<std::uint64_t>(time / std::chrono::nanoseconds{1}));
    last_ = now;
    now_in(next);
    return time;
  }
  /// Says that `next` begins, after `on`: what came at once took no time worth a look at the clock,
  /// which costs more than a small slot's way through a ring.
  void goes_on(bool at_once, Activity on, Activity next) noexcept {
    at_once ? now_in(next) : static_cast<void>(spent(on, next));
  }
  void now_in(Activity next) noexcept { now_.store(next, relaxed); }
  void did(std::uint64_t records, std::uint64_t bytes) noexcept {
    add(records_, records);
    add(bytes_, bytes);
  }
  void skipped(std::uint64_t records) noexcept { add(skipped_, records); }
  void tried_again() noexcept { add(retries_, 1); }
  /// Books how many slots of the ring were in use when one was added. The slot itself counts,
  /// although a taker that waits may have counted it as taken.
  void found_in_use(std::uint64_t places) noexcept {
    add(additions_, 1);
    add(in_use_, std::max<std::uint64_t>(places, 1));
  }
  /// Books the calling thread's CPU time since start().
  void stop() noexcept {
    add(cpu_ns_, thread_cpu_ns() - cpu_start_);
    now_in(Activity::resting);
  }

  std::uint64_t records() const noexcept { return records_.load(relaxed); }

  /// Sums up the workers of one stage.
  [[gnu::cold]] static void sum(const Meter* meters, std::size_t count, double seconds,
                                StageReport& stage) {
    std::uint64_t additions = 0;
    std::uint64_t in_use = 0;
    UnitTimes::Sum units;
    stage.records = stage.bytes = stage.skipped = stage.retries = 0;
    stage.busy_now = stage.starved_now = stage.blocked_now = 0;
    stage.busy_s = stage.starved_s = stage.blocked_s = stage.cpu_share = 0;
    const auto workers = static_cast<double>(count);
    for (const Meter* at = meters; at != meters + count; ++at) {
      const Meter& meter = *at;
      stage.records += meter.records();
      stage.bytes += meter.bytes_.load(relaxed);
      stage.skipped += meter.skipped_.load(relaxed);
      stage.retries += meter.retries_.load(relaxed);
      stage.busy_s += meter.seconds(Activity::busy) / workers;
      stage.starved_s += meter.seconds(Activity::starved) / workers;
      stage.blocked_s += meter.seconds(Activity::blocked) / workers;
      stage.cpu_share += static_cast<double>(meter.cpu_ns_.load(relaxed)) / 1e9;
      const Activity now = meter.now_.load(relaxed);
      stage.busy_now += now == Activity::busy ? 1 : 0;
      stage.starved_now += now == Activity::starved ? 1 : 0;
      stage.blocked_now += now == Activity::blocked ? 1 : 0;
      units.add(meter.units_);
      additions += meter.additions_.load(relaxed);
      in_use += meter.in_use_.load(relaxed);
    }
    stage.workers = static_cast<unsigned>(count);
    stage.unit_p50_s = units.at_most(0.5);
    stage.unit_p99_s = units.at_most(0.99);
    stage.cpu_share = seconds > 0 ? stage.cpu_share / seconds : 0;
    stage.depth_in_use =
        additions != 0 ? static_cast<double>(in_use) / static_cast<double>(additions) : 0;
  }

 private:
  // One writer: no read-modify-write is needed.
  static void add(Atomic<std::uint64_t>& sum, std::uint64_t more) noexcept {
    sum.store(sum.load(relaxed) + more, relaxed);
  }
  double seconds(Activity on) const noexcept {
    return static_cast<double>(times_[static_cast<std::size_t>(on)].load(relaxed)) / 1e9;
  }
  static std::uint64_t thread_cpu_ns() noexcept {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
           static_cast<std::uint64_t>(now.tv_nsec);
  }

  std::array<Atomic<std::uint64_t>, 3> times_{};
  UnitTimes units_;
  Atomic<std::uint64_t> records_{0};
  Atomic<std::uint64_t> bytes_{0};
  Atomic<std::uint64_t> skipped_{0};
  Atomic<std::uint64_t> retries_{0};
  Atomic<std::uint64_t> additions_{0};
  Atomic<std::uint64_t> in_use_{0};
  Atomic<std::uint64_t> cpu_ns_{0};
  Atomic<Activity> now_{Activity::resting};
  Clock::time_point last_{};
  std::uint64_t cpu_start_{};
};

} // namespace penstock::detail
