// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/config.hpp>
#include <penstock/detail/measure/times.hpp>
#include <penstock/ring/detail/wait_word.hpp>
#include <penstock/run/stage_report.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <utility>

namespace penstock::detail {

/// How long the last stage of a pipeline has waited for input since the run began. One thread says
/// when a wait begins and ends; any thread reads, at a time of its own, and so learns how much of
/// an interval of its own the last stage waited. Times are nanoseconds of the steady clock.
class WaitClock {
  static constexpr auto relaxed = StdAtomics::relaxed;

 public:
  void reset() noexcept { word_.store(0, relaxed); }
  /// @{
  /// Says that a wait began, or ended, at `now`. They alternate; one thread.
  void begin(std::uint64_t now) noexcept { set(now - at(now), true); }
  void end(std::uint64_t now) noexcept { set(at(now), false); }
  /// @}
  /// Returns the time waited until `now`. A reader whose `now` is older than a change that it sees
  /// gets the time at that change, or less, by as much as its `now` is older; at least 0.
  std::uint64_t at(std::uint64_t now) const noexcept {
    const std::uint64_t word = word_.load(relaxed);
    const std::uint64_t time = word >> 1U;
    return (word & 1U) == 0 ? time : now - (now > time ? time : now);
  }

 private:
  void set(std::uint64_t time, bool waits) noexcept {
    word_.store(time << 1U | (waits ? 1U : 0U), relaxed);
  }

  // While a wait goes on, what the clock is ahead of the sum; else the sum. Its lowest bit says
  // which: one word, so that no reader sees half of a change.
  StdAtomics::Atomic<std::uint64_t> word_{0};
};

enum class Activity : std::uint8_t { busy, starved, blocked, resting };

/// Where one worker's time goes and what it gets done. Only its own thread writes to it.
class alignas(cache_line) Meter {
  template <class T> using Atomic = StdAtomics::Atomic<T>;
  static constexpr auto relaxed = StdAtomics::relaxed;

 public:
  using Clock = std::chrono::steady_clock;

