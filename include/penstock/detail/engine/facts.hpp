// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/data/schema.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/detail/turns/ahead.hpp>
#include <penstock/detail/turns/flush.hpp>
#include <penstock/error.hpp>
#include <penstock/order/detail/run_order.hpp>
#include <penstock/order/detail/whole_batches.hpp>
#include <penstock/sources/source.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>

namespace penstock::detail {

/// What the stages of a chain say of themselves before the first is built: all host stages share
/// one number of records a slot.
struct Plan {
  std::size_t largest{}; // bytes of a record, among those that Decoders give
  bool whole{};          // a stage on the host must see whole records
  bool ragged{};         // a slot is a batch
  bool to_device{};
  bool decodes{};          // a Decoder works on the host, before the device or behind it
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

  /// Takes over what the stages of a branch say: `first` if no other branch has said anything.
  [[gnu::cold]] void join(const Plan& branch, bool first) noexcept;

  /// Note what a host stage sees and gives. Stages after a device have slots of their own.
  /// @{
  void sees_records() { whole = whole || !to_device; }
  void works(unsigned with) noexcept;
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
  void gather(std::uint64_t each) noexcept;
  /// A stage makes `out` units of each `in`.
  void recount(std::uint64_t in, std::uint64_t out) noexcept;
  /// A stage may leave units out: those that it keeps share the credits of a batch, rounded up.
  void leave_out() noexcept;

  /// Tells `ahead`, when all stages are known. Throws OptionError if that is too small for them.
  [[gnu::cold]] void check(Ahead<>& ahead) const;

 private:
  void round_up() noexcept;

  std::uint64_t units_{1};
  std::uint64_t grain_{1}; // units come in whole ones of so many, but for an epoch's last
  // in_ units of the source are out_ units here.
  std::uint64_t in_{1};
  std::uint64_t out_{1};
  bool shared_{}; // whether batches were gathered where out_ was not 1
};

/// What is known, before any run, of what flows on a link. The Reader says it first, and each later
/// stage says what it changes, in the order of the chain. A value: a chain that forks goes on with
/// copies. It has no threads and no links.
struct Facts {
  Plan plan{}; ///< Of all stages.
  /// Records that a run will carry, or unknown_size, and how many units those are.
  std::uint64_t records{};
  std::uint64_t units{};
  std::uint64_t epochs{1};
  std::uint64_t slots_of_a_run{}; ///< Host slots that a run may fill, and one more.
  std::uint64_t slots_read{};     ///< Slots that the Reader hands on, while a batch is a slot.
  bool fixed_slots{};             ///< The user said how many records a host slot has.
  bool drop_last{};               ///< An epoch's last batch is left out if it is short.
  WholeBatches whole_batches{};
  std::size_t depth{};      ///< Batches that may be on the device at once.
  bool one_for_one{true};   ///< Each record that comes is made of one of the source's.
  bool outputs{};           ///< A Decoder gives another number of records: they count themselves.
  unsigned recounts{};      ///< Such Decoders so far.
  bool skips{};             ///< A stage may have left records out: index() is counted.
  bool jumps{};             ///< A stage may have left records out: numbers may jump.
  Shared<RunOrder> order{}; ///< Made by the Reader.
  Shared<Ahead<>> ahead{};  ///< What bounds how far the Reader is ahead; null if nothing.
  AheadNeeds needs{};       ///< Of the stages so far.
  Flush flush{};            ///< When what waits to be full is handed on.

