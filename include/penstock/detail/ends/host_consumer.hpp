// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/links/host_link.hpp>
#include <penstock/detail/turns/used_up.hpp>
#include <penstock/detail/workers/calling_node.hpp>
#include <penstock/detail/workers/part_by_part.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

namespace penstock::detail {

/// Calls the callable with batches in host memory, on its workers, who share each slot's records.
template <class F, class T, class Where> class HostConsumer : public CallingNode<F> {
 public:
  /// `whole`: a batch is a slot.
  HostConsumer(const NodeSetup& setup, const Shared<HostLink>& in, const F& f, bool whole)
      : CallingNode<F>{setup, f}, in_{in}, in_turn_{in->ring.slots(), Node::used_up()},
        parts_{in->ring.slots(),
               whole ? 1 : parts_a_slot(setup.workers, in->layout().units, in->ring.slots())} {}

  [[gnu::cold]] void report(double seconds, StageReport& stage) const override {
    Node::report(seconds, stage);
    stage.slot_bytes = in_->layout().bytes();
  }

 protected:
  void reset() override {
    parts_.reset();
    in_turn_.reset();
    if (!in_->has_turns) {
      Node::used_up(RunOrder::unknown);
    }
  }
  void work(unsigned worker, Meter& meter) override {
    HostRing& ring = in_->ring;
    Draws draws{parts_};
    for (;;) {
      const PartRange share = draws.next();
      const bool at_once = ring.is_filled(share.ticket);
      const HostSlot* const slot = ring.await_filled(share.ticket);
      meter.goes_on(at_once, Activity::starved, Activity::busy);
      if (!slot) {
        return;
      }
      const std::size_t place = share.ticket % ring.slots();
      for (std::size_t part = share.first; part != share.end; ++part) {
        const PartOf units{slot->units, parts_.parts(), part};
        if (units.size() != 0) {
          if (!call(worker, place, *slot, units)) {
            return;
          }
          const std::size_t bytes = in_->bytes(place, *slot);
          const bool all = units.size() == slot->units;
          meter.did(units.size(), all ? bytes : bytes * units.size() / slot->units);
        }
      }
      draws.took(share, slot->units, meter.spent(Activity::busy, Activity::starved));
      if (parts_.finish(share)) {
        used_up(share.ticket, *slot);
      }
    }
  }
  /// Returns whether all that the run delivers has been taken.
  bool exhausted() const noexcept { return in_->ring.exhausted(); }

 private:
  // Returns false if the run is to end.
  bool call(unsigned worker, std::size_t place, const HostSlot& slot, PartOf units) {
    const std::uint64_t index = in_->index_of(slot, units.begin);
    const auto batch = parts_.parts() == 1 ? in_->batch<const T, Where>(place, slot, index)
                                           : in_->part<const T, Where>(place, slot, index,
                                                                       units.begin, units.size());
    return this->attempt(index, [&] {
      const TraceRange range = this->trace(index);
      std::invoke(this->call_of(worker), batch);
    });
  }

  void used_up(std::uint64_t ticket, const HostSlot& slot) noexcept {
    const std::uint64_t behind = in_->has_turns && slot.units != 0 ? in_->place_behind(slot) : 0;
    if (this->workers() != 1 && in_->has_turns) {
      in_turn_.note(ticket, behind, [this](std::uint64_t due) { give_back(due); });
      return;
    }
    if (behind != 0) {
      Node::used_up(behind);
    }
    give_back(ticket);
  }
  void give_back(std::uint64_t ticket) noexcept {
    const std::uint64_t credits = in_->credits(ticket % in_->ring.slots());
    in_->ring.take_at(ticket).release();
    in_->use_up(credits);
  }

  const Shared<HostLink> in_;
  UsedInTurn<> in_turn_;
  Parts<> parts_;
};

} // namespace penstock::detail
