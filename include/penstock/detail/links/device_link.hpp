// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/data/batch.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/detail/links/ring_memory.hpp>
#include <penstock/detail/measure/meter.hpp>
#include <penstock/detail/turns/ahead.hpp>
#include <penstock/detail/turns/flush.hpp>
#include <penstock/device/fence.hpp>
#include <penstock/order/detail/origins.hpp>
#include <penstock/order/detail/run_order.hpp>
#include <penstock/ring/ring.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>

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

/// Gives the credits of batches in device memory back when the device is seen done with them: the
/// consumer's thread notes what each use ends, and the device thread looks.
template <AnyDevice D> class UsesAhead {
  using Number = StdAtomics::Atomic<std::uint64_t>;

 public:
  /// Keeps the last `most` uses in mind.
  UsesAhead(Ahead<>& ahead, std::size_t most) : ahead_{ahead}, uses_(most) {}

  /// Notes, after a use was recorded, that it ends `credits`, together with what was recorded in
  /// `others` so far. Only the consumer's thread calls it.
  [[gnu::cold]] void note(std::uint64_t serial, std::uint64_t credits,
                          const Timeline<D>& others) noexcept {
    noted_ += credits;
    Use& use = uses_[serial % uses_.size()];
    use.others.store(others.was_recorded(), StdAtomics::relaxed);
    use.credits.store(noted_, StdAtomics::release); // pairs with look()
  }
  /// Gives back the credits of all uses that are over; returns true while it waits for others. Only
  /// the device thread calls it.
  [[gnu::cold]] bool look(Timeline<D>& uses, Timeline<D>& others) {
    std::uint64_t serial = uses.was_reached();
    while (uses.reached(serial + 1)) {
      ++serial;
    }
    const Use& use = uses_[serial % uses_.size()];
    // Pairs with note(): if this is what a later use in the same place noted, that one's record is
    // seen below.
    const std::uint64_t credits = use.credits.load(StdAtomics::acquire);
    const std::uint64_t other = use.others.load(StdAtomics::relaxed);
    if (uses.was_recorded() >= serial + uses_.size() || !others.reached(other)) {
      return true;
    }
    // Less, if the use is not noted yet.
    if (credits > given_) {
      ahead_.give_back(credits - std::exchange(given_, credits));
    }
    return false;
  }
  /// Forgets the last run, before the next.
  [[gnu::cold]] void reset() noexcept {
    for (Use& use : uses_) {
      use.credits.store(0, StdAtomics::relaxed);
    }
    noted_ = given_ = 0;
  }

 private:
  struct Use {
    Number credits{0}; // of all uses up to this one
    Number others{0};  // a serial
  };

  Ahead<>& ahead_;
  Vector<Use> uses_;      // by serial
  std::uint64_t noted_{}; // by the consumer's thread
  std::uint64_t given_{}; // by the device thread
};

/// What travels with a place of a device ring: fences that tell when its bytes are there, and when
/// they were used.
template <AnyDevice D> struct DeviceSlot {
  std::uint64_t index{};  // of its first unit, as delivered
  std::uint64_t source{}; // that unit's turn: see RunOrder
  SourceNumbers turns{};  // of all of them, if some may have been left out between
  std::uint64_t until{};  // the turn behind that of the last record it is made of
  std::uint64_t epoch{};  // of its units
  std::size_t units{};
  std::size_t bytes{};
  std::uint64_t credits{};         // that its units keep: see Ahead
  Flush::Clock::time_point read{}; // when the first of them was: see Flush
  bool ends_epoch{};
  Fence<D> ready;
  Fence<D> free;
  Fence<D> also_free; // if a second stream used it

  /// Takes over what stays the same when a stage makes this batch of another.
  void follow(DeviceSlot& from) noexcept {
    turns.take(from.turns);
    until = from.until;
    epoch = from.epoch;
    ends_epoch = from.ends_epoch;
    credits = from.credits;
    read = from.read;
  }
  /// Takes over what stays the same when a stage also leaves the records where they are.
  void stay(const DeviceSlot& from) noexcept {
    index = from.index;
    source = from.source;
    units = from.units;
    bytes = from.bytes;
  }
  /// Takes over all of a batch that is shown to several stages. May throw std::bad_alloc.
  void show(const DeviceSlot& from) {
    turns.go_on(0, from.turns, 0, from.units);
    until = from.until;
    epoch = from.epoch;
    ends_epoch = from.ends_epoch;
    credits = from.credits;
    read = from.read;
    ready = from.ready;
    stay(from);
  }
  /// Notes that one stream alone used the batch.
  void used_until(const Fence<D>& fence) noexcept {
    free = fence;
    also_free = {};
  }
};
template <AnyDevice D>
using DeviceRing = Ring<DeviceSlot<D>, RingPolicy, RingKind::one_to_one>;

