// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/detail/engine/run_control.hpp>
#include <penstock/detail/links/host_link.hpp>
#include <penstock/detail/turns/ahead.hpp>
#include <penstock/detail/turns/ramp.hpp>
#include <penstock/order/detail/run_order.hpp>
#include <penstock/sources/source.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace penstock::detail {

/// Which units of its source each slot of a Reader holds.
class SlotRanges {
 public:
  /// Units of one epoch.
  struct Range {
    std::uint64_t epoch;
    std::uint64_t first;
    std::size_t units;
  };

  /// What a run reads, in units: of the first epoch from `first` to before `end`, of each later one
  /// `each`; to the source's end, if `each` is unknown_size.
  struct Course {
    std::uint64_t first_epoch;
    std::uint64_t epochs;
    std::uint64_t first;
    std::uint64_t end;
    std::uint64_t each;
  };

  /// Deals slots of `usual` units. The first epoch of a run has slots as `ramp` says. `drop_last`:
  /// an epoch's last slot is read, and left out if it is short.
  SlotRanges(std::size_t usual, const Ramp& ramp, bool drop_last)
      : usual_{usual}, drop_last_{drop_last}, ramp_{ramp} {}

  /// Begins a run, in which a record has so many units.
  [[gnu::cold]] void begin(const RunOrder& order, std::size_t units_a_record) noexcept;

  bool known() const noexcept { return course_.each != unknown_size; }
  const Course& course() const noexcept { return course_; }
  /// Returns how many slots the run has, if that is known.
  std::uint64_t slots() const noexcept { return slots_; }
  /// Returns the end of an epoch's units.
  std::uint64_t end_of(std::uint64_t epoch) const noexcept;
  /// Returns what a slot holds, at most if the source's size is unknown.
  Range of(std::uint64_t slot) const noexcept;
  /// Returns how many of the units that were read into a slot go on with it.
  std::size_t kept(std::size_t units, bool ends_epoch) const noexcept;
  /// Returns how many units a slot that begins as `next` does may hold.
  std::uint64_t most(std::uint64_t slot, const Range& next) const noexcept;
  /// Returns the number of a range's first unit in a run.
  std::uint64_t index(const Range& range) const noexcept;

 private:
  Range range(std::uint64_t epoch, std::uint64_t first, std::uint64_t most) const noexcept;

  std::size_t usual_;
  bool drop_last_;
  Ramp ramp_;
  Course course_{};
  std::uint64_t first_slots_{}; // of the first epoch
  std::uint64_t later_slots_{}; // of each later one
  std::uint64_t slots_{};
};

/// Throws SourceError if a source gave more records than it was asked for, or fewer although its
/// size is `known`.
void check_count(std::size_t got, std::size_t wanted, std::uint64_t first, bool known);

/// Deals out the units of a source where the number of a slot does not say which it holds: see
/// DealtRanges.
struct RangeDealer {
  using Range = SlotRanges::Range;

  RangeDealer() = default;
  RangeDealer(const RangeDealer&) = delete;
  RangeDealer& operator=(const RangeDealer&) = delete;
  virtual ~RangeDealer() = default;
  /// Has a run's early end stop it. Call it when `control` watches the ring: a worker that gets
  /// nothing drops a claim, which must not be seen in an open ring.
  virtual void be_watched(RunControl& control) = 0;
  /// Begins a run over what `ranges` say, which must outlive it.
  virtual void reset(const SlotRanges& ranges) = 0;
  /// Blocks until a worker that has claimed this ticket may read, and returns what; nothing if
  /// there is no more, and then ends the ring.
  virtual Range next(std::uint64_t ticket, HostRing& ring) noexcept = 0;
  /// Says that no slot from this ticket on will be filled.
  virtual void end_at(std::uint64_t ticket, HostRing& ring) noexcept = 0;
  /// Says that only `units` of a range, which was dealt last, were read, so that the others come
  /// next: for one worker.
  virtual void cut(const Range& range, std::size_t units) noexcept = 0;
  /// Gives back the credits of units that nobody hands on.
  virtual void give_back(std::size_t units) noexcept = 0;
};

/// Deals out the units of a source where no schedule can: a slot gets as many as the Reader may be
/// ahead, or as came. Its workers are dealt to in turn, and read side by side.
class DealtRanges final : public RangeDealer {
 public:
  /// `whole`: a slot that is not an epoch's last is full.
  [[gnu::cold]] DealtRanges(Shared<Ahead<>> ahead, bool whole)
      : ahead_{std::move(ahead)}, whole_{whole} {}

  [[gnu::cold]] void be_watched(RunControl& control) override { control.watch(*ahead_); }
  [[gnu::cold]] PENSTOCK_INLINE void reset(const SlotRanges& ranges) override;
  [[gnu::cold]] PENSTOCK_INLINE Range next(std::uint64_t ticket, HostRing& ring) noexcept override;
  [[gnu::cold]] PENSTOCK_INLINE void end_at(std::uint64_t ticket, HostRing& ring) noexcept override;
  [[gnu::cold]] PENSTOCK_INLINE void cut(const Range& range, std::size_t units) noexcept override;
  void give_back(std::size_t units) noexcept override { ahead_->give_back(units); }

