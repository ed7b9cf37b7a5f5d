// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/row.hpp>
#include <penstock/detail/engine/node.hpp>
#include <penstock/detail/host_side/slot_by_slot.hpp>
#include <penstock/detail/links/ragged.hpp>

#include <cstdint>
#include <functional>
#include <memory>

namespace penstock::detail {

/// Turns slots of one ring into slots of the next, slot t into slot t, several at once, where one
/// of them has a Ragged column: the callable gets whole slots, since nobody knows where a part of
/// its output begins.
template <class F, class From, class To>
class RaggedDecoderNode final : public Node {
 public:
  RaggedDecoderNode(const NodeSetup& setup, const std::shared_ptr<HostLink>& in,
                    const std::shared_ptr<HostLink>& out, const F& f, const OnError& on_error)
      : Node{setup}, calls_(workers(), f), on_error_{on_error}, in_{in}, out_{out} {}

  void report(double seconds, StageReport& stage) const override {
    Node::report(seconds, stage);
    stage.depth = out_->ring.slots();
  }

 private:
  void reset() override { out_->reset(); }

  void work(unsigned worker, Meter& meter) override {
    slot_by_slot(*in_, *out_, meter, [&](const HostRing::Take& from, HostRing::Claim& to) {
      return decode(calls_[worker], from, to, meter);
    });
  }

  // Returns false if the run is to end.
  bool decode(F& call, const HostRing::Take& from, HostRing::Claim& to, Meter& meter) noexcept {
    const TraceRange range = trace(from.slot().index);
    const HostSlot& given = from.slot();
    HostSlot& slot = to.slot();
    const std::uint64_t first = given.source[0];
    slot.source.start(first);
    const auto in = in_->batch<const typename From::schema, typename From::space>(
        from.place(), given, given.index);
    const auto out =
        out_->batch<typename To::schema, typename To::space>(to.place(), slot, slot.index);
    const Item item = attempt_item(on_error_, meter, first, given.units, [&] {
      open_ragged(out_->memory, to.place(), given.units);
      std::invoke(call, in, out);
      check_ragged(out_->memory, to.place(), given.units, first);
    });
    slot.units = item == Item::good ? given.units : 0;
    slot.source.take(from.slot().source);
    return item != Item::failed;
  }

  Row<F> calls_;
  const OnError on_error_;
  const std::shared_ptr<HostLink> in_;
  const std::shared_ptr<HostLink> out_;
};

} // namespace penstock::detail
