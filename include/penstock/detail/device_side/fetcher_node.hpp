// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/detail/device_side/fetch_step.hpp>
#include <penstock/detail/engine/sizes.hpp>
#include <penstock/detail/measure/trace.hpp>
#include <penstock/device/detail/allocation.hpp>
#include <penstock/error.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace penstock::detail {

/// Turns batches of a device ring into slots of a host ring, with copies sized for the bus:
/// Copier's way back.
///
/// Batches gather while two copies are in flight; with fewer in flight it sends them at once. A
/// copy ends at `usual_copy`, where either ring wraps, at a short batch, and before a batch that
/// the stream would first have to wait for.
template <AnyDevice D> class FetcherNode final : public FetchStep<D> {
 public:
  FetcherNode(const NodeSetup& setup, D& device, const Shared<DeviceLink<D>>& in,
              const Shared<HostLink>& out, bool one_for_one, const Shared<OnTheWay>& numbers,
              const Flush& flush)
      : FetchStep<D>{setup, device, in, out, one_for_one, numbers, flush},
        batch_{this->in_->layout().records()},
        most_records_{std::max<std::size_t>(
            usual_copy / std::max<std::size_t>(this->out_->layout().unit_bytes(), 1), 1)} {}

 private:
  bool waits() const noexcept override { return static_cast<bool>(run_); }

  bool send() override {
    gather();
    if (!run_ || !this->filler_.try_open(run_.slot().epoch)) {
      return false;
    }
    const TraceRange range = this->trace(this->filler_.delivered());
    const Fence<D> ready = run_.slot().ready; // the batches after it are there
    const std::size_t records = (there_ - 1) * batch_ +
                                this->in_->layout().in_records(run_.slot(there_ - 1).units) -
                                begun_;
    const std::size_t copied = this->filler_.make_room(std::min(records, most_records_));
    ready.wait(this->stream_);
    this->copy(run_.place(), begun_, copied);
    const Fence<D> free = this->record(ready);
    const std::uint64_t first = this->filler_.delivered();
    this->filler_.book(copied, run_.slot().epoch, free.serial,
                       [&](HostSlot& slot, std::size_t at, std::size_t i, std::size_t count) {
                         number(slot.source, at, first, i, count);
                         if (Dues* const dues = this->out_->dues(this->filler_.open_place())) {
                           dues->read =
                               at == 0 ? run_.slot((begun_ + i) / batch_).read : dues->read;
                           dues->credits += credits(i, count);
                         }
                       });
    if (this->numbers_) {
      this->numbers_->numbers.forget_before(this->filler_.delivered());
    }
    if (copied == records && run_.fill(there_ - 1) == Fill::partial) {
      this->filler_.close(run_.slot(there_ - 1).ends_epoch);
    }
    begun_ += copied;
    give_back(free, copied == records ? there_ : begun_ / batch_);
    begun_ = copied == records ? 0 : begun_ % batch_;
    return true;
  }
  // Numbers `count` records of a slot, from its record `at` on. Among the records at hand they are
  // those from the i-th on, and among all that the device gave those from number first + i on.
  void number(SourceNumbers& numbers, std::size_t at, std::uint64_t first, std::size_t i,
              std::size_t count) const {
    if (this->numbers_) {
      numbers.go_on(at, this->numbers_->numbers, first + i, count);
      const std::size_t last = begun_ + i + count - 1;
      const DeviceSlot<D>& batch = run_.slot(last / batch_);
      if (last % batch_ + 1 == batch.units) { // what was left out behind it is passed by too
        numbers.go_on(at + count, batch.until);
      }
    } else if (at == 0) {
      const std::size_t from = begun_ + i;
      numbers.start(this->in_->layout().in_records(run_.slot(from / batch_).source) +
                    (this->one_for_one_ ? from % batch_ : 0));
    }
  }
  // Returns the credits of `count` records at hand, from the i-th on.
  std::uint64_t credits(std::size_t i, std::size_t count) const {
    std::uint64_t sum = 0;
    for (std::size_t from = begun_ + i, end = from + count; from != end;) {
      const DeviceSlot<D>& batch = run_.slot(from / batch_);
      const std::uint64_t records = this->in_->layout().in_records(batch.units);
      const std::size_t at = from % batch_;
      const std::size_t part = std::min(end - from, batch_ - at);
      sum += credits_of(batch.credits, records, at + part) - credits_of(batch.credits, records, at);
      from += part;
    }
    return sum;
  }
  // Gathers the first batch, which the stream may have to wait for, and those after it that are
  // there.
  void gather() {
    if (!run_ && !(run_ = this->in_->ring.try_take())) {
      return;
    }
    run_.extend((begun_ + most_records_ + batch_ - 1) / batch_);
    const std::uint64_t epoch = run_.slot().epoch;
    for (there_ = 1; there_ < run_.size() && run_.slot(there_).epoch == epoch &&
                     run_.slot(there_).ready.reached();
         ++there_) {
    }
  }
  // Gives back batches whose places may be filled again after `free`.
  void give_back(const Fence<D>& free, std::size_t count) {
    const typename DeviceRing<D>::Take used = run_.split(count);
    for (std::size_t i = 0; i < used.size(); ++i) {
      used.slot(i).used_until(free);
    }
  }
  void drop() override {
    run_ = {};
    begun_ = 0;
  }

  const std::size_t batch_;          // records
  const std::size_t most_records_;   // in a copy
  typename DeviceRing<D>::Take run_; // batches at hand, the first of them begun_ records done
  std::size_t there_{};              // how many of them are there
  std::size_t begun_{};
};

