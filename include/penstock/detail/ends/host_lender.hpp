// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/ends/leases_out.hpp>
#include <penstock/detail/links/host_link.hpp>
#include <penstock/error.hpp>
#include <penstock/lease.hpp>

#include <cstdint>
#include <utility>

namespace penstock::detail {

/// Hands out slots in host memory.
class HostLender final : public Lender {
 public:
  explicit HostLender(Shared<HostLink> link)
      : link_{std::move(link)}, out_{link_->ring, link_->ring.slots(), link_->ahead.get()} {}

  HostLink& link() noexcept { return *link_; }
  LeasesOut<HostRing>& out() noexcept { return out_; }

  void give_back(std::uint64_t ticket) noexcept override {
    const std::uint64_t credits = link_->credits(out_.at(ticket).place());
    out_.release(ticket);
    link_->use_up(credits);
  }
  void used_on(std::uint64_t /*ticket*/, StreamHandle /*stream*/) override {
    throw OptionError{
        "penstock: used_on() is for device batches: the work that uses a batch in host "
        "memory must be done when its lease is released."};
  }
  [[gnu::cold]] Position position(std::uint64_t ticket) override {
    check_turns("position() behind this batch is not known");
    link_->order->check_tells();
    return link_->order->position(link_->place_behind(out_.at(ticket).slot()));
  }
  [[gnu::cold]] Visit visit(std::uint64_t ticket, std::size_t i) override {
    check_turns("visit() does not know of which record this one is made", link_->outputs);
    return link_->visit(out_.at(ticket).slot(), i * link_->layout().units_a_record);
  }

 private:
  [[gnu::cold]] void check_turns(const char* what, bool other = false) const {
    if (!link_->has_turns || other) {
      throw_error<OptionError>(
          {"penstock: ", what, ", since a stage gives another number of records than it takes."});
    }
  }

  const Shared<HostLink> link_;
  LeasesOut<HostRing> out_;
};

} // namespace penstock::detail
