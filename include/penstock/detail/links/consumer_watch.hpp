// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/detail/measure/meter.hpp>
#include <penstock/device/fence.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace penstock::detail {

/// How many events a device ring has for the uses of its batches: if it has more than 64 places, a
/// 64th of them share one. Uses of two laps may be open at once, since a place is filled again in
/// stream order.
inline constexpr std::size_t most_use_events = 129;
/// How many it has for uses by second streams.
inline constexpr std::size_t most_other_events = 65;

/// What the last stage does with the batches of a device ring, and how long the GPU works on them.
/// The consumer's thread says what it does, the device thread watches, and the Report has what that
/// thread saw.
template <AnyDevice D> class ConsumerWatch {
  using Number = StdAtomics::Atomic<std::uint64_t>;
  static constexpr auto relaxed = StdAtomics::relaxed;

 public:
  /// `most` uses may be open at once.
  ConsumerWatch(D& device, std::size_t most)
      : uses_{device, std::min(most, most_use_events), most},
        tickets_(std::min(most, most_use_events)), records_(most) {}

  /// Says that the callable is about to enqueue work, from `record` on. It has the thread until
  /// that use is recorded, or left() is called. Only the consumer's thread calls it.
  void enter(std::uint64_t record) noexcept {
    at(records_, next()).store(record, relaxed);
    entered_.store(next(), relaxed);
  }
  /// Marks the work enqueued on `stream` as the use of `count` batches, one of which is `ticket`,
  /// and the first of which is `record`. Returns its fence. Batches may be given back in any order.
  /// May throw. Only the consumer's thread calls it.
  Fence<D> use_up(Stream<D> stream, std::uint64_t ticket, std::uint64_t record,
                  std::size_t count = 1) {
    at(records_, next()).store(record, relaxed);
    const std::uint64_t serial = uses_.record(stream, count);
    // The device thread may look in between, and takes an older use for this one, once.
    tickets_[uses_.answer(serial)].store(ticket, relaxed);
    return {&uses_, serial};
  }
  /// Says that the callable is done, and enqueued nothing that is to be recorded. Only the
  /// consumer's thread calls it.
  void left() noexcept { entered_.store(0, relaxed); }
  /// Says that the consumer's thread takes part in the run from now on: what it did before counts
  /// as its own work. Only that thread calls it.
  void arrive() noexcept {
    left();
    away_.store(false, relaxed);
  }
  /// Says, at the end, that all uses are over. Only the consumer's thread calls it.
  void finish() noexcept {
    finished_.store(true, StdAtomics::release); // pairs with finished()
  }

  /// Returns the fences of all uses.
  Timeline<D>& uses() noexcept { return uses_; }
  /// Has later work on `stream` wait for all uses so far.
  void wait(Stream<D> stream) { uses_.wait(stream, uses_.was_recorded()); }
  /// Blocks until all uses so far are over.
  void sync() { uses_.sync(); }

  /// Has it say on this clock when the device waits for input, from the next run on.
  void lead(WaitClock& waits) noexcept { meter_.watch(waits, true); }
  /// Forgets the last run, before the next.
  void reset() noexcept {
    finished_.store(false, relaxed);
    meter_.clear();
    away_.store(true, relaxed);
    queued_ns_.store(0, relaxed);
    queued_ = false;
  }
  /// The device thread calls begin() before it looks for the first time, and rest() after the last.
  /// @{
  void begin() noexcept {
    meter_.start();
    go_on(away_.load(relaxed) ? Activity::busy : Activity::starved);
  }
  void rest() noexcept { meter_.went_by(doing_, Activity::resting); }
  /// @}
  /// Looks at what is going on; returns true while a use is open that only its fence will end. A
  /// callable that has the thread is none: when it is done, the places that it gives back ring.
  /// `ready` tells of a ticket whether its batch is there: work may still be waiting for it. Only
  /// the device thread calls it.
  template <class F> bool look(F ready) {
    const std::uint64_t oldest = uses_.oldest_open();
    const bool calling = entered_.load(relaxed) > uses_.was_recorded();
    // Asked of the last of those that share an event: of the first, one that is done would count as
    // going on while the others wait for their copy.
    const bool works = oldest != 0 && ready(tickets_[uses_.answer(oldest)].load(relaxed));
    const bool busy = works || calling || away_.load(relaxed);
    const Activity now = busy ? Activity::busy : Activity::starved;
    const Meter::Clock::duration time = meter_.went_by(doing_, now);
    if (queued_) {
      const auto ns = static_cast<std::uint64_t>(time / std::chrono::nanoseconds{1});
      queued_ns_.store(queued_ns_.load(relaxed) + ns, relaxed);
    }
    queued_ = works;
    go_on(now);
    return oldest != 0;
  }
  /// Returns whether the consumer has said that all uses are over. Only the device thread calls it.
  bool finished() const noexcept {
    return finished_.load(StdAtomics::acquire); // pairs with finish()
  }

  /// Returns the first record of the oldest use that is not known to be over. Any thread.
  [[gnu::cold]] std::optional<std::uint64_t> open_record() const noexcept {
    const std::uint64_t oldest = uses_.was_reached() + 1;
    // While the callable has the thread, the work that it enqueued is open too, and not yet
    // recorded.
    const std::uint64_t newest = std::max(uses_.was_recorded(), entered_.load(relaxed));
    return oldest <= newest ? std::optional{at(records_, oldest).load(relaxed)} : std::nullopt;
  }
  /// Replaces the thread's times by the GPU's.
  [[gnu::cold]] void report(double seconds, StageReport& stage) const {
    StageReport gpu;
    Meter::sum(&meter_, 1, seconds, gpu);
    stage.queued_s = static_cast<double>(queued_ns_.load(relaxed)) / 1e9;
    stage.busy_s = gpu.busy_s;
    stage.starved_s = gpu.starved_s;
    stage.blocked_s = 0;
    stage.busy_in_waits_s = gpu.busy_in_waits_s;
    stage.starved_in_waits_s = gpu.starved_in_waits_s;
    stage.blocked_in_waits_s = 0;
    stage.busy_now = gpu.busy_now;
    stage.starved_now = gpu.starved_now;
  }

 private:
  template <class Numbers> static auto& at(Numbers& numbers, std::uint64_t serial) noexcept {
    return numbers[serial % numbers.size()];
  }
  std::uint64_t next() const noexcept { return uses_.was_recorded() + 1; }
  void go_on(Activity now) noexcept {
    doing_ = now;
    meter_.now_in(now);
    if (now == Activity::starved) {
      meter_.begin_wait();
    }
  }

  Timeline<D> uses_;
  Vector<Number> tickets_;              // by event of uses_
  Vector<Number> records_;              // by serial of uses_
  Number entered_{0};                   // the serial that a callable's use will have
  StdAtomics::Atomic<bool> away_{true}; // the consumer's thread has not come to this run yet
  StdAtomics::Atomic<bool> finished_{false};
  Meter meter_;
  Number queued_ns_{0};               // see StageReport::queued_s
  bool queued_{};                     // when the device thread looked last
  Activity doing_{Activity::starved}; // likewise
};

} // namespace penstock::detail
