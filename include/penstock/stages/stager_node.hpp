// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/engine/node.hpp>
#include <penstock/detail/workers/slot_by_slot.hpp>

#include <cstddef>
#include <cstring>

namespace penstock::detail {

/// Copies slots of a pageable ring into those of a pinned one, slot t into slot t. A template of
/// nothing, so that a program without a PinnedStager does not compile it.
template <class = void> class StagerNode final : public Node {
 public:
  [[gnu::cold]] StagerNode(const NodeSetup& setup, const Shared<HostLink>& in,
                           const Shared<HostLink>& out)
      : Node{setup}, in_{in}, out_{out} {
    fills(out_->memory, out_->ring.slots());
  }

 private:
  [[gnu::cold]] void reset() override { out_->reset(); }
  void work(unsigned /*worker*/, Meter& meter) override {
    slot_by_slot(*in_, *out_, meter, [this](const HostRing::Take& from, HostRing::Claim& to) {
      const std::size_t records = from.slot().units;
      const TraceRange range = this->trace(in_->layout().in_records(from.slot().index));
      for (std::size_t part = 0; part < in_->layout().parts.size(); ++part) {
        std::memcpy(out_->memory.data(to.place(), part), in_->memory.data(from.place(), part),
                    in_->memory.used(from.place(), part, records));
      }
      to.slot().source.take(from.slot().source);
      return true;
    });
  }

  const Shared<HostLink> in_;
  const Shared<HostLink> out_;
};

} // namespace penstock::detail
