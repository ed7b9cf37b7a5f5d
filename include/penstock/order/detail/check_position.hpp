// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/text.hpp>
#include <penstock/detail/base/throwing.hpp>
#include <penstock/error.hpp>
#include <penstock/order/detail/dealing.hpp>
#include <penstock/order/detail/whole_batches.hpp>
#include <penstock/order/order.hpp>
#include <penstock/order/position.hpp>

#include <algorithm>
#include <cstdint>
#include <initializer_list>

namespace penstock::detail {

/// Throws OptionError if nothing can go on in the middle of the source.
[[gnu::cold]] inline void check_random_access(bool in_order) {
  if (in_order) {
    throw OptionError{"penstock: the records of this source come in order only, so a run has no "
                      "position in it: keep what you need to go on with the records themselves."};
  }
}
/// Throws OptionError if nobody knows how far inside a batch that .drop_last counts a run stands.
[[gnu::cold]] inline void check_known(const WholeBatches& whole) {
  if (whole.unknown()) {
    throw OptionError{
        "penstock: position() behind this batch is not known: drop_last counts the batches of the "
        "AsyncCopier to the device, and this one may end inside one of them. Nothing tells how far "
        "inside, where records may be left out before, or where ranks share them: give "
        "AsyncCopier{ps::to_host} the .batch of the AsyncCopier before it, or leave out "
        "drop_last."};
  }
}

[[noreturn, gnu::cold]] inline void differ(std::initializer_list<Piece> how) {
  throw_error<OptionError>({"penstock: this position is of another order: ", joined(how),
                            ". Resume with the same order and data, or begin anew without "
                            ".from."});
}
[[gnu::cold]] inline void check_same(const char* what, std::uint64_t there, std::uint64_t here) {
  if (there != here) {
    differ({what, there, " there and ", here, " here"});
  }
}
inline Piece piece_of(const Seed& seed) noexcept {
  return seed ? Piece{seed.value()} : Piece{"none"};
}

/// Throws OptionError if a position is of another order than `here`.
[[gnu::cold]] inline void check_identity(const OrderIdentity& it, const OrderIdentity& here) {
  if (it.shuffle != here.shuffle) {
    differ({"the seed of .shuffle is ", piece_of(it.shuffle), " there and ", piece_of(here.shuffle),
            " here"});
  }
  check_same(".block is ", it.block, here.block);
  check_same(".window is ", it.window, here.window);
  check_same("the number of the source's records is ", it.size, here.size);
  check_same("the number of an epoch's records is ", it.records, here.records);
  if (it.schema != here.schema) {
    differ({"a record has other columns or another length there than here"});
  }
  check_same(
      "the number of records that a Decoder of another number takes together, 0 without one, is ",
      it.group, here.group);
  if (it.source != here.source) {
    differ({"the source is made otherwise there than here, such as by other numbers in a "
            "where(), parts or weights in a mix(), or a stride or seed of windows()"});
  }
}

/// Throws OptionError unless a position behind a Decoder of another number is of this rank.
[[gnu::cold]] inline void check_rank(const Position& from, const Ranks& ranks) {
  const std::uint64_t world = std::max<std::uint64_t>(from.world(), 1);
  if (world != ranks.world || from.rank() != ranks.rank) {
    throw_error<OptionError>(
        {"penstock: this position is of rank ", from.rank(), " of ", world, ", and here is rank ",
         ranks.rank, " of ", ranks.world,
         ": behind a Decoder that gives another number of records, each rank goes on from its own "
         "position, with as many ranks."});
  }
}

/// Throws OptionError if a run of this order, which has so many epochs, cannot go on from there.
[[gnu::cold]] inline void check_position(const Position& from, const OrderIdentity& here,
                                         std::uint64_t epochs, const Order& order) {
  check_identity(from.identity(), here);
  const std::uint64_t group = std::max<std::uint64_t>(here.group, 1);
  if (from.step() > here.records || from.step() % group != 0 || from.inside() % group != 0) {
    throw_error<OptionError>({"penstock: this position is at step ", from.step(),
                              ", and an epoch has ", here.records,
                              ": its text was changed, and is worth nothing."});
  }
  const bool at_begin = from.step() == 0 && from.inside() == 0 && from.made() == 0;
  if (from.epoch() > epochs || (from.epoch() == epochs && !at_begin)) {
    throw_error<OptionError>({"penstock: this position is at step ", from.step(), " of epoch ",
                              from.epoch(), ", counted from 0, and the Reader has .epochs = ",
                              epochs, ", counted from the first run's beginning: give it more."});
  }
  if (here.group != 0) {
    check_rank(from, order.ranks);
  } else if (from.inside() != 0 && from.world() != order.ranks.world) {
    const Ranks then{0, static_cast<std::uint32_t>(std::max<std::uint64_t>(from.world(), 1))};
    const Dealing dealt{from.step(), here.records, here.block, then, order.uneven};
    throw_error<OptionError>(
        {"penstock: this position is inside a block of each of ", from.world(),
         " ranks, and here are ", order.ranks.world,
         ": go on with as many, or from where all stand between blocks, at step ", from.step(),
         " or ", dealt.next_round(from.inside()), "."});
  }
}

} // namespace penstock::detail
