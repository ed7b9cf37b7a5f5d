// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/data/schema.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/detail/engine/facts.hpp>
#include <penstock/detail/engine/node.hpp>
#include <penstock/detail/links/device_link.hpp>
#include <penstock/detail/links/host_link.hpp>
#include <penstock/detail/turns/ahead.hpp>
#include <penstock/detail/turns/flush.hpp>
#include <penstock/device/device.hpp>
#include <penstock/error.hpp>
#include <penstock/order/detail/origins.hpp>
#include <penstock/order/detail/run_order.hpp>
#include <penstock/order/detail/whole_batches.hpp>
#include <penstock/run/options.hpp>
#include <penstock/sources/source.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>

namespace penstock::detail {

/// Returns the name of the next node of a kind: "Decoder", and then "Decoder 2".
[[gnu::cold]] std::string name_of_next(std::string_view kind, const Vector<Owned<Node>>& nodes);

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

  D* device; ///< Null if no stage names one.
  RunControl& control;
  const PrepareOptions& preparing;
  Facts facts{}; ///< Of what flows on the link that the next stage takes from.

  /// Returns where a copier keeps numbers for stages after the device; null if they do not jump.
  const Shared<OnTheWay>& keep_numbers() {
    return on_the_way_ = facts.jumps ? new_shared<OnTheWay>() : nullptr;
  }
  /// Returns what the copier keeps, if each record that comes back is made of one of the source's.
  Shared<OnTheWay> kept_numbers() const {
    if (!facts.one_for_one || !on_the_way_) {
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
    if (facts.skips) {
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
  /// Goes on, where the chain forks, to one of several devices, with the link that the next stage
  /// takes from.
  void branch(D* to, Shared<HostLink> from) noexcept {
    side_ = device = to;
    host_ = std::move(from);
  }
  /// Goes on, where the chain forks, to branch number `i` of the stages so far, with the link that
  /// the next stage takes from. Each branch has a Build of its own, and they are built in turn.
  /// @{
  [[gnu::cold]] void branch(std::size_t i, Shared<HostLink> from) {
    enter(i);
    host_ = std::move(from);
  }
  [[gnu::cold]] void branch(std::size_t i, Shared<DeviceLink<D>> from) {
    enter(i);
    device_thread_->branch(from);
    on_device_ = std::move(from);
  }
  /// @}
  /// Sets the ring on the device that this stage fills and the next takes from.
  void device_output(Shared<DeviceLink<D>> link) {
    control.watch(link->ring);
    link->ahead = facts.ahead;
    link->order = facts.order;
    link->has_turns = facts.one_for_one;
    link->outputs = facts.outputs;
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
    return {name_of_next(branch_.empty() ? name : joined({branch_, "/", name}), nodes_),
            workers,
            control,
            kind,
            side_,
            branch_};
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

  /// Returns how many records a batch of the last ring has.
  std::uint64_t batch_records() const noexcept {
    return (on_device_ ? on_device_->layout() : host_->layout()).records();
  }
  /// Returns how many batches the last ring is given in a run, at most, or unknown_size.
  std::uint64_t batches() const {
    return facts.batches(on_device_ ? on_device_->layout().units : host_->layout().units);
  }

 private:
  [[gnu::cold]] void host_output(std::size_t slots, RingMemory memory, Side claimers) {
    auto made = new_shared<HostLink>(slots, std::move(memory), claimers, Side::many);
    if (host_ && !on_device_) {
      host_->onward = made.get();
    }
    host_ = std::move(made);
    host_->order = facts.order;
    host_->has_turns = facts.one_for_one;
    host_->outputs = facts.outputs;
    host_->never_empty = !facts.plan.to_device && !facts.order->one_rank() && !facts.outputs;
    host_->never_cut = !facts.plan.fills_up && (facts.drop_last || host_->never_empty);
    if (facts.ahead || facts.flush) {
      host_->keep_dues(facts.ahead);
    }
    control.watch(host_->ring);
  }

  Vector<Owned<Node>>& nodes_;
  Vector<Owned<SharedThread>>& threads_;
  void enter(std::size_t i) {
    branch_ = branch_.empty() ? joined({i + 1}) : joined({branch_, ".", i + 1});
  }

  const void* side_{}; // the device, if the chain has several
  std::string branch_; // see NodeSetup
  Shared<OnTheWay> on_the_way_;
  Shared<HostLink> host_;
  Shared<DeviceLink<D>> on_device_;
  DeviceThread<D>* device_thread_{};
};

#if PENSTOCK_BODIES
PENSTOCK_INLINE std::string name_of_next(std::string_view kind, const Vector<Owned<Node>>& nodes) {
  std::size_t same = 0;
  for (const auto& node : nodes) {
    const std::string_view name = node->name();
    same += name.starts_with(kind) && (name.size() == kind.size() || name[kind.size()] == ' ') ? 1U
                                                                                               : 0U;
  }
  return same == 0 ? std::string{kind} : joined({kind, " ", same + 1});
}
#endif

} // namespace penstock::detail
