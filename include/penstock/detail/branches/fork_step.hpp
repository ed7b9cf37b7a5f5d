// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/detail/device_side/device_thread.hpp>
#include <penstock/detail/links/device_link.hpp>
#include <penstock/detail/measure/meter.hpp>
#include <penstock/device/detail/allocation.hpp>
#include <penstock/device/fence.hpp>
#include <penstock/order/detail/origins.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace penstock::detail {

/// Hands each batch of a device ring on to several rings, which show the same memory: batch t of
/// each is batch t of the first. It moves no bytes. A place goes back when all of them have given
/// theirs back, and its next filler waits, on its stream, for the uses by all of them.
///
/// It claims every place of its rings as soon as that is free, as a Kernel in place does: a place
/// has come back when each ring has it claimed again.
template <AnyDevice D> class ForkStep final : public DeviceStep {
  using Claim = typename DeviceRing<D>::Claim;
  using Take = typename DeviceRing<D>::Take;

 public:
  /// `bell`: of the thread that drives it.
  [[gnu::cold]] ForkStep(const NodeSetup& setup, D& device, const Shared<DeviceLink<D>>& in,
                         const Shared<typename DeviceLink<D>::Doorbell>& bell, std::size_t rings)
      : DeviceStep{setup}, device_{device}, in_{in}, stream_{device.stream()},
        uses_{device, std::min(2 * in->ring.slots() + 1, most_use_events),
              2 * in->ring.slots() + 1},
        held_(in->ring.slots()) {
    branches_.reserve(rings);
    for (std::size_t i = 0; i != rings; ++i) {
      auto out = new_shared<DeviceLink<D>>(device, in_->ring.slots(), in_->shared_memory, bell);
      out->order = in_->order;
      out->has_turns = in_->has_turns;
      out->outputs = in_->outputs;
      control().watch(out->ring);
      branches_.push_back({std::move(out), {}, Vector<Claim>(in_->ring.slots())});
    }
  }
  [[gnu::cold]] ~ForkStep() override {
    wait_at_last([this] { settle(); });
  }

  const Shared<DeviceLink<D>>& out(std::size_t i) const noexcept { return branches_[i].out; }
  /// Has it keep, for a stage behind ring `i`, the numbers in the source of what it hands on; not
  /// if `numbers` is null.
  void tell(std::size_t i, const Shared<OnTheWay>& numbers) { branches_[i].numbers = numbers; }

  bool has_open_fence() const noexcept override { return false; }
  bool done() const noexcept override { return ended_; }
  Flow flow() const noexcept override { return branches_[0].out->ring.state(); }

 private:
  struct Branch {
    Shared<DeviceLink<D>> out;
    Shared<OnTheWay> numbers;
    Vector<Claim> claims; // by place
    std::uint64_t claimed{};
  };

  bool step() override {
    bool any = false;
    for (Branch& branch : branches_) {
      while (Claim claim = branch.out->ring.try_claim()) {
        branch.claims[claim.place()] = std::move(claim);
        ++branch.claimed;
        any = true;
      }
    }
    while (back_ != handed_on_ && came_back(back_)) {
      give_back(back_);
      ++back_;
    }
    while (hand_on()) {
      any = true;
    }
    if (!ended_ && in_->ring.exhausted()) {
      for (Branch& branch : branches_) {
        branch.out->ring.end_at(handed_on_);
      }
      ended_ = any = true;
    }
    return any;
  }

  bool came_back(std::uint64_t ticket) const noexcept {
    return std::ranges::all_of(
        branches_, [&](const Branch& branch) { return branch.claimed > ticket + held_.size(); });
  }
  // Gives a place back, with the fences of all its uses; of more than two, with one behind all.
  void give_back(std::uint64_t ticket) {
    Take& held = held_[ticket % held_.size()];
    DeviceSlot<D>& place = held.slot();
    place.free = place.also_free = {};
    std::size_t uses = 0;
    each_use(held.place(), [&](const Fence<D>& use) {
      (uses == 0 ? place.free : place.also_free) = use;
      ++uses;
    });
    if (uses > 2) {
      waited_ = true;
      each_use(held.place(), [&](const Fence<D>& use) { use.wait(stream_); });
      place.free = {&uses_, uses_.record(stream_)};
      place.also_free = {};
    }
    held.release();
  }
  template <class F> void each_use(std::size_t place, F f) {
    for (Branch& branch : branches_) {
      const DeviceSlot<D>& slot = branch.claims[place].slot();
      for (const Fence<D>* use : std::array{&slot.free, &slot.also_free}) {
        if (use->line) {
          f(*use);
        }
      }
    }
  }

  bool hand_on() {
    Take taken = in_->ring.try_take();
    if (!taken) {
      return false;
    }
    // Kept from the first ring on that has it: if that fails for another, who fills the place would
    // else change what the first one uses.
    Take& held = held_[taken.place()];
    held = std::move(taken);
    const DeviceSlot<D>& from = held.slot();
    for (Branch& branch : branches_) {
      // It is there: the place was given back only when all rings had theirs claimed.
      Claim& claim = branch.claims[held.place()];
      claim.slot().show(from);
      branch.out->ready(handed_on_) = from.ready;
      if (branch.numbers && branch.numbers->is_wanted()) {
        branch.numbers->go_on(units_, from.turns, 0, from.units);
      }
      claim.publish(held.fill());
    }
    units_ += from.units;
    ++handed_on_;
    meter(0).did(in_->layout().in_records(from.units), from.bytes);
    return true;
  }

  Activity doing() override {
    return handed_on_ - back_ == held_.size() ? Activity::blocked : Activity::starved;
  }

  void settle() {
    if (waited_) {
      device_.sync(stream_);
      uses_.sync();
      waited_ = false;
    }
  }
  void abandon() override {
    settle();
    for (Branch& branch : branches_) {
      for (Claim& claim : branch.claims) {
        claim = {};
      }
      branch.claimed = 0;
      if (branch.numbers) {
        branch.numbers->numbers.start(0);
      }
    }
    for (Take& held : held_) {
      held.release();
    }
    handed_on_ = back_ = units_ = 0;
    ended_ = false;
  }
  void reset() override {
    // Once more: the call at the end of the last run may have failed.
    abandon();
    for (Branch& branch : branches_) {
      // The ring before knows nothing of leases given back after the last run.
      branch.out->consumer.sync();
      branch.out->other_uses.sync();
      branch.out->ring.reset();
    }
  }

  D& device_;
  const Shared<DeviceLink<D>> in_;
  typename D::stream_type stream_; // waits for uses, where there are many
  Timeline<D> uses_;
  Vector<Branch> branches_;
  Vector<Take> held_; // by place: what some ring may not have given back
  std::uint64_t handed_on_{};
  std::uint64_t back_{};  // of these
  std::uint64_t units_{}; // of the batches handed on
  bool ended_{};
  bool waited_{}; // the stream, since it was last waited for
};

} // namespace penstock::detail
