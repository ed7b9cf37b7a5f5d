// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/schema.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/detail/base/vector.hpp>
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

/// What the stages of a chain say of themselves before the first is built: all host stages share
/// one number of records a slot.
struct Plan {
  std::size_t largest{}; // bytes of a record, among those that Decoders give
  bool whole{};          // a stage on the host must see whole records
  bool ragged{};         // a slot is a batch
  bool to_device{};
  bool fills_up{};         // a copier makes batches of its own of what lies in the slots
  std::size_t batch{};     // that the copier was asked for, of what the Reader gives
  unsigned recounts{};     // Decoders that give another number of records
  std::size_t recounted{}; // the batch that the copier behind it was asked for
  bool batched{};          // there is that copier: those behind it do not count
  std::size_t group{1};    // records that it takes together
  unsigned workers{};      // the most that a stage has that does work for each record
  unsigned local_world{1}; // ranks that share this host's processors
  unsigned devices{1};     // of this process that pipelines feed

  /// Returns how many pipelines run side by side on this host.
  std::uint64_t parts() const noexcept { return std::uint64_t{local_world} * devices; }

  /// Note what a host stage sees and gives. Stages after a device have slots of their own.
  /// @{
  void sees_records() { whole = whole || !to_device; }
  void works(unsigned with) noexcept {
    sees_records();
    workers = to_device ? workers : std::max(workers, with);
  }
  template <class Schema> void gives(std::size_t record_bytes) {
    if (to_device) {
      return;
    }
    largest = std::max(largest, record_bytes);
    ragged = ragged || schema_traits<Schema>::ragged;
  }
  /// @}
};

/// How many units of the source a chain must be allowed to have read for its last stage to get a
/// batch: each stage that fills batches may hold all but the last piece of one, and wait for that.
///
///   batches of 64, and then slots of 100: 64 lie in a slot, and 36 in a batch, which wants 28 more
class AheadNeeds {
 public:
  /// The Reader deals out whole slots of `each`.
  void whole(std::uint64_t each) noexcept { units_ = grain_ = each; }
  /// A stage gathers what comes in batches of `each`.
  void gather(std::uint64_t each) noexcept {
    // Credits were split by rounding down once already. Rounding down again could leave a batch
    // with more credits than its records have.
    if (out_ != 1 && std::exchange(shared_, true)) {
      round_up();
    }
    const std::uint64_t waiting = each - std::gcd(grain_, each);
    units_ += waiting / out_ * in_ + (waiting % out_ * in_ + out_ - 1) / out_;
    grain_ = each;
  }
  /// A stage makes `out` units of each `in`.
  void recount(std::uint64_t in, std::uint64_t out) noexcept {
    const std::uint64_t same = std::gcd(in, out);
    const std::uint64_t before = std::gcd(in_, out / same);
    const std::uint64_t after = std::gcd(in / same, out_);
    in_ = in_ / before * (in / same / after);
    out_ = out_ / after * (out / same / before);
    grain_ = out;
  }
  /// A stage may leave units out: those that it keeps share the credits of a batch, rounded up.
  void leave_out() noexcept {
    grain_ = 1;
    round_up();
  }

  /// Tells `ahead`, when all stages are known. Throws OptionError if that is too small for them.
  [[gnu::cold]] void check(Ahead<>& ahead) const {
    ahead.needs(units_);
    if (units_ > ahead.most()) {
      throw_error<OptionError>(
          {"penstock: Reader: ahead is ", ahead.records(ahead.most()),
           ", but the batches of this chain, while they fill, may hold ", ahead.records(units_),
           " records, and would never be full: give it at least that, or smaller batches, or "
           ".flush, and they are handed on as they are."});
    }
  }

 private:
  void round_up() noexcept {
    in_ = (in_ + out_ - 1) / out_;
    out_ = 1;
  }

  std::uint64_t units_{1};
  std::uint64_t grain_{1}; // units come in whole ones of so many, but for an epoch's last
  // in_ units of the source are out_ units here.
  std::uint64_t in_{1};
  std::uint64_t out_{1};
  bool shared_{}; // whether batches were gathered where out_ was not 1
};

/// Returns the name of the next node of a kind: "Decoder", and then "Decoder 2".
[[gnu::cold]] inline std::string name_of_next(std::string_view kind,
                                              const Vector<Owned<Node>>& nodes) {
  std::size_t same = 0;
  for (const auto& node : nodes) {
    const std::string_view name = node->name();
    same += name.starts_with(kind) && (name.size() == kind.size() || name[kind.size()] == ' ') ? 1U
                                                                                               : 0U;
  }
  return same == 0 ? std::string{kind} : joined({kind, " ", same + 1});
}

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
