// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/device_side/copier.hpp>
#include <penstock/detail/device_side/device_step.hpp>
#include <penstock/detail/device_side/device_thread.hpp>
#include <penstock/detail/engine/build.hpp>
#include <penstock/detail/engine/sizes.hpp>
#include <penstock/detail/links/source_numbers.hpp>

#include <cstddef>
#include <memory>

namespace penstock::detail {

/// Copies to the device, and has the thread that also drives what follows there.
template <AnyDevice D> class CopierNode final : public DeviceStep {
 public:
  CopierNode(const Grain& batch, std::size_t places, Build<D>& build)
      : DeviceStep{build.name("AsyncCopier"), 1, build.control}, device_{*build.device},
        in_{build.host},
        out_{std::make_shared<DeviceLink<D>>(device_, places, batch, thread_.bell())},
        on_the_way_{build.jumps ? std::make_shared<OnTheWay>() : nullptr},
        copier_{device_, *in_, *out_, copy_bytes, on_the_way_.get()} {
    in_->ring.on_publish(thread_.bell().get());
    build.control.watch(out_->ring);
    build.places = out_;
    build.on_the_way = on_the_way_;
    build.device_thread = &thread_;
    thread_.add(*this, out_);
  }

  unsigned threads() const noexcept override { return 1; }
  bool open() const noexcept override { return copier_.in_flight(); }
  bool done() const noexcept override { return copier_.done(); }
  Flow flow() const noexcept override { return out_->ring.state(); }
  void report(double seconds, StageReport& stage) const override {
    Node::report(seconds, stage);
    stage.depth = out_->ring.slots();
  }

 private:
  void reset() override {
    // Again: at the end of the last run it may have failed.
    copier_.abandon();
    out_->ring.reset();
    thread_.reset();
  }
  void work(unsigned /*worker*/, Meter& /*meter*/) override {
    const auto attached = attach_own_thread(device_);
    attempt(0, [&] { thread_.serve(); });
    thread_.rest();
    if (!control().device_lost()) {
      thread_.abandon();
    }
  }

  bool step() override {
    const std::uint64_t records = copier_.records();
    const std::uint64_t bytes = copier_.bytes();
    const bool any = copier_.step();
    if (const std::uint64_t more = copier_.bytes() - bytes) {
      meter(0).did(copier_.records() - records, more);
      meter(0).found_in_use(out_->ring.was_in_use());
    }
    return any;
  }
  Spent doing() override { return copier_.doing(); }
  void abandon() override { copier_.abandon(); }

  D& device_;
  DeviceThread<D> thread_;
  const std::shared_ptr<HostLink> in_;
  const std::shared_ptr<DeviceLink<D>> out_;
  const std::shared_ptr<OnTheWay> on_the_way_;
  Copier<D> copier_;
};

} // namespace penstock::detail