  /// Has it tell how much of its time the last stage waited. `leads`: it is itself the one that
  /// says when that waits. To be called before the first run.
  void watch(WaitClock& waits, bool leads) noexcept;
  /// Clears all, before a run, while the workers rest.
  void clear() noexcept;
  void start() noexcept;
  /// Books the time since the last call for `on`, says that `next` begins, and returns that time.
  /// Time that was busy is a unit's, and is returned with what it took before it paused.
  Clock::duration spent(Activity on, Activity next) noexcept {
    Clock::duration time = went_by(on, next);
    if (on == Activity::busy) {
      time += std::exchange(before_pause_, {});
      units_.add(ns(time));
    }
    return time;
  }
  /// Books the time since the last call for a unit that waits, for `next`, and then goes on.
  void pause(Activity next) noexcept { before_pause_ += went_by(Activity::busy, next); }
  /// Books time as spent() does, for what is only looked at from time to time: it is no unit's.
  Clock::duration went_by(Activity on, Activity next) noexcept {
    const Clock::time_point now = Clock::now();
    const Clock::duration time = now - last_;
    add(times_[static_cast<std::size_t>(on)], ns(time));
    if (waits_ != nullptr) {
      meet_waits(ns(now.time_since_epoch()), ns(time), on, next);
    }
    last_ = now;
    now_in(next);
    return time;
  }
  /// Returns what its thread is to call before it falls asleep for input: nothing unless it leads.
  BeforeSleep before_waits() noexcept {
    BeforeSleep calls;
    if (leads_) {
      calls = {[](void* meter) noexcept { static_cast<Meter*>(meter)->begin_wait(); }, this};
    }
    return calls;
  }
  /// Says that a wait for input began when time was last booked, if one goes on and is not known
  /// yet: for the meter that leads. Its own thread calls it before it falls asleep.
  void begin_wait() noexcept {
    if (leads_ && !waiting_ && now_.load(relaxed) == Activity::starved) {
      waits_->begin(ns(last_.time_since_epoch()));
      waiting_ = true;
    }
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
  void stop() noexcept;

  std::uint64_t records() const noexcept { return records_.load(relaxed); }
  /// Where what its callable asks of a device counts.
  CallCounts& calls() noexcept { return calls_; }
  /// How long its callable keeps the thread, if that enqueues work on a device.
  CallTimes& call_times() noexcept { return call_times_; }

  /// Sums up the workers of one stage.
  [[gnu::cold]] static void sum(const Meter* meters, std::size_t count, double seconds,
                                StageReport& stage);

 private:
  using Times = std::array<Atomic<std::uint64_t>, 3>;

  static std::uint64_t ns(Clock::duration time) noexcept {
    return static_cast<std::uint64_t>(time / std::chrono::nanoseconds{1});
  }
  // Books how much of the time just booked the last stage waited.
  void meet_waits(std::uint64_t now, std::uint64_t time, Activity on, Activity next) noexcept;

  // One writer: no read-modify-write is needed.
  static void add(Atomic<std::uint64_t>& sum, std::uint64_t more) noexcept {
    sum.store(sum.load(relaxed) + more, relaxed);
  }
  static double seconds_of(const Times& times, Activity on) noexcept;
  static std::uint64_t thread_cpu_ns() noexcept;

  // What every unit touches comes first, in few cache lines.
  Times times_{};
  Atomic<std::uint64_t> records_{0};
  Atomic<std::uint64_t> bytes_{0};
  Atomic<std::uint64_t> additions_{0};
  Atomic<std::uint64_t> in_use_{0};
  Clock::time_point last_{};
  Clock::duration before_pause_{}; // of the unit at hand
  WaitClock* waits_{};
  std::uint64_t waited_{}; // what `waits_` said at `last_`
  Atomic<Activity> now_{Activity::resting};
  bool leads_{};
  bool waiting_{}; // has told so
  UnitTimes units_;
  Times times_in_waits_{};
  CallTimes call_times_;
  CallCounts calls_;
  Atomic<std::uint64_t> skipped_{0};
  Atomic<std::uint64_t> retries_{0};
  Atomic<std::uint64_t> cpu_ns_{0};
  std::uint64_t cpu_start_{};
};

#if PENSTOCK_BODIES
PENSTOCK_INLINE void Meter::watch(WaitClock& waits, bool leads) noexcept {
  waits_ = &waits;
  leads_ = leads;
}

PENSTOCK_INLINE void Meter::clear() noexcept {
  before_pause_ = {};
  units_.clear();
  calls_.clear();
  call_times_.clear();
  for (auto* times : {&times_, &times_in_waits_}) {
    for (auto& time : *times) {
      time.store(0, relaxed);
    }
  }
  for (Atomic<std::uint64_t>* count :
       {&records_, &bytes_, &skipped_, &retries_, &additions_, &in_use_, &cpu_ns_}) {
    count->store(0, relaxed);
  }
}

PENSTOCK_INLINE void Meter::start() noexcept {
  now_in(Activity::starved);
  last_ = Clock::now();
  waited_ = waits_ != nullptr ? waits_->at(ns(last_.time_since_epoch())) : 0;
  cpu_start_ = thread_cpu_ns();
}

PENSTOCK_INLINE void Meter::stop() noexcept {
  add(cpu_ns_, thread_cpu_ns() - cpu_start_);
  now_in(Activity::resting);
}

PENSTOCK_INLINE void Meter::sum(const Meter* meters, std::size_t count, double seconds,
                                StageReport& stage) {
  std::uint64_t additions = 0;
  std::uint64_t in_use = 0;
  UnitTimes::Sum units;
  stage.records = stage.bytes = stage.skipped = stage.retries = 0;
  stage.busy_now = stage.starved_now = stage.blocked_now = 0;
  stage.busy_s = stage.starved_s = stage.blocked_s = stage.cpu_share = 0;
  stage.busy_in_waits_s = stage.starved_in_waits_s = stage.blocked_in_waits_s = 0;
  stage.calling_s = stage.queued_s = 0;
  stage.calls = {};
  stage.units = stage.workers_used = 0;
  const auto workers = static_cast<double>(count);
  for (const Meter* at = meters; at != meters + count; ++at) {
    const Meter& meter = *at;
    stage.records += meter.records();
    stage.bytes += meter.bytes_.load(relaxed);
    stage.skipped += meter.skipped_.load(relaxed);
    stage.retries += meter.retries_.load(relaxed);
    stage.busy_s += seconds_of(meter.times_, Activity::busy) / workers;
    stage.starved_s += seconds_of(meter.times_, Activity::starved) / workers;
    stage.blocked_s += seconds_of(meter.times_, Activity::blocked) / workers;
    stage.busy_in_waits_s += seconds_of(meter.times_in_waits_, Activity::busy) / workers;
    stage.starved_in_waits_s += seconds_of(meter.times_in_waits_, Activity::starved) / workers;
    stage.blocked_in_waits_s += seconds_of(meter.times_in_waits_, Activity::blocked) / workers;
    stage.calling_s += meter.call_times_.seconds() / workers;
    meter.calls_.add_to(stage.calls);
    const std::uint64_t did = units.add(meter.units_) + meter.call_times_.calls();
    stage.units += did;
    stage.workers_used += did != 0 || meter.records() != 0 ? 1U : 0U;
    stage.cpu_share += static_cast<double>(meter.cpu_ns_.load(relaxed)) / 1e9;
    const Activity now = meter.now_.load(relaxed);
    stage.busy_now += now == Activity::busy ? 1 : 0;
    stage.starved_now += now == Activity::starved ? 1 : 0;
    stage.blocked_now += now == Activity::blocked ? 1 : 0;
    additions += meter.additions_.load(relaxed);
    in_use += meter.in_use_.load(relaxed);
  }
  stage.calling_s = std::min(stage.calling_s, seconds); // a timed call may count for 16
  stage.workers = static_cast<unsigned>(count);
  stage.unit_p50_s = units.at_most(0.5);
  stage.unit_p99_s = units.at_most(0.99);
  stage.cpu_share = seconds > 0 ? stage.cpu_share / seconds : 0;
  stage.depth_in_use =
      additions != 0 ? static_cast<double>(in_use) / static_cast<double>(additions) : 0;
}

PENSTOCK_INLINE void Meter::meet_waits(std::uint64_t now, std::uint64_t time, Activity on,
                                       Activity next) noexcept {
  const std::uint64_t waited = waits_->at(now);
  // The clock may have been set by a thread whose time is ahead of `now`.
  if (waited > waited_) {
    add(times_in_waits_[static_cast<std::size_t>(on)], std::min(waited - waited_, time));
    waited_ = waited;
  }
  if (waiting_ && next != Activity::starved) {
    waits_->end(now);
    waiting_ = false;
  }
}

PENSTOCK_INLINE double Meter::seconds_of(const Times& times, Activity on) noexcept {
  return static_cast<double>(times[static_cast<std::size_t>(on)].load(relaxed)) / 1e9;
}

PENSTOCK_INLINE std::uint64_t Meter::thread_cpu_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}
#endif

} // namespace penstock::detail
