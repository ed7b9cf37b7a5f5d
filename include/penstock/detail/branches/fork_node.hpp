// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/detail/device_side/poison.hpp>
#include <penstock/detail/engine/node.hpp>
#include <penstock/detail/links/host_link.hpp>
#include <penstock/detail/measure/meter.hpp>
#include <penstock/device/device.hpp>
#include <penstock/parking.hpp>
#include <penstock/ring/ring.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace penstock::detail {

/// Hands each slot of a ring on to several rings, which show the same memory: slot t of each is
/// slot t of the first. A slot goes back when all of them are done with it. One thread; it moves no
/// bytes. What takes from those rings may outlive it, and may give slots back then.
///
/// No slot is filled, and no memory freed, while a device copies from it. A copier gives its place
/// in its own ring back at its copy's end: a fence says so in a run, its stream behind it. Of a run
/// that ends early the slots stay here until the next one, for which each copier waits before this
/// node gives them back; and the copiers die, and wait, before the memory's ring does.
template <AnyDevice D> class ForkNode final : public Node {
  using Clock = Meter::Clock;

 public:
  /// `device`: whose pinned memory it is; null if it is nobody's.
  [[gnu::cold]] ForkNode(const NodeSetup& setup, D* device, const Shared<HostLink>& in,
                         std::size_t rings)
      : Node{setup}, device_{device}, in_{in}, held_(in->ring.slots()) {
    in_->ring.on_publish(bell_.get());
    out_.reserve(rings);
    for (std::size_t i = 0; i != rings; ++i) {
      auto out = new_shared<HostLink>(in_->ring.slots(), in_->memory.lent(), Side::one, Side::many);
      out->order = in_->order;
      out->has_turns = in_->has_turns;
      out->outputs = in_->outputs;
      out->never_empty = in_->never_empty;
      out->never_cut = in_->never_cut;
      out->counts = in_->counts;
      out->lent = in_;
      out->bell = bell_;
      out->ring.on_release(bell_.get());
      control().watch(out->ring);
      out_.push_back(std::move(out));
    }
  }

  const Shared<HostLink>& out(std::size_t i) const noexcept { return out_[i]; }

 private:
  // The rings behind this are not in use: whoever takes from them is reset before.
  [[gnu::cold]] void reset() override {
    for (HostRing::Take& held : held_) {
      held.release();
    }
    for (const auto& out : out_) {
      out->reset();
    }
    taken_ = back_ = 0;
    halted_ = false;
  }
  void work(unsigned /*worker*/, Meter& meter) override {
    Clock::time_point moved = Clock::now();
    Activity doing = Activity::starved;
    for (;;) {
      // Read before looking at anything: what changes after that look rings once more.
      const std::uint32_t count = bell_->count();
      bool any = give_back();
      any = hand_on(meter) || any;
      if (halted_ || in_->ring.state() > Flow::ended) {
        return;
      }
      if (in_->ring.exhausted()) {
        // What is still held is nobody's to fill in this run.
        for (const auto& out : out_) {
          out->ring.end_at(taken_);
        }
        return;
      }
      const bool full = taken_ - back_ == held_.size();
      const Activity now = any ? Activity::busy : full ? Activity::blocked : Activity::starved;
      if (now != doing) {
        meter.went_by(doing, now); // what was seen last has gone on since
        doing = now;
      }
      if (any) {
        moved = Clock::now();
      } else if (Clock::now() - moved < look_again) {
        SpinThenFutex::pause();
      } else {
        bell_->wait(count, std::chrono::nanoseconds{-1});
      }
    }
  }

  // Gives back the slots with which all rings are done.
  bool give_back() noexcept {
    const std::uint64_t before = back_;
    while (back_ != taken_ && is_done(back_)) {
      HostRing::Take& held = held_[back_ % held_.size()];
      if (device_) {
        poison(*device_, *in_, held);
      }
      held.release();
      ++back_;
    }
    return back_ != before;
  }
  bool is_done(std::uint64_t ticket) noexcept {
    for (const auto& out : out_) {
      if (!out->ring.is_free(ticket + held_.size())) {
        return false;
      }
    }
    return true;
  }
  bool hand_on(Meter& meter) {
    bool any = false;
    // Empty slots too, so that all rings have the same places.
    while (HostRing::Take next = in_->ring.try_take(1, Empties::give)) {
      // Kept from the first ring on that has it, also if the run ends before the others do: a
      // thread that still waits to fill the slot would change what is being copied.
      HostRing::Take& taken = held_[taken_ % held_.size()];
      taken = std::move(next);
      const HostSlot& given = taken.slot();
      for (const auto& out : out_) {
        // It is free: the ring has as many slots as this one, and had this one before.
        HostRing::Claim claim = out->ring.try_claim();
        if (!claim) {
          return halted_ = true; // what is kept for it must not make room for another
        }
        HostSlot& slot = claim.slot();
        slot.begin(given);
        if (given.units != 0 && !attempt(given.index, [&] {
              slot.source.go_on(0, given.source, 0, given.units + 1);
            })) {
          slot.units = 0; // it goes on, empty, to a thread that did not see the ring fail
          return halted_ = true;
        }
        out->publish(std::move(claim));
      }
      if (given.units != 0) {
        meter.did(in_->layout().whole_records(given.source[0], given.units),
                  in_->bytes(taken.place(), given));
      }
      ++taken_;
      any = true;
    }
    return any;
  }

  static constexpr std::chrono::microseconds look_again{20};

  D* const device_;
  const Shared<HostLink> in_;
  const Shared<HostRing::Doorbell> bell_ = new_shared<HostRing::Doorbell>();
  Vector<Shared<HostLink>> out_;
  Vector<HostRing::Take> held_; // by place: what some ring may not be done with
  std::uint64_t taken_{};       // slots
  std::uint64_t back_{};        // of them
  bool halted_{};               // a ring is closed: the run ends
};

} // namespace penstock::detail
