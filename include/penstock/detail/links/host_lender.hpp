// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/links/host_link.hpp>
#include <penstock/detail/links/leases_out.hpp>
#include <penstock/error.hpp>
#include <penstock/lease.hpp>

#include <cstdint>
#include <memory>
#include <utility>

namespace penstock::detail {

/// Hands out slots in host memory.
class HostLender final : public Lender {
 public:
  explicit HostLender(std::shared_ptr<HostLink> link)
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

 private:
  const std::shared_ptr<HostLink> link_;
  LeasesOut<HostRing> out_;
};

} // namespace penstock::detail
