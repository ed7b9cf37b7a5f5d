// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/config.hpp>
#include <penstock/data/counted.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/detail/device_side/captured_groups.hpp>
#include <penstock/detail/device_side/device_thread.hpp>
#include <penstock/detail/device_side/kernel_call.hpp>
#include <penstock/detail/device_side/launch_check.hpp>
#include <penstock/detail/engine/sizes.hpp>
#include <penstock/detail/measure/meter.hpp>
#include <penstock/device/detail/allocation.hpp>
#include <penstock/device/fence.hpp>
#include <penstock/sources/source.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace penstock::detail {

/// The fences of the work that a Kernel enqueued on one of its streams. Only the device thread uses
/// it, but for open_index().
template <AnyDevice D> class KernelLane {
 public:
  KernelLane(D& device, std::size_t most)
      : line_{new Timeline<D>{device, most + 1}}, begins_(most + 1), indices_(most + 1) {}

  /// Returns whether one more batch may be enqueued: a full queue would block the call.
  bool room() {
    const std::uint64_t next = line_->was_recorded() + 1;
    return next < begins_.size() || line_->reached(next + 1 - begins_.size());
  }
  /// Returns the fence of the work just enqueued, whose input is there at `begins`.
  Fence<D> record(Stream<D> stream, const Fence<D>& begins, std::uint64_t index) {
    const std::uint64_t serial = line_->was_recorded() + 1;
    begins_[serial % begins_.size()] = begins;
    indices_[serial % indices_.size()].store(index, StdAtomics::relaxed);
    return {line_.get(), line_->record(stream)};
  }
  /// Returns whether the GPU works on what was enqueued, waits for its input, or has nothing to do.
  Activity doing() {
    const std::uint64_t oldest = line_->oldest_open();
    return oldest == 0                                  ? Activity::resting
           : begins_[oldest % begins_.size()].reached() ? Activity::busy
                                                        : Activity::starved;
  }
  bool has_open_fence() const noexcept { return !line_->seen(line_->was_recorded()); }
  /// Brings the fences up to date, after the stream was waited for.
  void settle() { line_->sync(); }
  /// Returns the first record of the oldest batch that is not known to be done, or `none`. Any
  /// thread.
  std::uint64_t open_index(std::uint64_t none) const noexcept {
    const std::uint64_t oldest = line_->was_reached() + 1;
    return oldest <= line_->was_recorded()
               ? indices_[oldest % indices_.size()].load(StdAtomics::relaxed)
               : none;
  }

 private:
  Owned<Timeline<D>> line_;
  Vector<Fence<D>> begins_; // by serial: what each waits for
  Vector<StdAtomics::Atomic<std::uint64_t>> indices_;
};

/// How many records a batch gives: `gives` for each `per` of its records, rounded up to whole
/// groups; or for the whole batch, if `per` is 0.
struct Recount {
  std::size_t gives{1};
  std::size_t per{1};

  bool same() const noexcept { return gives == 1 && per == 1; }
  std::size_t of(std::size_t records) const;
  /// Returns how many a run of `units`, or unknown_size, gives in batches of `batch`; each epoch
  /// ends its last batch. Returns unknown_size if that is more than can be counted.
  std::uint64_t of_run(std::uint64_t units, std::uint64_t epochs, std::size_t batch) const;
};

/// Enqueues a callable for each batch of a device ring, on its streams in turn, or replays its
/// captured work. Batch t in is batch t out: in a ring with memory of its own or, if the callable
/// changes batches in place, with the same memory. In place it claims every place of its ring as
/// soon as that is free, and only then gives back the same place of the ring before.
template <class F, class From, class To, bool InPlace, AnyDevice D>
class KernelNode final : public DeviceStep {
  using Claim = typename DeviceRing<D>::Claim;
  using Take = typename DeviceRing<D>::Take;
  using Call = KernelCall<F, From, To, InPlace, D>;

 public:
  KernelNode(const NodeSetup& setup, D& device, const Shared<DeviceLink<D>>& in,
             const Shared<DeviceLink<D>>& out, const F& f, unsigned streams, Recount recount)
      : DeviceStep{setup}, recount_{recount}, device_{device}, in_{in}, out_{out},
        call_{f, *in_, *out_}, claims_(out_->ring.slots()),
        held_(InPlace ? out_->ring.slots() : 0) {
    for (unsigned i = call_.streams(streams); i != 0; --i) {
      streams_.push_back(device_.stream());
    }
    for (unsigned lane = 0; lane < streams; ++lane) {
      lanes_.push_back({device_, std::max<std::size_t>(most_open / streams, 2)});
    }
    note_ = call_.capture(device_, streams_, recount_.of(in_->layout().records()));
    control().on_lost(*this);
    fills(out_->memory, out_->ring.slots());
  }

