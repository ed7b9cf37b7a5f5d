// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/detail/ends/leases_out.hpp>
#include <penstock/detail/links/device_link.hpp>
#include <penstock/error.hpp>
#include <penstock/lease.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <utility>

namespace penstock::detail {

/// Hands out batches in device memory to one stream. A batch costs two device calls: a wait, if the
/// copy is not known to be done, and a record, which small batches share.
template <AnyDevice D> class DeviceLender final : public Lender {
 public:
  [[gnu::cold]] DeviceLender(const Shared<DeviceLink<D>>& link, std::size_t depth)
      : link_{link}, out_{link_->ring, depth, link_->ahead.get()}, others_(link_->ring.slots()),
        lost_(link_->ring.slots()),
        most_given_{std::clamp<std::size_t>(link_->ring.slots() / 64, 1, 16)} {
    link_->end_ahead();
  }
  DeviceLender(const DeviceLender&) = delete;
  DeviceLender& operator=(const DeviceLender&) = delete;
  [[gnu::cold]] ~DeviceLender() override { take_back(); }

  DeviceLink<D>& link() noexcept { return *link_; }
  LeasesOut<DeviceRing<D>>& out() noexcept { return out_; }

  /// Begins a run on `stream`, which first waits for the uses of earlier runs.
  [[gnu::cold]] void begin(Stream<D> stream) {
    stream_ = StreamHandle::of(stream);
    waited_for_ = {};
    failed_ = nullptr;
    running_ = true;
    link_->consumer.arrive();
    check_not_capturing(link_->device, stream);
    link_->consumer.wait(stream);
  }

  /// Throws the error of a batch that could not be given back; failed_record() returns the batch's
  /// first record.
  void check_given_back() {
    if (failed_) {
      std::rethrow_exception(std::exchange(failed_, nullptr));
    }
  }
  std::uint64_t failed_record() const noexcept { return failed_record_; }
  /// Blocks for the next batch, and has the stream wait for the work that fills it; returns null if
  /// there are no more, or if a batch could not be given back.
  DeviceSlot<D>* next() {
    free_next();
    out_.check_next();
    typename DeviceRing<D>::Take taken = link_->ring.try_take();
    if (!taken) {
      // The copier may wait for just these places.
      record_given();
      if (!failed_) {
        taken = link_->ring.take();
      }
    }
    if (!taken) {
      return nullptr;
    }
    ticket_ = taken.ticket();
    const std::uint64_t credits = taken.slot().credits;
    const auto& held = out_.keep(std::move(taken), credits);
    DeviceSlot<D>& place = held.slot();
    try {
      enter(held, 1);
    } catch (...) {
      out_.withhold(ticket_);
      throw;
    }
    return &place;
  }
  std::uint64_t ticket() const noexcept { return ticket_; }

  /// Has the stream wait for the work that fills the first `count` of `places`, before work that
  /// uses them is enqueued. May throw.
  void enter(const typename DeviceRing<D>::Take& places, std::size_t count) {
    uses_memory_ = true;
    if (given_ == 0) {
      link_->consumer.enter(record_of(places.slot()));
    }
    try {
      for (std::size_t i = 0; i < count; ++i) {
        const Fence<D>& ready = places.slot(i).ready;
        // The last fence of a stream covers those before it.
        const bool covered = i + 1 < count && places.slot(i + 1).ready.line == ready.line;
        if (!covered && ready != waited_for_) {
          check_not_capturing(link_->device, stream());
          ready.wait(stream());
          waited_for_ = ready;
        }
      }
    } catch (...) {
      if (given_ == 0) {
        link_->consumer.left();
      }
      throw;
    }
  }
  /// Returns the fence of the use that enter() began, after its work was enqueued. May throw. Then
  /// release() the places.
  Fence<D> leave(const typename DeviceRing<D>::Take& places, std::size_t count) {
    check_not_capturing(link_->device, stream());
    const Fence<D> free = link_->consumer.use_up(stream(), places.ticket() + count - 1,
                                                 record_of(places.slot()), count);
    std::uint64_t credits = 0;
    for (std::size_t i = 0; i < count; ++i) {
      credits += places.slot(i).credits;
    }
    link_->used(free, credits);
    return free;
  }
  /// Gives adjacent places back together; their use ends at `free`.
  void release(typename DeviceRing<D>::Take places, Fence<D> free) noexcept {
    for (std::size_t i = 0; i < places.size(); ++i) {
      places.slot(i).used_until(free);
    }
    places.release();
  }

  /// Takes a batch back. Small batches that come back one after the other share an event: their
  /// places stay withheld until record_given(), at the latest until the next step.
  void give_back(std::uint64_t ticket) noexcept override {
    DeviceSlot<D>& place = out_.at(ticket).slot();
    StreamHandle& other = others_[ticket % others_.size()];
    out_.withhold(ticket);
    try {
      place.also_free = other ? record_other(other.as<Stream<D>>()) : Fence<D>{};
      other = {};
      check_not_capturing(link_->device, stream());
    } catch (...) {
      lost_[ticket % lost_.size()] = std::exchange(other, {});
      fail_to_give_back(ticket);
      return;
    }
    if (ticket != first_given_ + given_) {
      record_given();
      first_given_ = ticket;
    }
    ++given_;
    credits_ += place.credits;
    // A lease that came back late may have the place that is to be filled next.
    if (given_ == most_given_ || !running_ || ticket + 1 != link_->ring.was_taken()) {
      record_given();
    }
  }
  /// Records the use of all batches that came back, and gives their places back.
  void record_given() noexcept override {
    const std::size_t count = std::exchange(given_, 0);
    const std::uint64_t credits = std::exchange(credits_, 0);
    if (count == 0) {
      return;
    }
    try {
      check_not_capturing(link_->device, stream());
      const std::uint64_t record = record_of(out_.at(first_given_).slot());
      const Fence<D> free = link_->consumer.use_up(stream(), first_given_, record, count);
      link_->used(free, credits);
      for (std::uint64_t ticket = first_given_; ticket != first_given_ + count; ++ticket) {
        out_.at(ticket).slot().free = free;
        out_.at(ticket).release();
      }
    } catch (...) {
      fail_to_give_back(first_given_);
    }
  }

  bool has_room() noexcept override {
    free_next();
    return out_.has_room();
  }
  std::size_t lent() const noexcept override { return out_.count(); }

  [[gnu::cold]] void used_on(std::uint64_t ticket, StreamHandle stream) override {
    StreamHandle& other = others_[ticket % others_.size()];
    check_second(stream, other, stream.is<Stream<D>>());
    check_not_capturing(link_->device, stream.as<Stream<D>>());
    other = stream;
  }
  Position position(std::uint64_t ticket) override {
    return link_->position_behind(out_.at(ticket).slot());
  }
  Visit visit(std::uint64_t ticket, std::size_t i) override {
    return link_->visit(out_.at(ticket).slot(), i);
  }

  /// Drops a batch on which the callable, and with it the run, has failed.
  void drop(std::uint64_t ticket) noexcept {
    link_->consumer.left();
    out_.release(ticket);
  }

  /// Blocks until no batch that was handed out and given back is in use.
  [[gnu::cold]] void settle() {
    record_given();
    running_ = false;
    if (uses_memory_) {
      wait_for(stream());
      link_->consumer.sync();
      link_->other_uses.sync();
      for (std::size_t i = 0, n = lost_.size(); i != (strays() != 0 ? 2 * n : n); ++i) {
        StreamHandle& other = i < n ? lost_[i] : others_[i - n];
        if (other) {
          wait_for(other.as<Stream<D>>());
          other = {};
        }
      }
      uses_memory_ = false;
    }
  }

 private:
  Stream<D> stream() const noexcept { return stream_.as<Stream<D>>(); }
  // The first of those that came back may have the place that is to be filled next.
  void free_next() noexcept {
    if (given_ != 0 && link_->ring.was_taken() - first_given_ >= link_->ring.slots()) {
      record_given();
    }
  }
  // A wait for a stream that captures would break off the capture.
  void wait_for(Stream<D> stream) {
    check_not_capturing(link_->device, stream);
    link_->device.sync(stream);
  }
  // In a catch block: nobody will know when the use of these batches is over, so it stays open. The
  // next step ends the run, or the next run waits.
  void fail_to_give_back(std::uint64_t first) noexcept {
    failed_ = std::current_exception();
    failed_record_ = record_of(out_.at(first).slot());
    uses_memory_ = true;
  }
  std::uint64_t record_of(const DeviceSlot<D>& place) const noexcept {
    return link_->layout().in_records(place.index);
  }

  // Events of several streams lie in one order: each stream first waits for the one before.
  Fence<D> record_other(Stream<D> stream) {
    check_not_capturing(link_->device, stream);
    link_->other_uses.wait(stream, link_->other_uses.was_recorded());
    return {&link_->other_uses, link_->other_uses.record(stream)};
  }

  const Shared<DeviceLink<D>> link_;
  LeasesOut<DeviceRing<D>> out_;
  Vector<StreamHandle> others_; // the second streams of what is out
  Vector<StreamHandle> lost_;   // those whose use could not be recorded
  StreamHandle stream_;
  std::uint64_t ticket_{};
  Fence<D> waited_for_;
  std::exception_ptr failed_;
  std::uint64_t failed_record_{};
  bool uses_memory_{}; // since the stream was last waited for
  bool running_{};
  // Adjacent batches that came back and whose use is not recorded yet: few beside the ring.
  std::uint64_t first_given_{};
  std::size_t given_{};
  std::uint64_t credits_{}; // of these
  const std::size_t most_given_;
};

} // namespace penstock::detail
