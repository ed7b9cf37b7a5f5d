// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/device_side/copier.hpp>
#include <penstock/detail/device_side/device_step.hpp>
#include <penstock/detail/engine/sizes.hpp>
#include <penstock/order/detail/source_numbers.hpp>

#include <cstdint>
#include <utility>

namespace penstock::detail {

/// Copies to the device.
template <AnyDevice D> class CopierNode final : public DeviceStep {
 public:
  /// `numbers`, unless it is null, is told the turns. `drop_last`, `by_turn`, `from`: see
  /// Copier.
  [[gnu::cold]] CopierNode(const NodeSetup& setup, D& device, const Shared<HostLink>& in,
                           const Shared<DeviceLink<D>>& out, const Shared<OnTheWay>& numbers,
                           bool drop_last, const Flush& flush, Owned<BatchesByTurn> by_turn,
                           const RunOrder* from)
      : DeviceStep{setup}, in_{in}, out_{out}, numbers_{numbers},
        copier_{
            device, *in_, *out_, usual_copy, numbers_.get(), drop_last, flush, std::move(by_turn),
            from} {
    fills(out_->memory, out_->ring.slots());
  }

  bool has_open_fence() const noexcept override { return copier_.in_flight(); }
  bool done() const noexcept override { return copier_.done(); }
  Meter::Clock::time_point due() const noexcept override { return copier_.due(); }
  Flow flow() const noexcept override { return out_->ring.state(); }

 private:
  [[gnu::cold]] void reset() override {
    // Once more: the call at the end of the last run may have failed.
    copier_.abandon();
    out_->ring.reset();
  }

  bool step() override {
    const std::uint64_t records = copier_.records();
    const std::uint64_t bytes = copier_.bytes();
    const bool any = copier_.step();
    // What is left out at an epoch's end is taken off again: the sums wrap.
    if (const std::uint64_t more = copier_.bytes() - bytes) {
      meter(0).did(copier_.records() - records, more);
      meter(0).found_in_use(out_->ring.was_in_use());
    }
    return any;
  }
  Activity doing() override { return copier_.doing(); }
  [[gnu::cold]] void abandon() override { copier_.abandon(); }

  const Shared<HostLink> in_;
  const Shared<DeviceLink<D>> out_;
  const Shared<OnTheWay> numbers_;
  Copier<D> copier_;
};

} // namespace penstock::detail