  bool has_open_fence() const noexcept override {
    return std::ranges::any_of(lanes_, &KernelLane<D>::has_open_fence);
  }
  bool done() const noexcept override { return ended_ && !has_open_fence(); }
  Flow flow() const noexcept override { return out_->ring.state(); }
  bool recounts() const noexcept override { return is_counted<To> || !recount_.same(); }
  void report(double seconds, StageReport& stage) const override {
    Node::report(seconds, stage);
    stage.ring_bytes *= InPlace ? 0 : 1;
    stage.note = note_;
  }
  /// For RunControl.
  OpenWork open_work() const {
    std::uint64_t oldest = unknown_size;
    for (const KernelLane<D>& lane : lanes_) {
      oldest = std::min(oldest, lane.open_index(unknown_size));
    }
    return oldest != unknown_size ? OpenWork{name(), oldest} : OpenWork{};
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
      ended_ = any = true;
    }
    return any;
  }

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
  Claim& claim_of(std::size_t i) noexcept { return claims_[(take_.ticket() + i) % claims_.size()]; }
  bool claimed(Claim& claim) noexcept {
    if (!InPlace && !claim) {
      claim = out_->ring.try_claim();
    }
    return static_cast<bool>(claim);
  }

  bool enqueue() {
    if (!take_ && !(take_ = in_->ring.try_take())) {
      return false;
    }
    if constexpr (Call::replays) {
      take_.extend(replay_groups.front() - take_.place() % replay_groups.front());
    }
    const std::size_t at = take_.ticket() % lanes_.size();
    KernelLane<D>& lane = lanes_[at];
    Stream<D> stream = streams_[at];
    std::size_t possible = 0; // batches at hand that have a place to go to
    while (possible < take_.size() && claimed(claim_of(possible))) {
      ++possible;
    }
    if (possible == 0 || !lane.room()) {
      return false;
    }
    const bool short_last = take_.slot(possible - 1).units != in_->layout().units;
    const std::size_t group = call_.largest(take_.place(), possible - (short_last ? 1 : 0));
    const std::size_t count = std::max<std::size_t>(group, 1);
    const std::uint64_t record = in_->layout().in_records(take_.slot().index);
    if (!attempt(record, [&] {
          const TraceRange range = trace(record);
          touches_memory_ = true;
          make_ready(count, stream);
          enqueue(group, stream);
          use_up(count, lane.record(stream, take_.slot(count - 1).ready, record));
        })) {
      return false;
    }
    hand_on(count);
    return true;
  }
  // Enqueues the work of a group of batches, or of the next one.
  void enqueue(std::size_t group, Stream<D> stream) {
    const Calling calling{meter(0).call_times(), meter(0).calls()};
    if (group != 0) {
      return call_.replay(take_.place(), group, stream);
    }
    call_checked(launches_, [&] { call_(take_, claim_of(0), stream); });
    check_not_capturing(device_, stream);
  }
  // Has the stream wait for the batches and their places, and fills in all that is known of the
  // batches before they are there.
  void make_ready(std::size_t count, Stream<D> stream) {
    for (std::size_t i = 0; i < count; ++i) {
      DeviceSlot<D>& from = take_.slot(i);
      DeviceSlot<D>& to = claim_of(i).slot();
      // The last fence of a stream covers those before it.
      if (i + 1 == count || take_.slot(i + 1).ready.line != from.ready.line) {
        from.ready.wait(stream);
      }
      to.follow(from);
      if constexpr (InPlace) {
        to.stay(from);
      } else {
        to.free.wait(stream);
        to.also_free.wait(stream);
        to.index = given_;
        to.source = in_->layout().in_records(from.source);
        to.units = recount_.of(in_->layout().in_records(from.units));
        to.bytes = to.units * out_->layout().unit_bytes();
      }
      given_ += to.units;
    }
  }
  void use_up(std::size_t count, const Fence<D>& fence) {
    for (std::size_t i = 0; i < count; ++i) {
      DeviceSlot<D>& from = take_.slot(i);
      DeviceSlot<D>& to = claim_of(i).slot();
      meter(0).did(in_->layout().in_records(from.units), to.bytes);
      meter(0).found_in_use(handed_on_ + 1 - out_->ring.was_taken());
      to.ready = fence;
      out_->ready(handed_on_++) = fence;
      from.used_until(fence);
    }
  }
  void hand_on(std::size_t count) {
    // Published last first: they are taken in order, and therefore all at once and not as they
    // trickle.
    for (std::size_t i = count; i-- != 0;) {
      claim_of(i).publish(take_.fill(i));
    }
    if constexpr (InPlace) {
      for (std::size_t i = 0; i < count; ++i) {
        Take one = take_.split(1);
        held_[one.place()] = std::move(one);
      }
    } else {
      take_.split(count).release();
    }
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
    // Once more: the call at the end of the last run may have failed.
    abandon();
    if constexpr (InPlace) {
      // The ring before knows nothing of leases given back after the last run.
      out_->consumer.sync();
      out_->other_uses.sync();
    }
    out_->ring.reset();
  }

  const Recount recount_;
  D& device_;
  const Shared<DeviceLink<D>> in_;
  const Shared<DeviceLink<D>> out_;
  Call call_;
  std::string note_;                        // why nothing is replayed
  Vector<typename D::stream_type> streams_; // what is replayed goes to the first
  Vector<KernelLane<D>> lanes_;
  Take take_;               // the next batch
  LaunchCheck<D> launches_; // of a thread with nothing latched when it started
  Vector<Claim> claims_;    // by place: those to fill
  Vector<Take> held_;       // by place, in place: those whose batch is out
  std::uint64_t handed_on_{};
  std::uint64_t given_{}; // units
  bool ended_{};
  bool touches_memory_{}; // since the streams were last waited for
};

#if PENSTOCK_BODIES
PENSTOCK_INLINE std::size_t Recount::of(std::size_t records) const {
  return per == 0 ? gives
                  : checked_bytes(records / per + (records % per != 0 ? 1 : 0), gives, "Kernel");
}

PENSTOCK_INLINE std::uint64_t Recount::of_run(std::uint64_t units, std::uint64_t epochs,
                                              std::size_t batch) const {
  if (units == unknown_size || same()) {
    return units;
  }
  const std::uint64_t epoch = units / epochs;
  const std::size_t last = epoch % batch;
  std::uint64_t all = epoch / batch;
  const bool fits = !__builtin_mul_overflow(all, of(batch), &all) &&
                    !__builtin_add_overflow(all, last != 0 ? of(last) : 0, &all) &&
                    !__builtin_mul_overflow(all, epochs, &all);
  return fits ? all : unknown_size;
}
#endif

} // namespace penstock::detail
