// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/detail/device_side/device_thread.hpp>
#include <penstock/detail/links/device_link.hpp>
#include <penstock/detail/links/host_link.hpp>
#include <penstock/device/detail/allocation.hpp>
#include <penstock/device/fence.hpp>
#include <penstock/order/detail/origins.hpp>

#include <algorithm>
#include <array>
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
  bool try_open(std::uint64_t epoch);
  /// Returns where the next record goes in an array of the open slot.
  std::byte* at(std::size_t part) const noexcept;
  /// Claims slots after the open one, as far as `records` more go without a wrap and without
  /// waiting; returns how many of them fit.
  std::size_t make_room(std::size_t records);
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
  void close(bool ends_epoch);
  /// Returns whether records in the open slot wait for others; and which place that slot has.
  /// @{
  bool waits() const noexcept { return filled_ != 0; }
  std::size_t open_place() const noexcept { return filling_ % claims_.size(); }
  std::uint64_t filling() const noexcept { return filling_; } // its ticket
  /// @}
  /// Hands on the slots that copies up to `serial` have filled, and calls f(slot) for each before.
  template <class F> void hand_on(std::uint64_t serial, F f) {
    while (handed_on_ != filling_ && serials_[handed_on_ % serials_.size()] <= serial) {
      HostRing::Claim& claim = claims_[handed_on_++ % claims_.size()];
      f(std::as_const(claim.slot()));
      out_.publish(std::move(claim));
    }
  }
  /// Says that nothing more will come: all was handed on.
  void end() { out_.ring.end_at(handed_on_); }

  /// Returns how many records were booked.
  std::uint64_t delivered() const noexcept { return delivered_; }

  void reset();

 private:
  HostSlot& open_slot() const noexcept { return claims_[open_place()].slot(); }
  bool claim();

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

