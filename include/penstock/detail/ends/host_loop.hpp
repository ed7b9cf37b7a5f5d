// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/ends/leases_out.hpp>
#include <penstock/detail/engine/loops.hpp>
#include <penstock/detail/engine/node.hpp>
#include <penstock/detail/links/host_link.hpp>
#include <penstock/error.hpp>
#include <penstock/lease.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

namespace penstock::detail {

/// Hands out slots in host memory.
class HostLender final : public Lender {
 public:
  explicit HostLender(Shared<HostLink> link)
      : link_{std::move(link)}, out_{link_->ring, link_->ring.slots(), link_->ahead.get()} {}
  HostLender(const HostLender&) = delete;
  HostLender& operator=(const HostLender&) = delete;
  ~HostLender() override { take_back(); }

  HostLink& link() noexcept { return *link_; }
  LeasesOut<HostRing>& out() noexcept { return out_; }

  PENSTOCK_INLINE void give_back(std::uint64_t ticket) noexcept override;
  bool has_room() noexcept override { return out_.has_room(); }
  std::size_t lent() const noexcept override { return out_.count(); }

  PENSTOCK_INLINE void used_on(std::uint64_t /*ticket*/, StreamHandle /*stream*/) override;
  [[gnu::cold]] PENSTOCK_INLINE Position position(std::uint64_t ticket) override;
  [[gnu::cold]] PENSTOCK_INLINE Visit visit(std::uint64_t ticket, std::size_t i) override;

 private:
  [[gnu::cold]] void check_turns(const char* what, bool other = false) const;

  const Shared<HostLink> link_;
  LeasesOut<HostRing> out_;
};

/// Stands in for the last stage of an open pipeline whose batches lie in host memory.
template <class T, class Where>
class HostLoop final : public Node, public BatchSource<Batch<const T, Where>> {
  using B = Batch<const T, Where>;

 public:
  HostLoop(const NodeSetup& setup, const Shared<HostLink>& in)
      : Node{setup}, lender_{new_shared<HostLender>(in)} {}

  [[gnu::cold]] void report(double seconds, StageReport& stage) const override {
    Node::report(seconds, stage);
    stage.slot_bytes = lender_->link().layout().bytes();
  }

  void enter(StreamHandle, std::chrono::milliseconds lease_wait) noexcept override {
    lender_->belong_here(lease_wait);
    meter(0).start();
  }
  Lease<B> next() noexcept override {
    body_.reset();
    meter(0).spent(Activity::busy, Activity::starved);
    used_up(behind_);
    HostRing::Take taken;
    const CallsBeforeSleep tells{meter(0).before_waits()};
    if (!attempt(delivered_,
                 [&] {
                   lender_->check_no_strays();
                   // Checked for each slot: those of skipped records take up a place too.
                   do {
                     if (lender_->has_shared() && !lender_->await_room(control().interrupt())) {
                       return;
                     }
                     lender_->out().check_next();
                     taken = lender_->link().ring.take(Empties::give);
                   } while (taken && taken.fill() == Fill::none);
                 }) ||
        !taken) {
      return {};
    }
    meter(0).spent(Activity::starved, Activity::busy);
    const std::uint64_t ticket = taken.ticket();
    const std::size_t place = taken.place();
    HostLink& link = lender_->link();
    const HostSlot& slot = lender_->out().keep(std::move(taken), link.credits(place)).slot();
    const std::uint64_t index = std::exchange(delivered_, delivered_ + slot.units);
    meter(0).did(slot.units, link.bytes(place, slot));
    behind_ = link.has_turns ? link.place_behind(slot) : RunOrder::unknown;
    body_.emplace(&meter(0).calls());
    return {link.batch<const T, Where>(place, slot, index), lender_, ticket, slot.epoch};
  }
  void leave(bool early) noexcept override {
    body_.reset();
    lender_->take_back();
    if (!attempt(delivered_, [&] { lender_->check_no_strays(); }) && early) {
      control().owe();
    }
    lender_->belong_to_all();
    meter(0).stop();
  }

 private:
  void reset() override {
    lender_->await_all(control().interrupt());
    lender_->out().reset(lender_->forget_strays());
    delivered_ = 0;
    behind_ = lender_->link().has_turns ? 0 : RunOrder::unknown;
  }
  const Shared<HostLender> lender_;
  std::optional<CallsCountIn> body_; // while the thread is in it
  std::uint64_t delivered_{};
  std::uint64_t behind_{}; // the place behind the batch that the loop has
};

#if PENSTOCK_BODIES
PENSTOCK_INLINE void HostLender::give_back(std::uint64_t ticket) noexcept {
  const std::uint64_t credits = link_->credits(out_.at(ticket).place());
  out_.release(ticket);
  link_->use_up(credits);
}

PENSTOCK_INLINE void HostLender::used_on(std::uint64_t, StreamHandle) {
  throw OptionError{"penstock: used_on() is for device batches: the work that uses a batch in host "
                    "memory must be done when its lease is released."};
}

PENSTOCK_INLINE Position HostLender::position(std::uint64_t ticket) {
  check_turns("position() behind this batch is not known");
  link_->order->check_tells();
  return link_->order->position(link_->place_behind(out_.at(ticket).slot()));
}

PENSTOCK_INLINE Visit HostLender::visit(std::uint64_t ticket, std::size_t i) {
  check_turns("visit() does not know of which record this one is made", link_->outputs);
  return link_->visit(out_.at(ticket).slot(), i * link_->layout().units_a_record);
}

PENSTOCK_INLINE void HostLender::check_turns(const char* what, bool other) const {
  if (!link_->has_turns || other) {
    throw_error<OptionError>(
        {"penstock: ", what, ", since a stage gives another number of records than it takes."});
  }
}
#endif

} // namespace penstock::detail
