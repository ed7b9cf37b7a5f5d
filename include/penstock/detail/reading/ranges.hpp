// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/links/host_link.hpp>
#include <penstock/detail/reading/range_dealer.hpp>
#include <penstock/detail/reading/slot_ranges.hpp>
#include <penstock/detail/turns/ahead.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace penstock::detail {

/// Deals out the units of a source where no schedule can: a slot gets as many as the Reader may be
/// ahead, or as came. Its workers are dealt to in turn, and read side by side.
class DealtRanges final : public RangeDealer {
 public:
  /// `whole`: a slot that is not an epoch's last is full.
  [[gnu::cold]] DealtRanges(Shared<Ahead<>> ahead, bool whole)
      : ahead_{std::move(ahead)}, whole_{whole} {}

  [[gnu::cold]] void be_watched(RunControl& control) override { control.watch(*ahead_); }
  [[gnu::cold]] void reset(const SlotRanges& ranges) override {
    ahead_->reset();
    ranges_ = &ranges;
    next_ = {ranges.course().first_epoch, ranges.course().first, 0};
  }
  [[gnu::cold]] Range next(std::uint64_t ticket, HostRing& ring) noexcept override {
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
  [[gnu::cold]] void end_at(std::uint64_t ticket, HostRing& ring) noexcept override {
    ring.end_at(ticket);
    ahead_->stop();
  }
  [[gnu::cold]] void cut(const Range& range, std::size_t units) noexcept override {
    next_ = {range.epoch, range.first + units, 0};
  }
  void give_back(std::size_t units) noexcept override { ahead_->give_back(units); }

 private:
  const SlotRanges* ranges_{};
  const Shared<Ahead<>> ahead_;
  const bool whole_;
  Range next_{}; // whose turn it is, his
};

} // namespace penstock::detail
