// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/thread_end.hpp>
#include <penstock/detail/ends/device_consumer.hpp>
#include <penstock/detail/engine/loops.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

namespace penstock::detail {

/// Stands in for the last stage of an open pipeline whose batches lie in device memory.
template <class T, AnyDevice D>
class DeviceLoop : public DeviceEnd<D>, public BatchSource<Batch<const T, Device>> {
  using B = Batch<const T, Device>;

 public:
  DeviceLoop(const NodeSetup& setup, D& device, const Shared<DeviceLink<D>>& in, std::size_t depth)
      : DeviceEnd<D>{setup, in, depth}, device_{device} {}

  void enter(StreamHandle stream, std::chrono::milliseconds lease_wait) noexcept override {
    const NoCancellation whole;
    next_ = body_ = behind_ = 0;
    this->lender().belong_here(lease_wait);
    this->meter(0).start();
    launches_.begin();
    this->attempt(0, [&] {
      attached_.emplace(device_);
      this->lender().begin(stream.as<Stream<D>>());
    });
  }
  Lease<B> next() noexcept override {
    const NoCancellation whole;
    end_body();
    DeviceLender<D>& lender = this->lender();
    this->used_up(behind_);
    if (lender.has_shared() && !lender.await_room(this->control().interrupt())) {
      check_body();
      return {};
    }
    DeviceSlot<D>* const place = check_body() ? DeviceEnd<D>::next(next_) : nullptr;
    if (!place) {
      return {};
    }
    const std::size_t at = lender.ticket() % lender.link().ring.slots();
    const B batch = lender.link().template batch<const T>(at, *place);
    const Layout& layout = lender.link().layout();
    body_ = layout.in_records(place->index);
    next_ = layout.in_records(place->index + place->units);
    this->meter(0).did(layout.in_records(place->units), place->bytes);
    behind_ = lender.link().place_behind(*place);
    begin_body();
    return {batch, this->shared_lender(), lender.ticket(), place->epoch};
  }
  void leave(bool early) noexcept override {
    const NoCancellation whole;
    end_body();
    this->lender().take_back();
    // If the loop was left early, nobody can be thrown the error of its last body, nor that of
    // batches which came back before.
    bool owes = !check_body();
    this->check_given_back(); // the last batch: the Report has it
    this->lender().record_given();
    owes = !this->check_given_back() || owes;
    owes = !this->attempt(body_, [&] { this->lender().check_no_strays(); }) || owes;
    if (owes && early) {
      this->control().owe();
    }
    DeviceEnd<D>::leave();
    this->lender().belong_to_all();
    this->meter(0).stop();
    attached_.reset();
  }

 private:
  struct Attached {
    explicit Attached(D& device) : guard{device.attach()} {}
    decltype(std::declval<D&>().attach()) guard;
  };

  void begin_body() noexcept {
    in_body_.emplace(&this->meter(0).calls());
    this->meter(0).call_times().begin();
  }
  void end_body() noexcept {
    if (in_body_) {
      this->meter(0).call_times().end();
      in_body_.reset();
    }
  }
  bool check_body() noexcept {
    return this->attempt(body_, [&] { launches_.check("the loop's body"); });
  }

  D& device_;
  std::optional<Attached> attached_;
  LaunchCheck<D> launches_;
  std::optional<CallsCountIn> in_body_; // while the thread is in it
  std::uint64_t body_{};                // the first record of the batch that the body has
  std::uint64_t next_{};
  std::uint64_t behind_{}; // the place in the run's order behind that batch
};

} // namespace penstock::detail
