// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/vector.hpp>
#include <penstock/detail/links/host_link.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace penstock::detail {

/// Fills the slots of a host ring in order, record after record, by copies that are on their way,
/// and hands on those that have landed. No step waits for the ring.
class SlotFiller {
 public:
  explicit SlotFiller(HostLink& out)
      : out_{out}, claims_(out.ring.slots()), serials_(claims_.size()) {}

  /// Opens a slot for records of an epoch, if none is open; returns false if there is none to fill.
  bool try_open(std::uint64_t epoch) {
    if (filled_ != 0 && open_slot().epoch != epoch) {
      close(true);
    }
    return filling_ != claimed_ || claim();
  }
  /// Returns where the next record goes in an array of the open slot.
  std::byte* at(std::size_t part) const noexcept {
    return out_.memory.data(open_place(), part) + filled_ * out_.layout().parts[part].each;
  }
  /// Claims slots after the open one, as far as `records` more go without a wrap and without
  /// waiting; returns how many of them fit.
  std::size_t make_room(std::size_t records) {
    const std::size_t slot = out_.layout().units;
    std::size_t room = slot - filled_;
    for (std::uint64_t next = filling_ + 1; room < records && next % claims_.size() != 0; ++next) {
      if (next == claimed_ && !claim()) {
        break;
      }
      room += slot;
    }
    return std::min(room, records);
  }
  /// Books `records` of one epoch that the copy `serial` brings. describe(slot, at, i, count) adds
  /// to a slot the numbers in the source, and the credits, of `count` of them from the i-th on,
  /// which lie there from its record `at` on.
  template <class F>
  void book(std::size_t records, std::uint64_t epoch, std::uint64_t serial, F describe) {
    for (std::size_t done = 0; done != records;) {
      const std::size_t part = std::min(records - done, out_.layout().units - filled_);
      HostSlot& slot = open_slot();
      if (filled_ == 0) {
        slot.index = delivered_;
        slot.epoch = epoch;
        slot.ends_epoch = false;
        if (Dues* const dues = out_.dues(open_place())) {
          dues->credits = 0;
        }
      }
      describe(slot, filled_, done, part);
      filled_ += part;
      slot.units = filled_;
      slot.bytes = filled_ * out_.layout().unit_bytes();
      serials_[open_place()] = serial;
      delivered_ += part;
      done += part;
      if (filled_ == out_.layout().units) {
        ++filling_;
        filled_ = 0;
      }
    }
  }
  /// Closes the last slot booked.
  void close(bool ends_epoch) {
    filling_ += filled_ != 0 ? 1 : 0;
    filled_ = 0;
    if (ends_epoch && filling_ != handed_on_) {
      claims_[(filling_ - 1) % claims_.size()].slot().ends_epoch = true;
    }
  }
  /// Returns whether records in the open slot wait for others; and which place that slot has.
  /// @{
  bool waits() const noexcept { return filled_ != 0; }
  std::size_t open_place() const noexcept { return filling_ % claims_.size(); }
  /// @}
  /// Hands on the slots that copies up to `serial` have filled, and calls f(slot) for each before.
  template <class F> void hand_on(std::uint64_t serial, F f) {
    while (handed_on_ != filling_ && serials_[handed_on_ % serials_.size()] <= serial) {
      HostRing::Claim& claim = claims_[handed_on_++ % claims_.size()];
      f(std::as_const(claim.slot()));
      const bool full = claim.slot().units == out_.layout().units && !claim.slot().ends_epoch;
      claim.publish(full ? Fill::full : Fill::partial);
    }
  }
  /// Says that nothing more will come: all was handed on.
  void end() { out_.ring.end_at(handed_on_); }

  /// Returns how many records were booked.
  std::uint64_t delivered() const noexcept { return delivered_; }

  void reset() {
    for (HostRing::Claim& claim : claims_) {
      claim = {};
    }
    handed_on_ = filling_ = claimed_ = delivered_ = 0;
    filled_ = 0;
  }

 private:
  HostSlot& open_slot() const noexcept { return claims_[open_place()].slot(); }
  bool claim() {
    HostRing::Claim next = out_.ring.try_claim();
    if (!next) {
      return false; // that place may still hold a claim to hand on
    }
    claims_[claimed_++ % claims_.size()] = std::move(next);
    return true;
  }

  HostLink& out_;
  Vector<HostRing::Claim> claims_; // by place
  Vector<std::uint64_t> serials_;  // by place: the last copy into it
  // Tickets: those before handed_on_ are handed on, those before filling_ full or closed, those
  // before claimed_ claimed.
  std::uint64_t handed_on_{};
  std::uint64_t filling_{};
  std::uint64_t claimed_{};
  std::size_t filled_{}; // records in the open slot
  std::uint64_t delivered_{};
};

} // namespace penstock::detail
