// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/owned.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/detail/engine/ahead_needs.hpp>
#include <penstock/detail/engine/node.hpp>
#include <penstock/detail/engine/node_name.hpp>
#include <penstock/detail/engine/plan.hpp>
#include <penstock/detail/engine/shared_thread.hpp>
#include <penstock/detail/links/device_link.hpp>
#include <penstock/detail/links/host_link.hpp>
#include <penstock/detail/turns/ahead.hpp>
#include <penstock/detail/turns/flush.hpp>
#include <penstock/device/device.hpp>
#include <penstock/order/detail/run_order.hpp>
#include <penstock/order/detail/source_numbers.hpp>
#include <penstock/run/options.hpp>
#include <penstock/sources/source.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace penstock::detail {

// Belongs to a floor above this one: a stage makes it, and steps are added to it here.
template <AnyDevice D> class DeviceThread;

/// What prepare() hands from stage to stage. A stage asks it for the link that the stage before
/// fills and for a link to fill itself, and adds its node, which gets both. Only the thread that
/// prepares uses it.
///
/// Set-up code is [[gnu::cold]], here and elsewhere: the compiler then makes it small, in less
/// time. A function that a user's code calls is not: its caller would be taken for cold too.
template <AnyDevice D> class Build {
 public:
  Build(D* on, RunControl& run, Vector<Owned<Node>>& nodes, Vector<Owned<SharedThread>>& threads,
        const PrepareOptions& told)
      : device{on}, control{run}, preparing{told}, nodes_{nodes}, threads_{threads} {}

  D* device;          ///< Null if no stage names one.
  const void* side{}; ///< The device, if the chain has several.
  RunControl& control;
  const PrepareOptions& preparing;
  Plan plan{};
  /// Records that a run will carry, or unknown_size, and how many units those are.
  std::uint64_t records{};
  std::uint64_t units{};
  std::uint64_t epochs{1};
  std::uint64_t slots_of_a_run{}; ///< Host slots that a run may fill, and one more.
  std::uint64_t slots_read{};     ///< Slots that the Reader hands on, while a batch is a slot.
  bool fixed_slots{};             ///< The user said how many records a host slot has.
  bool drop_last{};               ///< An epoch's last batch is left out if it is short.
  WholeBatches whole_batches{};
  std::size_t depth{};      // batches that may be on the device at once
  bool one_for_one{true};   ///< Each record that comes is made of one of the source's.
  bool outputs{};           ///< A Decoder gives another number of records: they count themselves.
  unsigned recounts{};      ///< Such Decoders so far.
  Shared<RunOrder> order{}; ///< Made by the Reader.
  Shared<Ahead<>> ahead{};  ///< What bounds how far the Reader is ahead; null if nothing.
  AheadNeeds needs{};       ///< Of the stages so far.
  Flush flush{};            ///< When what waits to be full is handed on.

  /// Called by a stage that may skip records: index() is then counted, and numbers may jump.
  void skip(bool may) noexcept {
    skips_ = skips_ || may;
    if (may) {
      needs.leave_out();
    }
    jumps_ = jumps_ || may;
  }
  /// Returns whether a stage so far may skip records.
  bool may_jump() const noexcept { return jumps_; }
  /// Called by a stage after which delivered records are counted anew.
  void count_anew() noexcept { skips_ = false; }
  /// Called by a Decoder after which records count themselves.
  void count_outputs() noexcept {
    outputs = !(skips_ = jumps_ = false);
    ++recounts;
  }
  /// Returns where a copier keeps numbers for stages after the device; null if they do not jump.
  const Shared<OnTheWay>& keep_numbers() {
    return on_the_way_ = jumps_ ? new_shared<OnTheWay>() : nullptr;
  }
  /// Returns what the copier keeps, if each record that comes back is made of one of the source's.
  Shared<OnTheWay> kept_numbers() const {
    if (!one_for_one || !on_the_way_) {
      return nullptr;
    }
    on_the_way_->want();
    return on_the_way_;
  }

  /// Return the link that the stage before fills.
  /// @{
  const Shared<HostLink>& host_input() const noexcept { return host_; }
  const Shared<DeviceLink<D>>& device_input() const noexcept { return on_device_; }
  /// @}
  /// Returns the link that the stage before fills, for a last stage, which needs index().
  const Shared<HostLink>& counted_host_input() const {
    if (skips_) {
      host_->count();
    }
    return host_;
  }
  /// Makes a ring of `slots` in Where, which this stage fills and the next takes from.
  template <class Where>
  [[gnu::cold]] Shared<HostLink> host_output(const char* stage, std::size_t slots,
                                             const Layout& layout, Side claimers) {
    host_output(slots, RingMemory::in<Where>(device, slots, layout, stage), claimers);
    return host_;
  }
  /// Sets the link that the next stage takes from, where the chain forks.
  void branch(Shared<HostLink> from) noexcept { host_ = std::move(from); }
  /// Sets the ring on the device that this stage fills and the next takes from.
  void device_output(Shared<DeviceLink<D>> link) {
    control.watch(link->ring);
    link->ahead = ahead;
    link->order = order;
    link->has_turns = one_for_one;
    link->outputs = outputs;
    on_device_ = std::move(link);
  }
  /// Says that the next batches are in host memory again.
  void leave_device() noexcept {
    on_device_ = nullptr;
    device_thread_ = nullptr;
  }

  /// Adds a thread of the device, for the steps that are added from now on.
  DeviceThread<D>& add_thread(DeviceThread<D>* thread) {
    device_thread_ = thread;
    threads_.push_back(Owned<SharedThread>{thread});
    return *device_thread_;
  }
  DeviceThread<D>& device_thread() const noexcept { return *device_thread_; }

  /// Returns what the next node is made with: the name of a second Decoder is "Decoder 2".
  NodeSetup setup(const char* name, unsigned workers = 1, StageKind kind = StageKind::other) const {
    return {name_of_next(name, nodes_), workers, control, kind, side};
  }
  template <class N, class... Args> [[gnu::cold]] N& add(Args&&... args) {
    N* const added = new N{std::forward<Args>(args)...};
    add(added);
    return *added;
  }
  /// Adds a node, and owns it.
  [[gnu::cold]] void add(Node* node) { nodes_.push_back(Owned<Node>{node}); }
  /// Adds a node that the device thread drives. `fills`: the device ring that it fills, or null.
  template <class N, class... Args>
  [[gnu::cold]] void add_step(Shared<DeviceLink<D>> fills, Args&&... args) {
    device_thread().add(add<N>(std::forward<Args>(args)...), std::move(fills));
  }

  /// Called by the stage that leaves out an epoch's last batch if it has fewer units than `batch`.
  void drop_short(std::size_t batch) noexcept {
    units -= units == unknown_size ? 0 : units / epochs % batch * epochs;
  }
  /// Returns how many records a batch of the last ring has.
  std::uint64_t batch_records() const noexcept {
    return (on_device_ ? on_device_->layout() : host_->layout()).records();
  }
  /// Returns how many batches the last ring is given in a run, at most, or unknown_size.
  std::uint64_t batches() const {
    if (units == unknown_size || slots_read != 0) {
      return units == unknown_size ? units : slots_read;
    }
    const std::uint64_t batch = on_device_ ? on_device_->layout().units : host_->layout().units;
    const std::uint64_t epoch = units / epochs;
    return epochs * (epoch / batch + (epoch % batch != 0 ? 1 : 0));
  }

 private:
  [[gnu::cold]] void host_output(std::size_t slots, RingMemory memory, Side claimers) {
    host_ = new_shared<HostLink>(slots, std::move(memory), claimers, Side::many);
    host_->order = order;
    host_->has_turns = one_for_one;
    host_->outputs = outputs;
    host_->never_empty = !plan.to_device && !order->one_rank() && !outputs;
    if (ahead || flush) {
      host_->keep_dues(ahead);
    }
    control.watch(host_->ring);
  }

  Vector<Owned<Node>>& nodes_;
  Vector<Owned<SharedThread>>& threads_;
  bool skips_{};
  bool jumps_{};
  Shared<OnTheWay> on_the_way_;
  Shared<HostLink> host_;
  Shared<DeviceLink<D>> on_device_;
  DeviceThread<D>* device_thread_{};
};

} // namespace penstock::detail