/// Turns batches into slots of a host ring, as FetcherNode does, if only the device knows how many
/// records they have. First come the counts, those of many batches in one copy, and then exactly
/// the records.
template <AnyDevice D> class CountedFetcherNode final : public FetchStep<D> {
  using Take = typename DeviceRing<D>::Take;

 public:
  CountedFetcherNode(const NodeSetup& setup, D& device, const Shared<DeviceLink<D>>& in,
                     const Shared<HostLink>& out, bool one_for_one, const Shared<OnTheWay>& numbers,
                     const Flush& flush)
      : FetchStep<D>{setup, device, in, out, one_for_one, numbers, flush},
        count_part_{this->in_->layout().parts.size() - 1},
        counts_{Allocation::in<Pinned>(&this->device_,
                                       this->in_->ring.slots() * sizeof(std::uint64_t))},
        count_stream_{this->device_.stream()}, count_line_{this->device_, most_counts + 1},
        asked_up_to_(most_counts + 1), held_(this->in_->ring.slots()) {}
  ~CountedFetcherNode() override {
    wait_at_last([this] { settle_counts(); });
  }

  bool has_open_fence() const noexcept override {
    return FetchStep<D>::has_open_fence() || count_line_.was_recorded() != counts_landed_;
  }

 private:
  static constexpr std::uint64_t most_counts = 2; // copies of counts on their way

  bool waits() const noexcept override { return fetched_ != taken_; }

  bool step() override {
    bool any = take();
    any = ask() || any;
    any = learn() || any;
    return FetchStep<D>::step() || any;
  }
  bool take() {
    const std::uint64_t before = taken_;
    while (Take one = this->in_->ring.try_take()) {
      held_[one.place()] = std::move(one);
      ++taken_;
    }
    return taken_ != before;
  }
  // Copies the counts of adjacent batches: of the first, which may not be there yet, and of those
  // after it that are.
  bool ask() {
    if (asked_ == taken_ || count_line_.was_recorded() - counts_landed_ == most_counts) {
      return false;
    }
    const std::size_t place = asked_ % held_.size();
    const std::size_t most = std::min<std::uint64_t>(taken_ - asked_, held_.size() - place);
    held_[place].slot().ready.wait(count_stream_);
    std::size_t count = 1;
    while (count < most && held_[place + count].slot().ready.reached()) {
      ++count;
    }
    counts_touched_ = true;
    this->device_.copy_to_host(counts() + place, this->in_->memory.data(place, count_part_),
                               count * sizeof(std::uint64_t), count_stream_);
    const std::uint64_t serial = count_line_.record(count_stream_);
    asked_ += count;
    asked_up_to_[serial % asked_up_to_.size()] = asked_;
    return true;
  }
  bool learn() {
    bool any = false;
    while (counts_landed_ != count_line_.was_recorded() &&
           count_line_.reached(counts_landed_ + 1)) {
      const std::uint64_t up_to = asked_up_to_[++counts_landed_ % asked_up_to_.size()];
      for (; known_ != up_to; ++known_) {
        if (!this->attempt(this->filler_.delivered(),
                           [&] { check(held_[known_ % held_.size()]); })) {
          return any;
        }
      }
      any = true;
    }
    return any;
  }
  void check(const Take& batch) const {
    if (count_of(batch) > batch.slot().units) {
      throw_error<Error>(
          {"penstock: a Kernel has written ", count_of(batch),
           " into the count of a batch that has room for ", batch.slot().units,
           " records: write at most capacity(), and give the Kernel .gives where more come "
           "out than go in."});
    }
  }

  bool send() override {
    const TraceRange range = this->trace(this->filler_.delivered());
    const std::uint64_t serial = this->next_serial();
    const std::uint64_t first = fetched_;
    std::size_t bytes = 0;
    while (fetched_ != known_ && bytes < usual_copy) {
      const Take& batch = held_[fetched_ % held_.size()];
      const std::size_t left = count_of(batch) - begun_;
      if (left != 0) {
        if (!this->filler_.try_open(batch.slot().epoch)) {
          break;
        }
        const std::size_t copied = this->filler_.make_room(left);
        this->copy(batch.place(), begun_, copied);
        this->filler_.book(copied, batch.slot().epoch, serial,
                           [&](HostSlot& slot, std::size_t at, std::size_t i, std::size_t count) {
                             if (at == 0) {
                               slot.source.start(batch.slot().source);
                             }
                             if (Dues* const dues = this->out_->dues(this->filler_.open_place())) {
                               add_dues(*dues, batch, at, begun_ + i, count);
                             }
                           });
        begun_ += copied;
        bytes += copied * this->out_->layout().unit_bytes();
      }
      if (begun_ == count_of(batch)) {
        if (batch.fill() == Fill::partial) {
          this->filler_.close(batch.slot().ends_epoch);
        }
        this->out_->use_up(batch.slot().credits - credits_kept(batch));
        begun_ = 0;
        ++fetched_;
      }
    }
    const Fence<D> free = bytes != 0 ? this->record({}) : Fence<D>{};
    for (std::uint64_t ticket = first; ticket != fetched_; ++ticket) {
      Take& batch = held_[ticket % held_.size()];
      batch.slot().used_until(free);
      batch.release();
    }
    return bytes != 0 || fetched_ != first;
  }
  // Adds to the dues of a slot those of `count` records of a batch, from the `first` on, that lie
  // there from its record `at` on.
  void add_dues(Dues& dues, const Take& batch, std::size_t at, std::size_t first,
                std::size_t count) const {
    const std::uint64_t kept = credits_kept(batch);
    dues.read = at == 0 ? batch.slot().read : dues.read;
    dues.credits +=
        credits_of(kept, count_of(batch), first + count) - credits_of(kept, count_of(batch), first);
  }
  // What the device left out of a batch keeps no credits: it was not handed on.
  std::uint64_t credits_kept(const Take& batch) const {
    const DeviceSlot<D>& slot = batch.slot();
    return slot.credits - credits_of(slot.credits, slot.units, slot.units - count_of(batch));
  }
  std::size_t count_of(const Take& batch) const {
    return static_cast<std::size_t>(counts()[batch.place()]);
  }

  void settle_counts() {
    if (counts_touched_) {
      this->device_.sync(count_stream_);
      count_line_.sync();
      counts_touched_ = false;
    }
  }
  void drop() override {
    settle_counts();
    for (Take& held : held_) {
      held.release();
    }
    taken_ = asked_ = known_ = fetched_ = 0;
    counts_landed_ = count_line_.was_recorded();
    begun_ = 0;
  }

  std::uint64_t* counts() const noexcept {
    return reinterpret_cast<std::uint64_t*>(counts_.data());
  }

  const std::size_t count_part_;
  const Allocation counts_; // by place
  // A stream of its own: counts must not wait behind the records of earlier batches.
  typename D::stream_type count_stream_;
  Timeline<D> count_line_;
  Vector<std::uint64_t> asked_up_to_; // by serial
  std::uint64_t counts_landed_{};
  Vector<Take> held_; // by place
  // Batches, in order: those before fetched_ are copied, the counts of those before known_ are
  // known, and those before asked_ asked for.
  std::uint64_t fetched_{};
  std::uint64_t known_{};
  std::uint64_t asked_{};
  std::uint64_t taken_{};
  std::size_t begun_{}; // records of the first batch that are copied
  bool counts_touched_{};
};

} // namespace penstock::detail
