// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/row.hpp>
#include <penstock/detail/engine/node.hpp>
#include <penstock/detail/links/host_link.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

namespace penstock::detail {

/// Calls the callable with batches in host memory, on its workers.
template <class F, class T, class Where> class HostConsumer : public Node {
 public:
  HostConsumer(const NodeSetup& setup, const std::shared_ptr<HostLink>& in, const F& f)
      : Node{setup}, calls_(workers(), f), in_{in} {}

 protected:
  void reset() override {}
  void work(unsigned worker, Meter& meter) override {
    while (const HostRing::Take taken = next(meter)) {
      const HostSlot& slot = taken.slot();
      const std::uint64_t index = slot.index;
      const auto batch = in_->batch<const T, Where>(taken.place(), slot, index);
      if (!attempt(index, [&] {
            const TraceRange range = trace(index);
            std::invoke(calls_[worker], batch);
          })) {
        return;
      }
      meter.spent(Activity::busy, Activity::starved);
      meter.did(slot.units, slot.bytes);
    }
  }
  /// Returns whether all that the run delivers has been taken.
  bool exhausted() const noexcept { return in_->ring.exhausted(); }

 private:
  HostRing::Take next(Meter& meter) {
    HostRing::Take taken = in_->ring.take();
    meter.spent(Activity::starved, Activity::busy);
    return taken;
  }

  Row<F> calls_;
  const std::shared_ptr<HostLink> in_;
};

} // namespace penstock::detail
