// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/detail/device_side/batch_filler.hpp>
#include <penstock/detail/device_side/batches_by_turn.hpp>
#include <penstock/detail/device_side/device_thread.hpp>
#include <penstock/detail/device_side/poison.hpp>
#include <penstock/detail/engine/sizes.hpp>
#include <penstock/detail/links/host_link.hpp>
#include <penstock/detail/measure/meter.hpp>
#include <penstock/detail/measure/trace.hpp>
#include <penstock/device/detail/allocation.hpp>
#include <penstock/device/device.hpp>
#include <penstock/device/fence.hpp>
#include <penstock/order/detail/origins.hpp>
#include <penstock/order/detail/run_order.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace penstock::detail {

/// Copies the pieces of one copy, together if the device can.
template <AnyDevice D>
void copy_pieces(D& device, std::span<const CopyPiece> pieces, Stream<D> stream) {
  if constexpr (requires { device.copy_to_device(pieces, stream); }) {
    device.copy_to_device(pieces, stream);
  } else {
    for (const CopyPiece& piece : pieces) {
      device.copy_to_device(piece.to, piece.from, piece.bytes, stream);
    }
  }
}

/// Turns slots of a host ring into batches of a device ring, with copies sized for the bus: their
/// size is neither the slot's nor the batch's. One thread drives it in steps; no step waits for a
/// ring or for the device.
///
/// At most two copies are in flight, one running and one queued; ready slots gather meanwhile. With
/// fewer in flight it sends ready slots at once. A copy ends at `copy_bytes`, where either ring
/// wraps, at a partial slot, before a place still in use, and before a place whose fence the stream
/// would first have to wait for. Each slot with a Ragged column becomes a batch of its own; nearly
/// full ones are copied together, with the gaps between them.
template <AnyDevice D> class Copier {
 public:
  /// `on_the_way`, unless it is null, gets the source numbers of what was sent. `by_turn`, unless
  /// it is null, says which units are a batch. `drop_last`: of each epoch it leaves out the last
  /// batch if that is short; with a Ragged column the Reader does. `from`, unless it is null, says
  /// how much of the first batch an earlier run has given.
  [[gnu::cold]] Copier(D& device, HostLink& in, DeviceLink<D>& out, std::size_t copy_bytes,
                       OnTheWay* on_the_way = nullptr, bool drop_last = false,
                       const Flush& flush = {}, Owned<BatchesByTurn> by_turn = {},
                       const RunOrder* from = nullptr)
      : device_{device}, in_{in}, ragged_{in.layout().ragged()},
        filler_{out, drop_last && !ragged_}, on_the_way_{on_the_way}, flush_{flush},
        by_turn_{std::move(by_turn)}, from_{from}, stream_{device.stream()}, line_{device, 4},
        most_records_{std::max<std::size_t>(
            copy_bytes / std::max<std::size_t>(in.layout().unit_bytes(), 1), 1)},
        most_slots_{std::max<std::size_t>(ragged_ ? by_turn_ ? 1 : copy_bytes / in.layout().bytes()
                                                  : most_records_ / in.layout().units,
                                          1)} {
    pieces_.reserve(in.layout().parts.size());
  }
  [[gnu::cold]] ~Copier() {
    wait_at_last([this] { settle(); });
  }

  /// Gives back copied slots and enqueues copies; returns true if there was anything to do.
  bool step() {
    const bool returned = give_back();
    bool sent = false;
    while (in_flight_ < flights_.size() && send()) {
      sent = true;
    }
    if (!ended_ && in_.ring.exhausted() && !run_) {
      if (by_turn_) {
        by_turn_->end();
      }
      filler_.end();
      ended_ = true;
      return true;
    }
    const bool flushes = filler_.waits() &&
                         flush_.is_due(filler_.place().read, [this] { return filler_.is_idle(); });
    if (flushes) {
      filler_.close(false);
    }
    return returned || sent || flushes;
  }
  /// Returns when to look whether a batch is to be handed on although it is not full.
  Flush::Clock::time_point due() const noexcept {
    return filler_.waits() && flush_ ? flush_.look_again(filler_.place().read)
                                     : Flush::Clock::time_point::max();
  }

  /// Returns whether all was copied and its slots given back.
  bool done() const noexcept { return ended_ && in_flight_ == 0; }

  /// Returns what the copy engine is doing, as far as fences tell.
  Activity doing() {
    if (in_flight_ != 0) {
      const Flight& flight = flights_[oldest_];
      return flight.after.reached() && flight.also_after.reached() ? Activity::busy
                                                                   : Activity::blocked;
    }
    return run_ ? Activity::blocked : Activity::starved;
  }
  bool in_flight() const noexcept { return in_flight_ != 0; }
  std::uint64_t records() const noexcept { return in_.layout().whole_records(0, filler_.booked()); }
  std::uint64_t bytes() const noexcept { return filler_.booked_bytes(); }

  /// Forgets a run, also one that was broken off, and gives back all that it held. Blocks until no
  /// copy touches memory any more. If it throws, nothing was given back, and it is to be called
  /// again.
  [[gnu::cold]] void abandon() {
    settle();
    for (Flight& flight : flights_) {
      flight.slots = {};
    }
    run_ = {};
    filler_.reset(from_ ? from_->first_epoch() : 0,
                  from_ ? from_->begun() * in_.layout().units_a_record : 0);
    if (by_turn_) {
      by_turn_->reset();
    }
    if (on_the_way_) {
      on_the_way_->numbers.start(0);
    }
    oldest_ = in_flight_ = begun_ = 0;
    ended_ = false;
  }

 private:
  struct Flight {
    HostRing::Take slots;   // given back at the copy's end
    std::uint64_t serial{}; // of its fence
    Fence<D> after;         // the stream waits for it before the copy
    Fence<D> also_after;
  };

  void settle() {
    if (touches_memory_) {
      device_.sync(stream_);
      touches_memory_ = false;
    }
  }

  bool give_back() {
    bool any = false;
    while (in_flight_ != 0 && line_.reached(flights_[oldest_].serial)) {
      poison(device_, in_, flights_[oldest_].slots);
      flights_[oldest_].slots.release();
      oldest_ = (oldest_ + 1) % flights_.size();
      --in_flight_;
      any = true;
    }
    return any;
  }

  bool send() {
    gather();
    if (run_ && by_turn_ && !by_turn_->goes_on(run_.slot(), begun_)) {
      filler_.close(false);
      by_turn_->begin(run_.slot(), begun_);
    }
    if (!run_ || !filler_.try_open(run_.slot().epoch)) {
      return false;
    }
    const TraceRange range{"AsyncCopier", in_.layout().in_records(run_.slot().index + begun_)};
    const std::size_t units = in_.layout().units;
    const std::size_t slots =
        ragged_ ? copied_together(slots_of_one_epoch(run_)) : slots_of_one_epoch(run_);
    const HostSlot& last = run_.slot(slots - 1);
    const std::size_t ready = (slots - 1) * units + last.units - begun_;
    const std::size_t together =
        by_turn_ ? by_turn_->together(run_.slot(), begun_, run_.slot().units - begun_) : ready;
    const std::size_t records =
        ragged_ ? ready : filler_.make_room(std::min({ready, together, most_records_}));
    Flight& flight = flights_[(oldest_ + in_flight_) % flights_.size()];
    flight.after = flight.also_after = {};
    if (filler_.untouched()) {
      flight.after = filler_.place().free;
      flight.also_after = filler_.place().also_free;
      flight.after.wait(stream_);
      flight.also_after.wait(stream_);
    }
    const std::size_t bytes = copy(slots, records);
    flight.serial = line_.record(stream_);
    ++in_flight_;

    if (on_the_way_ && on_the_way_->is_wanted()) {
      tell_numbers(records);
    }
    const bool ends_epoch = records == ready && last.ends_epoch;
    const auto book = [&](std::size_t from, std::size_t count, std::size_t its, bool ends) {
      filler_.book(count, its, {&line_, flight.serial}, run_.slot().epoch, ends,
                   [&](DeviceSlot<D>& place, std::size_t i, std::size_t some) {
                     describe(place, in_, run_, begun_ + from + i, some, on_the_way_ != nullptr);
                   });
    };
    for (std::size_t i = 0; ragged_ && i != slots; ++i) {
      const std::size_t count = run_.slot(i).units;
      book(i * units, count, in_.memory.used(run_.place() + i, count),
           ends_epoch && i + 1 == slots);
    }
    if (!ragged_) {
      book(0, records, bytes, ends_epoch);
    }
    if (ragged_ || ends_epoch) {
      filler_.close(ends_epoch);
    }
    begun_ += records;
    const std::size_t used = records == ready ? slots : begun_ / in_.layout().units;
    flight.slots = run_.split(used);
    begun_ = run_ ? begun_ - used * in_.layout().units : 0;
    return true;
  }

  void gather() {
    if (run_) {
      // One slot more than a copy holds, since the first may be half done.
      run_.extend(most_slots_ + (begun_ != 0 ? 1 : 0));
      return;
    }
    // Empty slots too: all of an epoch's last records may have been skipped.
    while ((run_ = in_.ring.try_take(most_slots_, Empties::give)) && run_.fill() == Fill::none) {
      const bool ends_epoch = run_.slot().ends_epoch;
      run_.release();
      if (ends_epoch) {
        filler_.close(true);
      }
    }
  }

  // Returns how many of the first slots with a Ragged column one copy takes: as long as the gaps
  // between them cost less than another copy, and a place is free for each.
  std::size_t copied_together(std::size_t most) {
    constexpr std::size_t a_copy = std::size_t{64} << 10; // bytes that take as long to copy
    std::size_t count = 1;
    while (count < most &&
           in_.layout().bytes() - in_.memory.used(run_.place() + count - 1, in_.layout().units) <=
               a_copy) {
      ++count;
    }
    return count == 1 ? 1 : filler_.make_room(count * in_.layout().units) / in_.layout().units;
  }

  // Copies each array once, from the run to the place. Returns the bytes.
  std::size_t copy(std::size_t slots, std::size_t records) {
    std::size_t bytes = 0;
    pieces_.clear();
    for (std::size_t part = 0; part < in_.layout().parts.size(); ++part) {
      const Array& its = in_.layout().parts[part];
      const std::size_t before = ragged_ ? (slots - 1) * its.stride : 0;
      const std::size_t size = ragged_ ? before + in_.memory.used(run_.place() + slots - 1, part,
                                                                  run_.slot(slots - 1).units)
                                       : records * its.each;
      if (size != 0) {
        pieces_.push_back(
            {filler_.at(part), in_.memory.data(run_.place(), part) + begun_ * its.each, size});
      }
      bytes += size;
    }
    touches_memory_ = true;
    copy_pieces(device_, pieces_, stream_);
    return bytes;
  }

  [[gnu::cold]] void tell_numbers(std::size_t units) {
    each_slot(in_.layout().units, begun_, units,
              [&](std::size_t i, std::size_t at, std::size_t part, std::size_t done) {
                on_the_way_->go_on(filler_.booked() + done, run_.slot(i).source, at, part);
              });
  }

  D& device_;
  HostLink& in_;
  const bool ragged_;
  BatchFiller<D> filler_;
  OnTheWay* const on_the_way_;
  const Flush flush_;
  const Owned<BatchesByTurn> by_turn_;
  const RunOrder* const from_;
  typename D::stream_type stream_;
  // Two copies are in flight at most. Two more events stay valid for a stage that asks late about a
  // finished copy.
  Timeline<D> line_;
  const std::size_t most_records_;
  const std::size_t most_slots_;

  std::array<Flight, 2> flights_;
  std::size_t oldest_{};
  std::size_t in_flight_{};
  HostRing::Take run_; // slots at hand, the first of them begun_ records done
  std::size_t begun_{};
  Vector<CopyPiece> pieces_;
  bool ended_{};
  bool touches_memory_{}; // since the stream was last waited for
};

