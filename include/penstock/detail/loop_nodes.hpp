// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/build.hpp>
#include <penstock/detail/consumer_nodes.hpp>
#include <penstock/detail/launch_check.hpp>
#include <penstock/detail/lenders.hpp>
#include <penstock/lease.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

namespace penstock::detail {

/// What the application's own loop takes its batches from. All on its thread.
template <class B> class BatchSource {
 public:
  virtual ~BatchSource() = default;
  /// Before the first; `stream` is for batches on a device.
  virtual void enter(StreamHandle stream) noexcept = 0;
  /// Blocks for the next batch; empty if there are no more, or the run has failed.
  virtual Lease<B> next() noexcept = 0;
  /// After the last lease that the loop itself holds was released. May wait for the device.
  /// `early`: nobody will be thrown the run's error.
  virtual void leave(bool early) noexcept = 0;
};

/// Stands in for the stage that an open pipeline lacks, whose batches lie in device memory.
template <class T, AnyDevice D>
class DeviceLoop final : public DeviceEnd<D>, public BatchSource<Batch<const T, Device>> {
  using B = Batch<const T, Device>;

 public:
  explicit DeviceLoop(Build<D>& build) : DeviceEnd<D>{"loop", build}, device_{*build.device} {}

  void enter(StreamHandle stream) noexcept override {
    next_ = body_ = 0;
    this->meter(0).start();
    launches_.begin();
    this->attempt(0, [&] {
      attached_.emplace(device_);
      this->lender().begin(stream.as<Stream<D>>());
    });
  }
  Lease<B> next() noexcept override {
    DeviceLender<D>& lender = this->lender();
    Place<D>* const place = check_body() ? DeviceEnd<D>::next(next_) : nullptr;
    if (!place) {
      return {};
    }
    const std::size_t at = lender.ticket() % lender.link().ring.slots();
    const B batch = lender.link().template batch<const T>(at, *place);
    const std::size_t units = lender.link().grain().units;
    body_ = place->index / units;
    next_ = (place->index + place->records) / units;
    this->meter(0).did(place->records / units, place->bytes);
    return {batch, this->shared_lender(), lender.ticket()};
  }
  void leave(bool early) noexcept override {
    // Where the loop was left early nobody can be thrown what its last body did.
    if (!check_body() && early) {
      this->control().owe();
    }
    this->check_given_back(); // the Report has it
    DeviceEnd<D>::leave();
    this->meter(0).stop();
    attached_.reset();
  }

 private:
  struct Attached {
    explicit Attached(D& device) : guard{device.attach()} {}
    decltype(std::declval<D&>().attach()) guard;
  };

  bool check_body() noexcept {
    return this->attempt(body_, [&] { launches_.check("the loop's body"); });
  }

  D& device_;
  std::optional<Attached> attached_;
  LaunchCheck<D> launches_;
  std::uint64_t body_{}; // the first record of the batch that the body has
  std::uint64_t next_{};
};

/// The same for batches in host memory.
template <class T, class Where>
class HostLoop final : public Node, public BatchSource<Batch<const T, Where>> {
  using B = Batch<const T, Where>;

 public:
  template <AnyDevice D>
  explicit HostLoop(Build<D>& build)
      : Node{"loop", 1, build.control}, lender_{std::make_shared<HostLender>(build.host)} {}

  void enter(StreamHandle) noexcept override { meter(0).start(); }
  Lease<B> next() noexcept override {
    meter(0).spent(Spent::busy, Spent::starved);
    HostRing::Take taken;
    if (!attempt(delivered_,
                 [&] {
                   // One by one, since what was left out has a place too.
                   do {
                     lender_->out().check_next();
                     taken = lender_->link().ring.take(Empties::give);
                   } while (taken && taken.fill() == Fill::none);
                 }) ||
        !taken) {
      return {};
    }
    meter(0).spent(Spent::starved, Spent::busy);
    const std::uint64_t ticket = taken.ticket();
    const HostSlot& slot = lender_->out().keep(std::move(taken)).slot();
    const std::uint64_t index = std::exchange(delivered_, delivered_ + slot.records);
    meter(0).did(slot.records, slot.bytes);
    HostLink& link = lender_->link();
    return {link.batch<const T, Where>(ticket % link.ring.slots(), slot, index), lender_, ticket};
  }
  void leave(bool) noexcept override { meter(0).stop(); }

 private:
  void reset() override {
    lender_->out().reset();
    delivered_ = 0;
  }
  const std::shared_ptr<HostLender> lender_;
  std::uint64_t delivered_{};
};

} // namespace penstock::detail
