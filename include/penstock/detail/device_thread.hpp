// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/detail/build.hpp>
#include <penstock/detail/copier.hpp>
#include <penstock/detail/sizes.hpp>

#include <chrono>
#include <cstddef>
#include <memory>

#include <sys/prctl.h>

namespace penstock::detail {

/// The one thread of a pipeline that enqueues copies and asks fences. It looks at everything in
/// turn and waits for nothing but its bell, which every ring that it touches rings; while a fence
/// is open it looks again after a short while by itself.
template <AnyDevice D> class DeviceThread final : public Node {
 public:
  DeviceThread(const Grain& batch, std::size_t places, Build<D>& build)
      : Node{"AsyncCopier", 1, build.control}, device_{*build.device}, in_{build.host},
        link_{std::make_shared<DeviceLink<D>>(device_, places, batch)}, out_{*link_},
        copier_{device_, *in_, out_, copy_bytes} {
    in_->ring.on_publish(&out_.bell);
    build.control.watch(out_.ring);
    build.places = link_;
  }

  void report(double seconds, StageReport& stage) const override {
    Node::report(seconds, stage);
    stage.depth = out_.ring.slots();
  }

 private:
  using Clock = Meter::Clock;

  void reset() override {
    // Again: at the end of the last run it may have failed.
    copier_.abandon();
    out_.ring.reset();
    out_.drained.store(false, StdAtomics::relaxed);
    out_.consuming.clear();
    copying_ = consuming_ = Spent::starved;
  }

  void work(unsigned /*worker*/, Meter& meter) override {
    const auto attached = device_.attach();
    // The kernel rounds short sleeps up by 50 us unless told that it matters.
    prctl(PR_SET_TIMERSLACK, 1UL);
    out_.consuming.start();
    attempt(0, [&] { serve(meter); });
    // A device that was lost answers no more, and a copy may still be at work.
    if (!control().device_lost()) {
      attempt(0, [&] { copier_.abandon(); });
    }
  }

  void serve(Meter& meter) {
    Clock::time_point moved = Clock::now();
    for (;;) {
      // Before anything is looked at: what changes after it was looked at rings once more.
      const std::uint32_t count = out_.bell.count();
      if (over()) {
        break;
      }
      // What was seen last is what was going on since.
      meter.spent(copying_, copying_);
      out_.consuming.spent(consuming_, consuming_);
      const std::uint64_t records = copier_.records();
      const std::uint64_t bytes = copier_.bytes();
      const bool any = copier_.step();
      if (const std::uint64_t more = copier_.bytes() - bytes) {
        meter.did(copier_.records() - records, more);
        meter.found_in_use(out_.ring.was_in_use());
      }
      copying_ = copier_.doing();
      const bool consumer_open = watch_consumer();
      meter.begins(copying_);
      out_.consuming.begins(consuming_);
      const bool open = consumer_open || copier_.in_flight();
      if (any) {
        moved = Clock::now();
      } else if (Clock::now() - moved < look_again) {
        SpinThenFutex::pause();
      } else {
        out_.bell.wait(count, open ? look_again : std::chrono::nanoseconds{-1});
      }
    }
    meter.spent(copying_, Spent::resting);
    out_.consuming.spent(consuming_, Spent::resting);
  }

  bool over() const noexcept {
    return out_.ring.state() > Flow::ended ||
           (copier_.done() && out_.drained.load(StdAtomics::acquire)); // pairs with the consumer's
  }

  // Looks at what the consumer does; true while it does anything.
  bool watch_consumer() {
    const std::uint64_t oldest = out_.uses.oldest_open();
    const bool calling = out_.calling.load(StdAtomics::relaxed);
    const bool works =
        oldest != 0 &&
        out_.copies.reached(out_.ready_serial(out_.used_ticket(oldest).load(StdAtomics::relaxed)));
    consuming_ = works || calling ? Spent::busy : Spent::starved;
    return oldest != 0 || calling;
  }

  static constexpr std::chrono::microseconds look_again{20};

  D& device_;
  const std::shared_ptr<HostLink> in_;
  const std::shared_ptr<DeviceLink<D>> link_;
  DeviceLink<D>& out_;
  Copier<D> copier_;
  Spent copying_{};
  Spent consuming_{};
};

} // namespace penstock::detail
