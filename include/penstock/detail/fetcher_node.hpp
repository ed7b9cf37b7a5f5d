// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/build.hpp>
#include <penstock/detail/device_step.hpp>
#include <penstock/detail/device_thread.hpp>
#include <penstock/detail/slot_filler.hpp>
#include <penstock/detail/trace.hpp>
#include <penstock/fence.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace penstock::detail {

/// Turns batches of a device ring into slots of a host ring, with copies sized for the bus: the way
/// back of what Copier does.
///
/// At most two copies are in flight, one running and one queued; batches gather meanwhile. With
/// fewer in flight what is there is sent at once. A copy ends at `copy_bytes`, where either ring
/// wraps, at a short batch, and before a batch that the stream would first have to wait for.
template <AnyDevice D> class FetcherNode final : public DeviceStep {
  using Take = typename PlaceRing<D>::Take;

 public:
  FetcherNode(std::size_t slots, const Grain& slot, Build<D>& build)
      : DeviceStep{build.name("AsyncCopier"), 1, build.control}, device_{*build.device},
        in_{build.places}, out_{build.template link<Pinned>(slots, slot, Side::one, "AsyncCopier")},
        filler_{*out_}, stream_{device_.stream()}, line_{device_, flights + 1},
        units_{in_->grain().units}, batch_{in_->grain().records / units_},
        most_records_{
            std::max<std::size_t>(copy_bytes / std::max<std::size_t>(slot.record_bytes(), 1), 1)} {
    out_->bell = build.device_thread->bell();
    out_->ring.on_release(out_->bell.get());
    build.device_thread->add(*this);
    build.device_thread = nullptr;
    build.places = nullptr;
    build.skips = false; // what comes here is numbered as it is delivered
  }

  bool open() const noexcept override { return in_flight() != 0; }
  bool done() const noexcept override { return ended_; }
  Flow flow() const noexcept override { return out_->ring.state(); }
  void report(double seconds, StageReport& stage) const override {
    Node::report(seconds, stage);
    stage.depth = out_->ring.slots();
  }

 private:
  static constexpr std::uint64_t flights = 2;

  std::uint64_t in_flight() const noexcept { return line_.was_recorded() - landed_; }

  bool step() override {
    bool any = land();
    while (in_flight() < flights && send()) {
      any = true;
    }
    if (!ended_ && !run_ && in_flight() == 0 && in_->ring.exhausted()) {
      filler_.close();
      hand_on();
      filler_.end();
      ended_ = any = true;
    }
    return any;
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
  void hand_on() {
    filler_.hand_on(landed_, [this](const HostSlot& slot) {
      meter(0).did(slot.records, slot.bytes);
      meter(0).found_in_use(out_->ring.was_in_use());
    });
  }

  bool send() {
    gather();
    if (!run_ || !filler_.open()) {
      return false;
    }
    const TraceRange range = trace(filler_.delivered());
    const Fence<D> ready = run_.slot().ready; // the others are there
    const std::size_t records =
        (there_ - 1) * batch_ + run_.slot(there_ - 1).records / units_ - begun_;
    const std::size_t copied = filler_.make_room(std::min(records, most_records_));
    ready.wait(stream_);
    touches_memory_ = true;
    for (std::size_t part = 0; part < out_->grain().parts.size(); ++part) {
      const std::size_t each = out_->grain().parts[part].each;
      device_.copy_to_host(filler_.at(part), in_->places.data(run_.place(), part) + begun_ * each,
                           copied * each, stream_);
    }
    const std::uint64_t serial = line_.record(stream_);
    begins_[serial % begins_.size()] = ready;
    filler_.book(copied, serial, [this](std::size_t i) {
      const std::size_t at = begun_ + i;
      return run_.slot(at / batch_).source / units_ + at % batch_;
    });
    if (copied == records && run_.fill(there_ - 1) == Fill::partial) {
      filler_.close();
    }
    begun_ += copied;
    give_back({&line_, serial}, copied == records ? there_ : begun_ / batch_);
    begun_ = copied == records ? 0 : begun_ % batch_;
    return true;
  }
  // At hand is the first batch, which the stream may have to wait for, and those after it that are
  // there.
  void gather() {
    if (!run_ && !(run_ = in_->ring.try_take())) {
      return;
    }
    run_.extend((begun_ + most_records_ + batch_ - 1) / batch_);
    for (there_ = 1; there_ < run_.size() && run_.slot(there_).ready.reached(); ++there_) {
    }
  }
  // Places that are to be filled again after `free`.
  void give_back(const Fence<D>& free, std::size_t count) {
    const Take used = run_.split(count);
    for (std::size_t i = 0; i < used.size(); ++i) {
      used.slot(i).free = free;
      used.slot(i).also_free = {};
    }
  }

  Spent doing() override {
    if (in_flight() != 0) {
      const std::uint64_t oldest = landed_ + 1;
      return begins_[oldest % begins_.size()].reached() ? Spent::busy : Spent::starved;
    }
    return run_ ? Spent::blocked : Spent::starved;
  }

  void abandon() override {
    if (touches_memory_) {
      device_.sync(stream_);
      line_.sync();
      touches_memory_ = false;
    }
    run_ = {};
    filler_.reset();
    landed_ = line_.was_recorded();
    begun_ = 0;
    ended_ = false;
  }
  void reset() override {
    // Again: at the end of the last run it may have failed.
    abandon();
    out_->ring.reset();
  }

  D& device_;
  const std::shared_ptr<DeviceLink<D>> in_;
  const std::shared_ptr<HostLink> out_;
  SlotFiller filler_;
  typename D::stream_type stream_;
  Timeline<D> line_;
  std::uint64_t landed_{}; // serial of the newest copy that is; others ask about its fence too
  std::array<Fence<D>, flights + 1> begins_; // by serial: what a copy waits for
  const std::size_t units_;                  // in a record of the device's
  const std::size_t batch_;                  // records
  const std::size_t most_records_;           // of a copy
  Take run_;            // batches at hand, the first of them begun_ records done
  std::size_t there_{}; // how many of them are there
  std::size_t begun_{};
  bool ended_{};
  bool touches_memory_{}; // as far as nobody has waited for the stream
};

} // namespace penstock::detail
