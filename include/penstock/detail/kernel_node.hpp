// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/detail/build.hpp>
#include <penstock/detail/device_step.hpp>
#include <penstock/detail/device_thread.hpp>
#include <penstock/detail/kernel_lane.hpp>
#include <penstock/detail/sizes.hpp>
#include <penstock/detail/trace.hpp>
#include <penstock/fence.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace penstock::detail {

/// Enqueues a callable for each batch of a device ring, on its streams in turn. Batch t in is batch
/// t out: of a ring of its own, or, where it changes batches in place, of one with the same memory.
///
/// In place it claims every place of its ring as soon as that is free, and only then gives back the
/// same place of the ring before.
template <class F, class From, class To, bool InPlace, AnyDevice D>
class KernelNode final : public DeviceStep {
  using Claim = typename PlaceRing<D>::Claim;
  using Take = typename PlaceRing<D>::Take;

 public:
  KernelNode(const F& f, unsigned streams, Recount recount, std::shared_ptr<DeviceLink<D>> out,
             Build<D>& build)
      : DeviceStep{build.name("Kernel"), 1, build.control}, call_{f}, recount_{recount},
        device_{*build.device}, in_{build.places}, out_{std::move(out)},
        claims_(out_->ring.slots()), held_(InPlace ? out_->ring.slots() : 0) {
    for (unsigned lane = 0; lane < streams; ++lane) {
      lanes_.emplace_back(device_, std::max<std::size_t>(most_open / streams, 2));
    }
    build.control.watch(out_->ring);
    build.control.on_lost([this] { return open_work(); });
    build.places = out_;
    build.device_thread->add(*this, out_);
  }

  bool open() const noexcept override {
    return std::any_of(lanes_.begin(), lanes_.end(), [](const auto& lane) { return lane.open(); });
  }
  bool done() const noexcept override { return ended_ && !open(); }
  Flow flow() const noexcept override { return out_->ring.state(); }
  bool recounts() const noexcept override { return !recount_.same(); }
  void report(double seconds, StageReport& stage) const override {
    Node::report(seconds, stage);
    stage.depth = out_->ring.slots();
  }

 private:
  static constexpr std::size_t most_open = 64; // batches on the device's queues

  bool step() override {
    bool any = claim_ahead();
    while (enqueue()) {
      any = true;
    }
    if (!ended_ && !take_ && in_->ring.exhausted()) {
      out_->ring.end_at(handed_on_);
      ended_ = true;
      any = true;
    }
    return any;
  }

  // Of all that is free in place, else of the next.
  bool claim_ahead() {
    bool any = false;
    if constexpr (InPlace) {
      while (Claim claim = out_->ring.try_claim()) {
        if (Take& held = held_[claim.place()]) {
          held.slot().free = claim.slot().free;
          held.slot().also_free = claim.slot().also_free;
          held.release();
        }
        claims_[claim.place()] = std::move(claim);
        any = true;
      }
    }
    return any;
  }
  Claim& claim_for(std::uint64_t ticket) {
    Claim& claim = claims_[ticket % claims_.size()];
    if constexpr (!InPlace) {
      if (!claim) {
        claim = out_->ring.try_claim();
      }
    }
    return claim;
  }

  bool enqueue() {
    if (!take_ && !(take_ = in_->ring.try_take())) {
      return false;
    }
    Claim& claim = claim_for(take_.ticket());
    KernelLane<D>& lane = lanes_[take_.ticket() % lanes_.size()];
    if (!claim || !lane.room()) {
      return false;
    }
    Place<D>& from = take_.slot();
    Place<D>& to = claim.slot();
    const std::uint64_t record = from.index / in_->grain().units;
    if (!attempt(record, [&] {
          const TraceRange range = trace(record);
          call(from, to, lane.stream());
          hand_on(from, to, lane.record(from.ready, record));
        })) {
      return false;
    }
    const Fill fill = take_.fill();
    if constexpr (InPlace) {
      held_[take_.place()] = std::move(take_);
    } else {
      take_.release();
    }
    claim.publish(fill);
    return true;
  }
  void call(Place<D>& from, Place<D>& to, Stream<D> stream) {
    touches_memory_ = true;
    from.ready.wait(stream);
    const std::size_t at = take_.place();
    if constexpr (InPlace) {
      to.index = from.index;
      to.source = from.source;
      to.records = from.records;
      to.bytes = from.bytes;
      std::invoke(call_, out_->template batch<To>(at, to), stream);
    } else {
      to.free.wait(stream);
      to.also_free.wait(stream);
      to.index = given_;
      to.source = from.source / in_->grain().units;
      to.records = recount_.of(from.records / in_->grain().units);
      to.bytes = to.records * out_->grain().record_bytes();
      const std::size_t there = handed_on_ % claims_.size();
      std::invoke(call_, in_->template batch<const From>(at, from),
                  out_->template batch<To>(there, to), stream);
    }
  }
  void hand_on(Place<D>& from, Place<D>& to, const Fence<D>& fence) {
    meter(0).did(from.records / in_->grain().units, to.bytes);
    meter(0).found_in_use(handed_on_ + 1 - out_->ring.was_taken());
    to.ready = fence;
    out_->ready(handed_on_++) = fence;
    given_ += to.records;
    from.free = fence;
    from.also_free = {};
  }

  Spent doing() override {
    bool waits = false;
    bool works = false;
    for (KernelLane<D>& lane : lanes_) {
      const Spent on = lane.doing();
      works = works || on == Spent::busy;
      waits = waits || on == Spent::starved;
    }
    return works ? Spent::busy : waits || !take_ ? Spent::starved : Spent::blocked;
  }

  void abandon() override {
    if (touches_memory_) {
      for (KernelLane<D>& lane : lanes_) {
        device_.sync(lane.stream());
        lane.settle();
      }
      touches_memory_ = false;
    }
    take_ = {};
    for (Take& held : held_) {
      held.release();
    }
    for (Claim& claim : claims_) {
      claim = {};
    }
    handed_on_ = given_ = 0;
    ended_ = false;
  }
  void reset() override {
    // Again: at the end of the last run it may have failed.
    abandon();
    out_->ring.reset();
  }

  OpenWork open_work() const {
    std::uint64_t oldest = unknown_size;
    for (const KernelLane<D>& lane : lanes_) {
      oldest = std::min(oldest, lane.open_index(unknown_size));
    }
    return oldest != unknown_size ? OpenWork{name(), oldest} : OpenWork{};
  }

  F call_;
  const Recount recount_;
  D& device_;
  const std::shared_ptr<DeviceLink<D>> in_;
  const std::shared_ptr<DeviceLink<D>> out_;
  std::vector<KernelLane<D>> lanes_;
  Take take_;                 // the next batch
  std::vector<Claim> claims_; // by place: those to fill
  std::vector<Take> held_;    // by place, in place: those whose batch is out
  std::uint64_t handed_on_{};
  std::uint64_t given_{}; // units
  bool ended_{};
  bool touches_memory_{}; // as far as nobody has waited for the streams
};

} // namespace penstock::detail
