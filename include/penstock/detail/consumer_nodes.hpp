// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/build.hpp>

#include <cstdint>
#include <vector>

namespace penstock::detail {

/// Calls back with batches in host memory, from its workers.
template <class F, class T, class Where> class HostConsumer final : public Node {
 public:
  template <AnyDevice D>
  HostConsumer(const F& f, unsigned workers, Build<D>& build)
      : Node{"Consumer", workers, build.control}, calls_(workers, f), in_{*build.host} {}

 private:
  void reset() override {}
  void work(unsigned worker, Meter& meter) override {
    while (const HostRing::Take taken = next(meter)) {
      const HostSlot& slot = taken.slot();
      const auto batch = in_.batch<const T, Where>(taken.place(), slot);
      if (!attempt(slot.index, [&] { calls_[worker](batch); })) {
        return;
      }
      meter.spent(Spent::busy);
      meter.did(batch.size(), batch.size_bytes());
    }
  }
  HostRing::Take next(Meter& meter) {
    HostRing::Take taken = in_.ring.take();
    meter.spent(Spent::starved);
    return taken;
  }

  std::vector<F> calls_;
  HostLink& in_;
};

/// Calls back with batches in device memory, from the thread that called run(). Two device calls a
/// batch besides the callable's: a wait, where the copy is not known to be done, and a record.
template <class F, class T, AnyDevice D> class DeviceConsumer final : public Node {
 public:
  DeviceConsumer(const F& f, Build<D>& build)
      : Node{"Consumer", 1, build.control}, call_{f}, device_{*build.device}, in_{*build.places},
        stream_{device_.stream()} {}

  // Busy and starved are the GPU's, as the device thread saw them.
  void report(double seconds, StageReport& stage) const override {
    Node::report(seconds, stage);
    StageReport gpu;
    Meter::sum({&in_.consuming, 1}, seconds, gpu);
    stage.busy_s = gpu.busy_s;
    stage.starved_s = gpu.starved_s;
    stage.blocked_s = 0;
  }

 private:
  // The last run's end may have failed to wait for the device.
  void reset() override { settle(); }
  void work(unsigned /*worker*/, Meter& meter) override {
    const auto attached = device_.attach();
    consume(meter);
    // The end of a run is where it may wait for the device. What was handed over is to be used up
    // then: the first time may bring an error of work enqueued before, and so not have waited.
    for (int tries = 0; tries < 2 && !attempt(0, [&] { settle(); }); ++tries) {
    }
    in_.drained.store(true, StdAtomics::release); // pairs with DeviceThread::over()
    in_.bell->ring();
  }

  void settle() {
    if (uses_memory_ && !control().device_lost()) {
      device_.sync(stream_);
      in_.uses.sync();
      uses_memory_ = false;
    }
  }

  void consume(Meter& meter) {
    std::uint64_t waited_for = 0;
    while (typename PlaceRing<D>::Take taken = in_.ring.take()) {
      Place<D>& place = taken.slot();
      const auto batch = in_.template batch<T>(taken.place(), place);
      in_.calling.store(true, StdAtomics::relaxed);
      uses_memory_ = true;
      const bool called = attempt(place.index, [&] {
        if (place.ready.serial != waited_for) {
          place.ready.wait(stream_);
          waited_for = place.ready.serial;
        }
        call_(batch, stream_);
        place.free = {&in_.uses, in_.uses.record(stream_)};
      });
      in_.calling.store(false, StdAtomics::relaxed);
      if (!called) {
        return;
      }
      meter.did(batch.size(), batch.size_bytes());
    }
  }

  F call_;
  D& device_;
  DeviceLink<D>& in_;
  typename D::stream_type stream_;
  bool uses_memory_{}; // as far as nobody has waited for the stream
};

} // namespace penstock::detail