/// Copies to the device.
template <AnyDevice D> class CopierNode final : public DeviceStep {
 public:
  /// `numbers`, unless it is null, is told the turns. `drop_last`, `by_turn`, `from`: see
  /// Copier.
  [[gnu::cold]] CopierNode(const NodeSetup& setup, D& device, const Shared<HostLink>& in,
                           const Shared<DeviceLink<D>>& out, const Shared<OnTheWay>& numbers,
                           bool drop_last, const Flush& flush, Owned<BatchesByTurn> by_turn,
                           const RunOrder* from)
      : DeviceStep{setup}, in_{in}, out_{out}, numbers_{numbers},
        copier_{
            device, *in_, *out_, usual_copy, numbers_.get(), drop_last, flush, std::move(by_turn),
            from} {
    fills(out_->memory, out_->ring.slots());
  }

  bool has_open_fence() const noexcept override { return copier_.in_flight(); }
  bool done() const noexcept override { return copier_.done(); }
  Meter::Clock::time_point due() const noexcept override { return copier_.due(); }
  Flow flow() const noexcept override { return out_->ring.state(); }

 private:
  [[gnu::cold]] void reset() override {
    // Once more: the call at the end of the last run may have failed.
    copier_.abandon();
    out_->ring.reset();
  }

  bool step() override {
    const std::uint64_t records = copier_.records();
    const std::uint64_t bytes = copier_.bytes();
    const bool any = copier_.step();
    // What is left out at an epoch's end is taken off again: the sums wrap.
    if (const std::uint64_t more = copier_.bytes() - bytes) {
      meter(0).did(copier_.records() - records, more);
      meter(0).found_in_use(out_->ring.was_in_use());
    }
    return any;
  }
  Activity doing() override { return copier_.doing(); }
  [[gnu::cold]] void abandon() override { copier_.abandon(); }

  const Shared<HostLink> in_;
  const Shared<DeviceLink<D>> out_;
  const Shared<OnTheWay> numbers_;
  Copier<D> copier_;
};

} // namespace penstock::detail
