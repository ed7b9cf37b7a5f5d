// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/callables/replayed.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/detail/device_side/captured_groups.hpp>
#include <penstock/detail/device_side/launch_check.hpp>
#include <penstock/detail/ends/device_consumer.hpp>
#include <penstock/device/device.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

namespace penstock::detail {

/// Calls the callable in prepare(), to capture its work, and then replays that work in groups; for
/// short batches and those in no captured group it calls the callable. F is a Replayed.
template <class F, class T, AnyDevice D> class ReplayedConsumer final : public DeviceEnd<D> {
  using Take = typename DeviceRing<D>::Take;

 public:
  ReplayedConsumer(const NodeSetup& setup, D& device, const Shared<DeviceLink<D>>& in,
                   std::size_t depth, const F& replayed)
      : DeviceEnd<D>{setup, in, depth}, replayed_{replayed}, device_{device} {
    for (unsigned lane = checked_lanes(replayed.options.lanes); lane != 0; --lane) {
      lanes_.push_back(device_.stream());
    }
    DeviceLink<D>& link = this->lender().link();
    note_ = groups_.try_capture(device_, lanes_, link.ring.slots(), [&](std::size_t place) {
      DeviceSlot<D> full;
      full.units = link.layout().units;
      call(place, full, lanes_[place % lanes_.size()]);
    });
  }

  void report(double seconds, StageReport& stage) const override {
    DeviceEnd<D>::report(seconds, stage);
    stage.note = note_;
  }

 private:
  static constexpr std::size_t most_ = replay_groups.front();

  void call(std::size_t at, const DeviceSlot<D>& place, Stream<D> stream) {
    const auto lane = static_cast<unsigned>(at % lanes_.size());
    std::invoke(replayed_.call,
                FrozenBatch<const T, Device>{
                    this->lender().link().template batch<const T>(at, place), lane},
                stream);
  }

  // The last run may have ended before all batches were given back.
  void reset() override {
    DeviceEnd<D>::reset();
    held_ = {};
  }

  void work(unsigned /*worker*/, Meter& meter) override {
    const NoCancellation whole;
    const auto attached = device_.attach();
    const CallsCountIn nowhere{nullptr};
    consume(meter);
    this->leave();
  }

  void consume(Meter& meter) {
    DeviceLink<D>& link = this->lender().link();
    launches_.begin();
    if (!this->attempt(0, [&] { this->lender().begin(lanes_[0]); })) {
      return;
    }
    while ((held_ = link.ring.take())) {
      held_.extend(most_ - held_.place() % most_);
      while (held_ && link.ring.state() <= Flow::ended) {
        const std::uint64_t record = link.layout().in_records(held_.slot().index);
        if (!this->attempt(record, [&] {
              const TraceRange range = this->trace(record);
              use(meter);
            })) {
          link.consumer.left();
          return;
        }
      }
    }
  }

  // Uses as much of held_ as one launch covers. A batch that fails stays held: nobody knows when
  // its use is over, so nobody may fill its place before the run's end has waited for the stream.
  void use(Meter& meter) {
    DeviceLender<D>& lender = this->lender();
    const std::size_t first = held_.place();
    const bool short_last = held_.slot(held_.size() - 1).units != lender.link().layout().units;
    const std::size_t group = groups_.largest(first, held_.size() - (short_last ? 1 : 0));
    const std::size_t count = std::max<std::size_t>(group, 1);
    lender.enter(held_, count);
    {
      const Calling calling{meter.call_times(), meter.calls()};
      if (group != 0) {
        groups_.launch(first, group, lanes_[0]);
      } else {
        call_checked(launches_, [&] { call(first, held_.slot(), lanes_[0]); });
      }
    }
    const Fence<D> free = lender.leave(held_, count);
    for (std::size_t i = 0; i < count; ++i) {
      meter.did(lender.link().layout().in_records(held_.slot(i).units), held_.slot(i).bytes);
    }
    this->used_up(lender.link().place_behind(held_.slot(count - 1)));
    lender.release(held_.split(count), free);
  }

  F replayed_;
  D& device_;
  Vector<typename D::stream_type> lanes_; // the first is the pipeline's
  Groups<D> groups_;
  std::string note_;
  LaunchCheck<D> launches_;
  Take held_;
};

} // namespace penstock::detail