 private:
  const SlotRanges* ranges_{};
  const Shared<Ahead<>> ahead_;
  const bool whole_;
  Range next_{}; // only the worker whose turn it is touches this
};

#if PENSTOCK_BODIES
PENSTOCK_INLINE void SlotRanges::begin(const RunOrder& order, std::size_t units_a_record) noexcept {
  const bool unknown = order.turns() == RunOrder::unknown;
  course_ = {order.first_epoch(), order.epochs(), order.first_turn() * units_a_record,
             unknown ? unknown_size : order.end_turn() * units_a_record,
             unknown ? unknown_size : order.turns() * units_a_record};
  const Course& course = course_;
  first_slots_ = later_slots_ = slots_ = 0;
  if (known() && course.first_epoch != course.epochs) {
    first_slots_ = ramp_.slots_of(course.end - course.first);
    later_slots_ = Ramp{usual_}.slots_of(course.each);
    slots_ = first_slots_ + later_slots_ * (course.epochs - course.first_epoch - 1);
  }
}

PENSTOCK_INLINE std::uint64_t SlotRanges::end_of(std::uint64_t epoch) const noexcept {
  return epoch == course_.first_epoch ? course_.end : course_.each;
}

PENSTOCK_INLINE SlotRanges::Range SlotRanges::of(std::uint64_t slot) const noexcept {
  if (!known() || slot < first_slots_) {
    return range(course_.first_epoch, course_.first + ramp_.begin(slot), ramp_.size(slot));
  }
  const std::uint64_t later = slot - first_slots_;
  return range(course_.first_epoch + 1 + later / later_slots_, later % later_slots_ * usual_,
               usual_);
}

PENSTOCK_INLINE std::size_t SlotRanges::kept(std::size_t units, bool ends_epoch) const noexcept {
  return drop_last_ && ends_epoch && units < usual_ ? 0 : units;
}

PENSTOCK_INLINE std::uint64_t SlotRanges::most(std::uint64_t slot,
                                               const Range& next) const noexcept {
  const bool grows = next.epoch == course_.first_epoch;
  return range(next.epoch, next.first, grows ? ramp_.size(slot) : usual_).units;
}

PENSTOCK_INLINE std::uint64_t SlotRanges::index(const Range& range) const noexcept {
  return range.epoch == course_.first_epoch
             ? range.first - course_.first
             : course_.end - course_.first +
                   (range.epoch - course_.first_epoch - 1) * course_.each + range.first;
}

PENSTOCK_INLINE SlotRanges::Range SlotRanges::range(std::uint64_t epoch, std::uint64_t first,
                                                    std::uint64_t most) const noexcept {
  return {epoch, first, static_cast<std::size_t>(std::min(end_of(epoch) - first, most))};
}

PENSTOCK_INLINE void check_count(std::size_t got, std::size_t wanted, std::uint64_t first,
                                 bool known) {
  if (got > wanted || (known && got < wanted)) {
    throw_source_error({"penstock: the source gave ", got, " records where it has ", wanted,
                        ": its size() and its read() disagree."},
                       {}, 0, first + std::min(got, wanted));
  }
}

PENSTOCK_INLINE void DealtRanges::reset(const SlotRanges& ranges) {
  ahead_->reset();
  ranges_ = &ranges;
  next_ = {ranges.course().first_epoch, ranges.course().first, 0};
}

PENSTOCK_INLINE RangeDealer::Range DealtRanges::next(std::uint64_t ticket,
                                                     HostRing& ring) noexcept {
  if (!ahead_->await_turn(ticket)) {
    return {};
  }
  const SlotRanges::Course& course = ranges_->course();
  if (next_.epoch != course.epochs && next_.first == ranges_->end_of(next_.epoch)) {
    next_ = {next_.epoch + 1, 0, 0};
  }
  if (next_.epoch == course.epochs || next_.first == ranges_->end_of(next_.epoch)) {
    end_at(ticket, ring);
    return {};
  }
  Range range = next_;
  range.units = ahead_->take(ranges_->most(ticket, next_), whole_);
  if (range.units != 0) {
    next_.first += range.units;
    ahead_->pass(ticket);
  }
  return range;
}

PENSTOCK_INLINE void DealtRanges::end_at(std::uint64_t ticket, HostRing& ring) noexcept {
  ring.end_at(ticket);
  ahead_->stop();
}

PENSTOCK_INLINE void DealtRanges::cut(const Range& range, std::size_t units) noexcept {
  next_ = {range.epoch, range.first + units, 0};
}
#endif

} // namespace penstock::detail
