// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/device_side/fetch_step.hpp>
#include <penstock/detail/engine/sizes.hpp>
#include <penstock/detail/measure/trace.hpp>

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

} // namespace penstock::detail