/// Copies from a device ring into the slots of a host ring, and hands these on when the copies that
/// fill them have landed. At most two copies are in flight, one running and one queued.
template <AnyDevice D> class FetchStep : public DeviceStep {
 public:
  /// `one_for_one`: each record is made of one of the source's. `numbers`: the numbers in the
  /// source that the copier to the device kept, if they may jump. `flush`: when a slot is handed on
  /// although it is not full.
  FetchStep(const NodeSetup& setup, D& device, const Shared<DeviceLink<D>>& in,
            const Shared<HostLink>& out, bool one_for_one, const Shared<OnTheWay>& numbers,
            const Flush& flush)
      : DeviceStep{setup}, device_{device}, in_{in}, out_{out}, filler_{*out_},
        stream_{device_.stream()}, one_for_one_{one_for_one}, numbers_{numbers}, flush_{flush},
        line_{device_, flights + 1} {
    fills(out_->memory, out_->ring.slots());
  }

  ~FetchStep() override {
    wait_at_last([this] { settle(); });
  }

  bool has_open_fence() const noexcept override { return in_flight() != 0; }
  bool done() const noexcept override { return ended_; }
  Meter::Clock::time_point due() const noexcept override {
    return filler_.waits() && flush_ ? flush_.look_again(was_read())
                                     : Meter::Clock::time_point::max();
  }
  Flow flow() const noexcept override { return out_->ring.state(); }

 protected:
  static constexpr std::uint64_t flights = 2;

  std::uint64_t in_flight() const noexcept { return line_.was_recorded() - landed_; }

  /// Enqueues one more copy, if there is anything to copy and room for it; returns whether it did.
  virtual bool send() = 0;
  /// Returns whether batches that came are still to be copied.
  virtual bool waits() const noexcept = 0;
  /// Gives back all that it holds, when no copy touches it.
  virtual void drop() = 0;

  bool step() override {
    bool any = land();
    while (in_flight() < flights && send()) {
      any = true;
    }
    if (filler_.waits() &&
        flush_.is_due(was_read(), [this] { return out_->is_idle(filler_.filling()); })) {
      filler_.close(false);
      hand_on();
      any = true;
    }
    if (!ended_ && !waits() && in_flight() == 0 && in_->ring.exhausted()) {
      filler_.close(true);
      hand_on();
      filler_.end();
      ended_ = any = true;
    }
    return any;
  }
  Activity doing() override {
    if (in_flight() != 0) {
      return begins_[(landed_ + 1) % begins_.size()].reached() ? Activity::busy : Activity::starved;
    }
    return waits() ? Activity::blocked : Activity::starved;
  }
  void abandon() override {
    settle();
    drop();
    filler_.reset();
    landed_ = line_.was_recorded();
    ended_ = false;
  }
  void reset() override {
    // Once more: the call at the end of the last run may have failed.
    abandon();
    out_->reset();
  }

  /// Copies `records` records from the `first` of a place on, which may reach into the places after
  /// it, to where the filler is. Call record() after one or more copies.
  void copy(std::size_t place, std::size_t first, std::size_t records) {
    touches_memory_ = true;
    for (std::size_t part = 0; part < out_->layout().parts.size(); ++part) {
      const std::size_t each = out_->layout().parts[part].each;
      device_.copy_to_host(filler_.at(part), in_->memory.data(place, part) + first * each,
                           records * each, stream_);
    }
  }
  /// Returns the copy's fence; the copy was to begin at `begins`.
  Fence<D> record(const Fence<D>& begins) {
    const std::uint64_t serial = line_.record(stream_);
    begins_[serial % begins_.size()] = begins;
    return {&line_, serial};
  }
  /// Returns the serial that the next record will have.
  std::uint64_t next_serial() const noexcept { return line_.was_recorded() + 1; }

  D& device_;
  const Shared<DeviceLink<D>> in_;
  const Shared<HostLink> out_;
  SlotFiller filler_;
  typename D::stream_type stream_;
  const bool one_for_one_;
  const Shared<OnTheWay> numbers_;
  const Flush flush_;

 private:
  void settle() {
    if (touches_memory_) {
      device_.sync(stream_);
      line_.sync();
      touches_memory_ = false;
    }
  }
  bool land() {
    bool any = false;
    while (in_flight() != 0 && line_.reached(landed_ + 1)) {
      ++landed_;
      any = true;
    }
    if (any) {
      hand_on();
    }
    return any;
  }
  // Returns when the first record in the open slot was.
  Flush::Clock::time_point was_read() const noexcept {
    return out_->was_read(filler_.open_place());
  }
  void hand_on() {
    filler_.hand_on(landed_, [this](const HostSlot& slot) {
      meter(0).did(slot.units, slot.units * out_->layout().unit_bytes());
      meter(0).found_in_use(out_->ring.was_in_use());
    });
  }

  Timeline<D> line_;
  std::uint64_t landed_{}; // serial of the newest landed copy; others ask about its fence too
  std::array<Fence<D>, flights + 1> begins_; // by serial: the fence that a copy waits for
  bool ended_{};
  bool touches_memory_{}; // since the stream was last waited for
};

#if PENSTOCK_BODIES
PENSTOCK_INLINE bool SlotFiller::try_open(std::uint64_t epoch) {
  if (filled_ != 0 && open_slot().epoch != epoch) {
    close(true);
  }
  return filling_ != claimed_ || claim();
}

PENSTOCK_INLINE std::byte* SlotFiller::at(std::size_t part) const noexcept {
  return out_.memory.data(open_place(), part) + filled_ * out_.layout().parts[part].each;
}

PENSTOCK_INLINE std::size_t SlotFiller::make_room(std::size_t records) {
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

PENSTOCK_INLINE void SlotFiller::close(bool ends_epoch) {
  filling_ += filled_ != 0 ? 1 : 0;
  filled_ = 0;
  if (ends_epoch && filling_ != handed_on_) {
    claims_[(filling_ - 1) % claims_.size()].slot().ends_epoch = true;
  }
}

PENSTOCK_INLINE void SlotFiller::reset() {
  for (HostRing::Claim& claim : claims_) {
    claim = {};
  }
  handed_on_ = filling_ = claimed_ = delivered_ = 0;
  filled_ = 0;
}

PENSTOCK_INLINE bool SlotFiller::claim() {
  HostRing::Claim next = out_.ring.try_claim();
  if (!next) {
    return false; // that place may still hold a claim to hand on
  }
  claims_[claimed_++ % claims_.size()] = std::move(next);
  return true;
}
#endif

} // namespace penstock::detail
