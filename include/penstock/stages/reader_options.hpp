// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/detail/engine/build.hpp>
#include <penstock/detail/turns/flush.hpp>
#include <penstock/error.hpp>
#include <penstock/order/order.hpp>
#include <penstock/order/ranks.hpp>
#include <penstock/run/options.hpp>
#include <penstock/sources/source.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace penstock {

/// Options of a Reader.
struct ReaderOptions {
  /// Threads that read at once; 0: for pinned memory in a chain to a device without a Decoder all
  /// processors but two (of up to four, but one), and 14 at most; else 1/2, and 12 at most. The
  /// processors are divided first among the ranks and the devices of this host.
  unsigned workers = 0;
  /// Slots in flight, at least 2; 0: as many as 48 MiB hold.
  std::size_t depth = 0;
  /// How often the source is delivered, at least once.
  std::uint64_t epochs = 1;
  /// Which records are read, and in which order: shuffled, shared among ranks.
  Order order = {};
  /// Records a slot, in all host stages of the chain; 0: as many as give the largest slot about 1
  /// MiB. With a Ragged column, whose slots are batches, 0 means the copier's batch, else 256.
  std::size_t batch = 0;
  /// Leaves out the last batch of each epoch if it is short; the Report counts its records as
  /// dropped. Behind an AsyncCopier to the device a batch is the copier's. Else, and with a Ragged
  /// column, it is a slot: then give its `batch`. Records that a later stage leaves
  /// out do not make it short.
  bool drop_last = false;
  /// How many records may be read and not yet used up, from the call of the source's read() until
  /// the last stage, or its work on the device, is done with them; 0: as many as the rings hold. At
  /// least as many as the batches of the chain hold while they fill: with one stage that makes
  /// batches, its batch. Without `batch` a slot then has at most an eighth of them.
  std::size_t ahead = 0;
  /// The longest that a record, once read, waits for others to fill a slot or a batch while the
  /// stage that takes it is idle; 0: not at all, ps::never: until they are full. Slots and batches
  /// may then be short in the middle of an epoch; records, index() and source_index() stay what
  /// they are. With `ahead` they are handed on too when no more may be read.
  std::chrono::microseconds flush = never;
  /// Bytes of each Ragged column's values that a slot holds; 0: 1 MiB, or room for any records of
  /// a source that tells how long they are.
  std::size_t value_bytes = 0;
  /// What it does when a slot cannot be read.
  OnError on_error = {};
};

namespace detail {

// What cannot work is refused by these, in order of what they look at. Each throws OptionError.

[[gnu::cold]] void check_epochs(const ReaderOptions& options, std::uint64_t size);
/// What would give ranks another number of batches each.
[[gnu::cold]] void check_ranks(const ReaderOptions& options, const Plan& plan);
[[gnu::cold]] void check_flush(const ReaderOptions& options);
/// Slots that are batches must have a size before any can be short.
[[gnu::cold]] void check_slots(const ReaderOptions& options, const Plan& plan);
/// An epoch of which nothing would be left. `share`: its records on this rank.
[[gnu::cold]] void check_left(const ReaderOptions& options, std::uint64_t share, std::size_t batch);

#if PENSTOCK_BODIES
PENSTOCK_INLINE void check_epochs(const ReaderOptions& options, std::uint64_t size) {
  if (options.epochs == 0 || (size == unknown_size && options.epochs != 1)) {
    throw_error<OptionError>(
        {"penstock: Reader: epochs is ", options.epochs,
         ": it must be at least 1, and 1 where the source's size is unknown."});
  }
  constexpr std::uint64_t most = unknown_size / 2;
  const std::uint64_t each = std::max(size, options.order.records);
  if (size != unknown_size && each != 0 && options.epochs > most / each) {
    throw_error<OptionError>({"penstock: Reader: epochs is ", options.epochs, ", each of ", each,
                              " records, and a run counts at most ", most,
                              ": give it fewer epochs, or smaller ones."});
  }
}

PENSTOCK_INLINE void check_ranks(const ReaderOptions& options, const Plan& plan) {
  const Ranks ranks = checked(options.order.ranks);
  if (ranks.world != 1 && options.flush != never) {
    throw OptionError{"penstock: Reader: flush makes short batches when time is up, and then ranks "
                      "have other numbers of batches: leave it out, or order.ranks."};
  }
  if (ranks.world != 1 && options.ahead != 0 && options.batch == 0 && !plan.fills_up) {
    throw OptionError{"penstock: Reader: with .ahead a slot holds what may be read just now, and "
                      "here slots are batches, which must be the same on all ranks: give the "
                      "Reader a .batch."};
  }
  if (ranks.world != 1 && options.drop_last && options.on_error.skips != 0) {
    throw OptionError{"penstock: Reader: on several ranks a batch is short if records were "
                      "skipped, so drop_last cannot tell the last one: leave out drop_last, or "
                      "the skips."};
  }
}

PENSTOCK_INLINE void check_flush(const ReaderOptions& options) {
  if (options.flush < options.flush.zero()) {
    throw OptionError{"penstock: Reader: flush is less than 0: give it 0 or more, or ps::never."};
  }
  if (options.drop_last && options.flush != never) {
    throw OptionError{"penstock: Reader: drop_last leaves out short batches, and flush makes some "
                      "at any time: choose one of them."};
  }
}

PENSTOCK_INLINE void check_slots(const ReaderOptions& options, const Plan& plan) {
  if (options.batch == 0 && (!plan.ragged || plan.batch == 0)) {
    throw OptionError{"penstock: Reader: drop_last leaves out short batches, and here a batch is a "
                      "slot, which has no size of yours: give the Reader a .batch."};
  }
}

PENSTOCK_INLINE void check_left(const ReaderOptions& options, std::uint64_t share,
                                std::size_t batch) {
  if (options.drop_last && share != 0 && share < batch) {
    throw_error<OptionError>({"penstock: Reader: an epoch has ", share, " records",
                              options.order.ranks.world == 1 ? "" : " for this rank",
                              ", fewer than the ", batch,
                              " of a batch, and drop_last would leave out all of them: make the "
                              "batch smaller."});
  }
}
#endif

} // namespace detail
} // namespace penstock