  /// A stage may leave records out.
  void skip(bool may) noexcept;
  /// A stage leaves out an epoch's last batch if it has fewer units than `batch`.
  void drop_short(std::size_t batch) noexcept;
  /// Records that are delivered behind a stage are counted anew.
  void count_anew() noexcept { skips = false; }
  /// A Decoder gives any number of records of each `group`: they count themselves.
  void recount_outputs(std::uint64_t group) noexcept;
  /// Returns whether ranks must have the batches of their turns: a batch is then short wherever
  /// records were left out of it.
  bool batches_by_turn() const noexcept { return jumps && !outputs && !order->one_rank(); }
  /// Returns how many batches of so many units there are in a run, at most, or unknown_size.
  std::uint64_t batches(std::uint64_t batch) const noexcept;
};

#if PENSTOCK_BODIES
PENSTOCK_INLINE void Plan::works(unsigned with) noexcept {
  sees_records();
  workers = to_device ? workers : std::max(workers, with);
}

PENSTOCK_INLINE void Plan::join(const Plan& branch, bool first) noexcept {
  to_device = branch.to_device && (first || to_device);
  largest = std::max(largest, branch.largest);
  whole = whole || branch.whole;
  ragged = ragged || branch.ragged;
  decodes = decodes || branch.decodes;
  fills_up = fills_up || branch.fills_up;
  batched = batched || branch.batched;
  batch = batch != 0 ? batch : branch.batch;
  recounted = recounted != 0 ? recounted : branch.recounted;
  workers = std::max(workers, branch.workers);
}

PENSTOCK_INLINE void AheadNeeds::gather(std::uint64_t each) noexcept {
  // Credits were split by rounding down once already. Rounding down again could leave a batch
  // with more credits than its records have.
  if (out_ != 1 && std::exchange(shared_, true)) {
    round_up();
  }
  const std::uint64_t waiting = each - std::gcd(grain_, each);
  units_ += waiting / out_ * in_ + (waiting % out_ * in_ + out_ - 1) / out_;
  grain_ = each;
}

PENSTOCK_INLINE void AheadNeeds::recount(std::uint64_t in, std::uint64_t out) noexcept {
  const std::uint64_t same = std::gcd(in, out);
  const std::uint64_t before = std::gcd(in_, out / same);
  const std::uint64_t after = std::gcd(in / same, out_);
  in_ = in_ / before * (in / same / after);
  out_ = out_ / after * (out / same / before);
  grain_ = out;
}

PENSTOCK_INLINE void AheadNeeds::leave_out() noexcept {
  grain_ = 1;
  round_up();
}

PENSTOCK_INLINE void AheadNeeds::check(Ahead<>& ahead) const {
  ahead.needs(units_);
  if (units_ > ahead.most()) {
    throw_error<OptionError>(
        {"penstock: Reader: ahead is ", ahead.records(ahead.most()),
         ", but the batches of this chain, while they fill, may hold ", ahead.records(units_),
         " records, and would never be full: give it at least that, or smaller batches, or "
         ".flush, and they are handed on as they are."});
  }
}

PENSTOCK_INLINE void AheadNeeds::round_up() noexcept {
  in_ = (in_ + out_ - 1) / out_;
  out_ = 1;
}

PENSTOCK_INLINE void Facts::skip(bool may) noexcept {
  skips = skips || may;
  jumps = jumps || may;
  if (may) {
    needs.leave_out();
  }
}

PENSTOCK_INLINE void Facts::drop_short(std::size_t batch) noexcept {
  units -= units == unknown_size ? 0 : units / epochs % batch * epochs;
}

PENSTOCK_INLINE void Facts::recount_outputs(std::uint64_t group) noexcept {
  needs.leave_out();
  needs.recount(group, 1);
  one_for_one = one_for_one && !outputs; // of two, nobody knows where to go on
  units = records = slots_of_a_run = unknown_size;
  slots_read = 0;
  outputs = true;
  skips = jumps = false;
  ++recounts;
}

PENSTOCK_INLINE std::uint64_t Facts::batches(std::uint64_t batch) const noexcept {
  if (units == unknown_size || slots_read != 0) {
    return units == unknown_size ? units : slots_read;
  }
  const std::uint64_t epoch = units / epochs;
  return epochs * (epoch / batch + (epoch % batch != 0 ? 1 : 0));
}
#endif

} // namespace penstock::detail
