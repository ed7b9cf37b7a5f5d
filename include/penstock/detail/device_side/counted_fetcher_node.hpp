// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/throwing.hpp>
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