/// Joins the stage that fills batches in device memory with the stage that uses them: a ring of
/// whole batches. Leases keep it alive past its pipeline.
template <AnyDevice D> struct DeviceLink {
  using Doorbell = typename DeviceRing<D>::Doorbell;

  /// Allocates memory of its own. `rung` is the bell of the thread that fills the ring and watches
  /// fences.
  [[gnu::cold]] DeviceLink(D& on, std::size_t count, const Layout& layout,
                           Shared<Doorbell> rung = new_shared<Doorbell>(),
                           const char* stage = "AsyncCopier")
      : DeviceLink{on, count,
                   new_shared<const RingMemory>(RingMemory::in<Device>(&on, count, layout, stage)),
                   std::move(rung)} {}
  /// Shares the memory of another link, whose batches are changed in place.
  [[gnu::cold]] DeviceLink(D& on, std::size_t count, Shared<const RingMemory> of,
                           Shared<Doorbell> rung)
      : device{on}, bell{std::move(rung)}, ring{count, Side::one, Side::one},
        shared_memory{std::move(of)}, memory{*shared_memory}, consumer{on, 2 * count + 1},
        other_uses{on, std::min(count + 1, most_other_events), count + 1}, ready_fences(2 * count) {
    ring.on_release(bell.get());
  }
  DeviceLink(const DeviceLink&) = delete;
  DeviceLink& operator=(const DeviceLink&) = delete;
  [[gnu::cold]] ~DeviceLink() {
    // Leases given back late may still be in use. A lost device answers at once.
    try {
      consumer.sync();
      other_uses.sync();
    } catch (...) {
    }
  }

  const Layout& layout() const noexcept { return memory.layout(); }

  /// Returns the fence of the work that completes a batch. Kept for two laps: a place may be filled
  /// again, in stream order, while its last use is still open. Only the thread that fills calls it.
  Fence<D>& ready(std::uint64_t ticket) { return ready_fences[ticket % ready_fences.size()]; }
  /// Returns the batch in a place; T is const to read it.
  template <class T> Batch<T, Device> batch(std::size_t at, const DeviceSlot<D>& place) const {
    return Batch<T, Device>{memory.template view<std::remove_const_t<T>>(
        at, place.units, place.index, order->plain() && !outputs ? place.source : no_source_index)};
  }
  /// Returns the place in the run's order behind a batch.
  std::uint64_t place_behind(const DeviceSlot<D>& place) const noexcept {
    return outputs ? place.until : order->place(place.epoch, place.until);
  }
  /// Returns that position. Throws OptionError if there is none.
  [[gnu::cold]] Position position_behind(const DeviceSlot<D>& place) const {
    order->check_tells();
    return order->position(place_behind(place));
  }
  /// Returns which record the i-th of a batch is made of. Throws OptionError if it is not known.
  [[gnu::cold]] Visit visit(const DeviceSlot<D>& place, std::size_t i) const {
    if (!has_turns || outputs) {
      throw OptionError{"penstock: visit() does not know of which record this one is made, since a "
                        "stage gives another number of records than it takes: take a ps::Visit in "
                        "a Decoder."};
    }
    const std::uint64_t first = layout().in_records(place.source);
    const bool gaps = place.until - first != layout().in_records(place.units);
    return order->visit(place.epoch, gaps ? place.turns[i] : first + i);
  }

  /// Has the uses by the last stage, which takes from here, give their credits back.
  [[gnu::cold]] void end_ahead() {
    uses_ahead = Owned<UsesAhead<D>>{ahead ? new UsesAhead<D>{*ahead, ring.slots() + 1} : nullptr};
  }
  /// Looks at what the last stage does; returns true while only a fence will tell what comes next.
  /// Only the device thread calls it.
  bool look() {
    const bool open =
        consumer.look([this](std::uint64_t ticket) { return ready(ticket).reached(); });
    return (uses_ahead && uses_ahead->look(consumer.uses(), other_uses)) || open;
  }
  /// Notes that a use, whose fence this is, ends `credits`, before its places are given back.
  void used(const Fence<D>& use, std::uint64_t credits) noexcept {
    if (uses_ahead) {
      uses_ahead->note(use.serial, credits, other_uses);
    }
  }
  /// Forgets what the last stage did in the last run, before the next.
  [[gnu::cold]] void forget_uses() noexcept {
    consumer.reset();
    if (uses_ahead) {
      uses_ahead->reset();
    }
  }

  D& device;
  const Shared<Doorbell> bell;
  DeviceRing<D> ring;
  const Shared<const RingMemory> shared_memory;
  const RingMemory& memory;
  ConsumerWatch<D> consumer;
  Timeline<D> other_uses; // by second streams
  Vector<Fence<D>> ready_fences;
  Shared<Ahead<>> ahead; // null if nothing bounds how far the Reader is ahead
  Shared<RunOrder> order;
  bool has_turns{true};           // each unit is made of one of the source's
  bool outputs{};                 // of a Decoder of another number: they count themselves
  Owned<UsesAhead<D>> uses_ahead; // null too if other stages follow
};

} // namespace penstock::detail
