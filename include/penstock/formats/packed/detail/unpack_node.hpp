// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/detail/device_side/device_thread.hpp>
#include <penstock/detail/device_side/kernel_node.hpp>
#include <penstock/detail/engine/run_control.hpp>
#include <penstock/detail/links/device_link.hpp>
#include <penstock/detail/measure/meter.hpp>
#include <penstock/detail/measure/trace.hpp>
#include <penstock/device/device.hpp>
#include <penstock/device/fence.hpp>
#include <penstock/formats/packed/detail/unpack_call.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace penstock::detail {

/// Unpacks what lies in the places of one device ring into those of another: several slots of
/// pieces make a batch, whose work goes to one stream, and batches go to streams in turn. What is
/// damaged is found later, without waiting.
template <class Schema, class Io, AnyDevice D> class UnpackNode final : public DeviceStep {
  using Call = UnpackCall<Schema, Io, D>;

 public:
  /// `slots`: those that make a batch.
  [[gnu::cold]] UnpackNode(const NodeSetup& setup, D& device, const Shared<DeviceLink<D>>& in,
                           const Shared<DeviceLink<D>>& out, Call call, unsigned streams,
                           std::size_t slots)
      : DeviceStep{setup}, device_{device}, in_{in}, out_{out}, call_{std::move(call)},
        slots_{slots} {
    for (unsigned i = 0; i != streams; ++i) {
      streams_.push_back(device_.stream());
      lanes_.push_back({device_, std::max<std::size_t>(Call::most / streams, 2)});
    }
    control().on_lost(*this);
    fills(out_->memory, out_->ring.slots());
  }

  bool has_open_fence() const noexcept override {
    return call_.has_open() || std::ranges::any_of(lanes_, &KernelLane<D>::has_open_fence);
  }
  bool done() const noexcept override { return ended_ && !has_open_fence(); }
  Flow flow() const noexcept override { return out_->ring.state(); }
  bool recounts() const noexcept override { return true; }
  /// For RunControl.
  OpenWork open_work() const {
    std::uint64_t oldest = unknown_size;
    for (const KernelLane<D>& lane : lanes_) {
      oldest = std::min(oldest, lane.open_index(unknown_size));
    }
    return oldest != unknown_size ? OpenWork{name(), oldest} : OpenWork{};
  }

 private:
  bool step() override {
    if (const auto damaged = call_.look()) {
      attempt(call_.record_of(*damaged), [&] { call_.refuse(*damaged); });
      return false;
    }
    bool any = false;
    while (enqueue()) {
      any = true;
    }
    if (!ended_ && !take_ && in_->ring.exhausted()) {
      hand_on();
      out_->ring.end_at(handed_on_);
      ended_ = any = true;
    }
    return any;
  }

  bool enqueue() {
    if (!take_ && !(take_ = in_->ring.try_take())) {
      return false;
    }
    DeviceSlot<D>& from = take_.slot();
    if (filled_ != 0 && claim_.slot().epoch != from.epoch) {
      hand_on();
    }
    if (!claim_ && !(claim_ = out_->ring.try_claim())) {
      return false;
    }
    const std::size_t at = handed_on_ % lanes_.size();
    if (!lanes_[at].room() || !call_.room()) {
      return false;
    }
    const std::uint64_t record = in_->layout().in_records(from.index);
    if (!attempt(record, [&] {
          const TraceRange range = trace(record);
          enqueue(from, lanes_[at], streams_[at], record);
        })) {
      return false;
    }
    const bool full = ++filled_ == slots_;
    const bool ends = from.units != in_->layout().units || from.ends_epoch;
    take_ = {};
    if (full || ends) {
      hand_on();
    }
    return true;
  }
  void enqueue(DeviceSlot<D>& from, KernelLane<D>& lane, Stream<D> stream, std::uint64_t record) {
    DeviceSlot<D>& to = claim_.slot();
    touches_memory_ = true;
    from.ready.wait(stream);
    if (filled_ == 0) {
      to.follow(from);
      to.free.wait(stream);
      to.also_free.wait(stream);
      to.index = given_;
      to.source = in_->layout().in_records(from.source);
      to.units = 0;
    } else {
      to.until = from.until;
      to.ends_epoch = from.ends_epoch;
      to.credits += from.credits;
    }
    const std::size_t before = to.units;
    for (std::size_t i = 0; i != from.units; ++i) {
      to.units += call_.next(in_->visit(from, i).record, to.units);
    }
    call_(in_->template batch<const PackedRecords>(take_.place(), from),
          out_->template batch<Schema>(claim_.place(), to), stream);
    to.ready = lane.record(stream, from.ready, record);
    call_.enqueued(to.ready);
    from.used_until(to.ready);
    to.bytes = to.units * out_->layout().unit_bytes();
    given_ += to.units - before;
    meter(0).did(in_->layout().in_records(from.units),
                 (to.units - before) * out_->layout().unit_bytes());
  }
  void hand_on() {
    if (filled_ == 0) {
      return;
    }
    const DeviceSlot<D>& its = claim_.slot();
    meter(0).found_in_use(handed_on_ + 1 - out_->ring.was_taken());
    out_->ready(handed_on_++) = its.ready;
    const bool full = its.units == out_->layout().units && !its.ends_epoch;
    claim_.publish(full ? Fill::full : Fill::partial);
    claim_ = {};
    filled_ = 0;
  }

  Activity doing() override {
    Activity most = take_ ? Activity::blocked : Activity::starved;
    for (KernelLane<D>& lane : lanes_) {
      const Activity on = lane.doing();
      most = on == Activity::resting || most == Activity::busy ? most : on;
    }
    return most;
  }

  void abandon() override {
    if (touches_memory_) {
      for (typename D::stream_type& stream : streams_) {
        device_.sync(stream);
      }
      for (KernelLane<D>& lane : lanes_) {
        lane.settle();
      }
      touches_memory_ = false;
    }
    take_ = {};
    claim_ = {};
    call_.forget();
    filled_ = 0;
    handed_on_ = given_ = 0;
    ended_ = false;
  }
  void reset() override {
    // Once more: the call at the end of the last run may have failed.
    abandon();
    out_->ring.reset();
  }

  D& device_;
  const Shared<DeviceLink<D>> in_;
  const Shared<DeviceLink<D>> out_;
  Call call_;
  const std::size_t slots_;
  Vector<typename D::stream_type> streams_;
  Vector<KernelLane<D>> lanes_;
  typename DeviceRing<D>::Take take_;   // the next slot
  typename DeviceRing<D>::Claim claim_; // the batch to fill
  std::size_t filled_{};                // slots of it
  std::uint64_t handed_on_{};
  std::uint64_t given_{}; // records
  bool ended_{};
  bool touches_memory_{}; // since the streams were last waited for
};

} // namespace penstock::detail
