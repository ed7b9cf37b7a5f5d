// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/data/visit.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/error.hpp>
#include <penstock/order/detail/dealing.hpp>
#include <penstock/order/detail/origins.hpp>
#include <penstock/order/detail/whole_batches.hpp>
#include <penstock/order/order.hpp>
#include <penstock/order/position.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>

namespace penstock::detail {

/// Throws OptionError if nothing can go on in the middle of the source.
[[gnu::cold]] inline void check_random_access(bool in_order) {
  if (in_order) {
    throw OptionError{"penstock: the records of this source come in order only, so a run has no "
                      "position in it: keep what you need to go on with the records themselves."};
  }
}
/// Throws OptionError if nobody knows how far inside a batch that .drop_last counts a run stands.
[[gnu::cold]] void check_known(const WholeBatches& whole);

[[noreturn, gnu::cold]] inline void differ(std::initializer_list<TextPart> how) {
  throw_error<OptionError>({"penstock: this position is of another order: ", joined(how),
                            ". Resume with the same order and data, or begin anew without "
                            ".from."});
}
[[gnu::cold]] inline void check_same(const char* what, std::uint64_t there, std::uint64_t here) {
  if (there != here) {
    differ({what, there, " there and ", here, " here"});
  }
}
inline TextPart text_of_seed(const Seed& seed) noexcept {
  return seed ? TextPart{seed.value()} : TextPart{"none"};
}

/// Throws OptionError if a position is of another order than `here`.
[[gnu::cold]] void check_identity(const OrderIdentity& it, const OrderIdentity& here);

/// Throws OptionError unless a position behind a Decoder of another number is of this rank.
[[gnu::cold]] void check_rank(const Position& from, const Ranks& ranks);

/// Throws OptionError if a run of this order, which has so many epochs, cannot go on from there.
[[gnu::cold]] void check_position(const Position& from, const OrderIdentity& here,
                                  std::uint64_t epochs, const Order& order);

/// Which record comes when in a run, on this rank.
///
/// Behind the Reader a record goes by its turn: on one rank its step in the epoch, on one of
/// several how many records of the epoch came before it on this rank, since the run began. Turns
/// follow each other where nothing is left out. Where all of a source is read as it lies, by one
/// rank, turn, step and record are the same number.
class RunOrder {
 public:
  static constexpr std::uint64_t unknown = ~std::uint64_t{0};

  /// What a source that mixes others has in place of one order of its records: returns which comes
  /// as number `visit`, over all epochs.
  using MixedRecord = std::uint64_t(const void* source, std::uint64_t visit, Seed shuffle);
  /// Puts the records of `count` turns from `turn` on, by their numbers in the source, into `to`.
  using Numbers = void(const RunOrder& order, std::uint64_t epoch, std::uint64_t turn,
                       std::size_t count, std::uint64_t* to);

  /// `order` says its block and its records, and all of it can work. `size`: of the source, or
  /// unknown. `source`: its identity. `mix`: null unless it is one. `in_order`: nothing can go on
  /// in its middle. `numbered_by`: may be null if the order is plain, and is then not compiled.
  [[gnu::cold]] RunOrder(const Order& order, std::uint64_t size, std::uint64_t epochs,
                         std::uint64_t schema, std::uint64_t source, MixedRecord* mix,
                         bool in_order, Numbers* numbered_by)
      : order_{order}, mix_{nullptr, mix}, numbers_{numbered_by},
        plain_{!order.shuffle && order.ranks.world == 1 && !mix}, in_order_{in_order},
        all_epochs_{epochs}, epochs_{epochs},
        identity_{order.shuffle, order.block, order.window, order.records, size, schema, source},
        first_{dealt_from(0)}, each_{first_} {}

  /// Begins a run from there, of `epoch` alone if there is one. Throws OptionError if it cannot.
  [[gnu::cold]] void begin_from(const Position& from, std::optional<std::uint64_t> epoch);
  /// Begins a run, at the beginning or at a position of this order.
  [[gnu::cold]] void begin(const Position& from = {}) noexcept;
  /// Says, before the first run, that a Decoder makes outputs of groups of so many turns, in any
  /// number. Places that position() is asked for are then numbers of outputs, and each rank has
  /// positions of its own.
  [[gnu::cold]] void recount(std::uint64_t group, Shared<OutputOrigins> outputs) {
    identity_.group = group;
    outputs_ = std::move(outputs);
  }
  /// Returns how many of the first outputs of this run an earlier one has given.
  std::uint64_t dropped() const noexcept { return dropped_; }
  /// Returns how many records of the first batch that .drop_last counts an earlier one has given.
  /// Several ranks begin with whole ones.
  std::uint64_t begun() const noexcept { return one_rank() && !outputs_ ? dropped_ : 0; }

  /// Returns whether turn, step and record are the same number.
  bool plain() const noexcept { return plain_; }
  bool one_rank() const noexcept { return order_.ranks.world == 1; }

  /// What this rank reads in this run: the turns of the first epoch, and how many each later one
  /// has.
  /// @{
  std::uint64_t first_epoch() const noexcept { return epoch_; }
  std::uint64_t epochs() const noexcept { return epochs_; }
  std::uint64_t first_turn() const noexcept { return zero(epoch_) + inside_; }
  std::uint64_t end_turn() const noexcept {
    return zero(epoch_) + std::max(first_.count(), inside_);
  }
  std::uint64_t turns() const noexcept { return each_.count(); }
  /// @}
  /// Returns how many records this rank reads in this run, or unknown.
  std::uint64_t records_of_run() const noexcept {
    return identity_.records == unknown ? unknown
           : epoch_ >= epochs_          ? 0
                               : end_turn() - first_turn() + (epochs_ - epoch_ - 1) * turns();
  }
  /// Returns the most that a rank reads in all epochs, the same on all ranks, or unknown.
  std::uint64_t most_of_run() const noexcept {
    return identity_.records == unknown ? unknown : all_epochs_ * each_.most();
  }

  /// Returns the step of a turn.
  std::uint64_t step(std::uint64_t epoch, std::uint64_t turn) const noexcept {
    return epoch == epoch_ ? first_.step(turn - zero(epoch)) : each_.step(turn);
  }
  /// Puts the numbers in the source of the records of `count` turns from `turn` on into `to`. Not
  /// of a plain order, which needs none.
  void numbers(std::uint64_t epoch, std::uint64_t turn, std::size_t count,
               std::uint64_t* to) const {
    numbers_(*this, epoch, turn, count, to);
  }
  /// What `numbers` goes by: the order, its size, and, if it is one, the mix.
  /// @{
  const Order& order() const noexcept { return order_; }
  std::uint64_t size() const noexcept { return identity_.size; }
  bool mixes() const noexcept { return mix_.record != nullptr; }
  std::uint64_t mixed(std::uint64_t epoch, std::uint64_t step) const {
    return mix_.record(mix_.source, epoch * identity_.records + step, order_.shuffle);
  }
  /// @}
  /// Returns the number in the source of the record of a turn, with its epoch and step; `unknown`
  /// if a mix throws when it is asked.
  Visit visit(std::uint64_t epoch, std::uint64_t turn) const noexcept;

  /// Says which object answers for a mix.
  void mix_from(const void* source) noexcept { mix_.source = source; }
  /// Says how many records a batch of the last stage has: on several ranks, all of them stand at a
  /// whole number of batches. `whole`: the batches that .drop_last counts.
  void set_batch(std::uint64_t records, const WholeBatches& whole = {}) noexcept {
    batch_ = std::max<std::uint64_t>(records, 1);
    whole_ = whole;
  }
  std::uint64_t batch() const noexcept { return batch_; }

  /// Throws OptionError if places have no positions.
  [[gnu::cold]] void check_tells() const {
    check_random_access(in_order_);
    check_known(whole_);
  }
  /// Returns a number for the place before a turn, and for the place behind an epoch's last: places
  /// later in the run have greater ones.
  std::uint64_t place(std::uint64_t epoch, std::uint64_t turn) const noexcept {
    return epoch == epoch_ ? turn - first_turn()
                           : end_turn() - first_turn() + (epoch - epoch_ - 1) * turns() + turn;
  }
  /// Returns the place behind an epoch's last turn; unknown if nobody knows that.
  std::uint64_t place_at_end(std::uint64_t epoch) const noexcept {
    return identity_.records == unknown ? unknown
                                        : place(epoch, epoch == epoch_ ? end_turn() : turns());
  }
  /// Returns the position of a place; a default one of an unknown place, and where there are none.
  [[gnu::cold]] Position position(std::uint64_t place) const noexcept;

 private:
  // Returns what the first turn of an epoch is counted from.
  std::uint64_t zero(std::uint64_t epoch) const noexcept {
    return one_rank() && epoch == epoch_ ? first_.begin() : 0;
  }
  [[gnu::cold]] Dealing dealt_from(std::uint64_t step) const noexcept {
    return {step, std::max(identity_.records, step), identity_.block, order_.ranks, order_.uneven};
  }

  Position at(std::uint64_t epoch, const Dealing::Dealt& place,
              std::uint64_t begun = 0) const noexcept {
    const std::uint64_t world = place.inside == 0 ? 0 : order_.ranks.world;
    return {identity_, epoch, place.step, {.inside = place.inside, .world = world, .made = begun}};
  }
  // `taken`: by this rank, of what is dealt; `before`: of these, those before this run.
  Position position_of(std::uint64_t epoch, const Dealing& dealing, std::uint64_t before,
                       std::uint64_t taken, std::uint64_t made) const noexcept;

  // How many outputs the others have made nobody knows: a position of this rank alone.
  [[gnu::cold]] Position position_of_rank(std::uint64_t epoch, const Dealing& dealing,
                                          std::uint64_t taken, std::uint64_t made) const noexcept;
  [[gnu::cold]] Position begin_of(std::uint64_t epoch, std::uint64_t made) const noexcept {
    return {
        identity_, epoch, 0, {.world = world_beside(), .rank = order_.ranks.rank, .made = made}};
  }
  std::uint64_t world_beside() const noexcept { return one_rank() ? 0 : order_.ranks.world; }

  struct Mix {
    const void* source;
    MixedRecord* record;
  };

  const Order order_;
  Mix mix_;
  Numbers* const numbers_;
  const bool plain_;
  const bool in_order_;
  const std::uint64_t all_epochs_;
  std::uint64_t epochs_; // behind the last of this run
  OrderIdentity identity_;
  std::uint64_t batch_{1};
  std::uint64_t epoch_{};  // the first of this run
  std::uint64_t inside_{}; // records of it that this rank took before this run
  std::uint64_t dropped_{};
  WholeBatches whole_{};
  Shared<OutputOrigins> outputs_; // null unless places are numbers of outputs
  Dealing first_;                 // of the first epoch of this run
  Dealing each_;                  // of a whole one
};

#if PENSTOCK_BODIES
PENSTOCK_INLINE void check_known(const WholeBatches& whole) {
  if (whole.unknown()) {
    throw OptionError{
        "penstock: position() behind this batch is not known: drop_last counts the batches of the "
        "AsyncCopier to the device, and this one may end inside one of them. Nothing tells how far "
        "inside, where records may be left out before, or where ranks share them: give "
        "AsyncCopier{ps::to_host} the .batch of the AsyncCopier before it, or leave out "
        "drop_last."};
  }
}

PENSTOCK_INLINE void check_identity(const OrderIdentity& it, const OrderIdentity& here) {
  if (it.shuffle != here.shuffle) {
    differ({"the seed of .shuffle is ", text_of_seed(it.shuffle), " there and ",
            text_of_seed(here.shuffle), " here"});
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
            "where(), parts or weights in a mix(), a stride or seed of windows(), or files of "
            "interleaved() or its .at_once, .block or .shuffle"});
  }
}

PENSTOCK_INLINE void check_rank(const Position& from, const Ranks& ranks) {
  const std::uint64_t world = std::max<std::uint64_t>(from.world(), 1);
  if (world != ranks.world || from.rank() != ranks.rank) {
    throw_error<OptionError>(
        {"penstock: this position is of rank ", from.rank(), " of ", world, ", and here is rank ",
         ranks.rank, " of ", ranks.world,
         ": behind a Decoder that gives another number of records, each rank goes on from its own "
         "position, with as many ranks."});
  }
}

PENSTOCK_INLINE void check_position(const Position& from, const OrderIdentity& here,
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

PENSTOCK_INLINE void RunOrder::begin_from(const Position& from,
                                          std::optional<std::uint64_t> epoch) {
  const std::uint64_t epochs = epoch ? *epoch + 1 : all_epochs_;
  if (epoch && *epoch >= unknown / std::max<std::uint64_t>(identity_.records, 1)) {
    throw_error<OptionError>({"penstock: .epoch is ", *epoch, ", and this source ",
                              identity_.records == unknown ? "can be delivered once: leave it out."
                                                           : "has too many records for that."});
  }
  if (epoch && from && from.epoch() != *epoch) {
    throw_error<OptionError>({"penstock: .epoch is ", *epoch, ", and .from is in epoch ",
                              from.epoch(), ": give that one, and later ones without .from."});
  }
  if (from) {
    check_random_access(in_order_);
    check_position(from, identity_, epochs, order_);
  }
  begin(from);
  epochs_ = epochs;
  epoch_ = epoch.value_or(epoch_);
}

PENSTOCK_INLINE void RunOrder::begin(const Position& from) noexcept {
  epochs_ = all_epochs_;
  epoch_ = from.epoch();
  inside_ = from.inside();
  first_ = dealt_from(from.step());
  dropped_ = from.made();
  if (outputs_) {
    outputs_->reset(dropped_);
  }
}

PENSTOCK_INLINE Visit RunOrder::visit(std::uint64_t epoch, std::uint64_t turn) const noexcept {
  const std::uint64_t before = identity_.records == unknown ? 0 : epoch * identity_.records;
  if (plain_) {
    return {turn, epoch, before + turn};
  }
  Visit visit{unknown, epoch, before + step(epoch, turn)};
  try {
    numbers(epoch, turn, 1, &visit.record);
  } catch (...) { // reading it has failed by the same, and said so
  }
  return visit;
}

PENSTOCK_INLINE Position RunOrder::position(std::uint64_t place) const noexcept {
  if (in_order_ || place == unknown || whole_.unknown()) {
    return {};
  }
  const std::uint64_t in_first = end_turn() - first_turn();
  if (epoch_ >= epochs_) {
    return outputs_ ? begin_of(epochs_, 0) : at(epochs_, {});
  }
  const MadeFrom of = outputs_ ? outputs_->origin(place) : MadeFrom{place, 0};
  if (of.place <= in_first) {
    return position_of(epoch_, first_, inside_, inside_ + of.place, of.made);
  }
  const std::uint64_t after = of.place - in_first;
  const std::uint64_t whole = (after - 1) / turns();
  return position_of(epoch_ + 1 + whole, each_, 0, after - whole * turns(), of.made);
}

PENSTOCK_INLINE Position RunOrder::position_of(std::uint64_t epoch, const Dealing& dealing,
                                               std::uint64_t before, std::uint64_t taken,
                                               std::uint64_t made) const noexcept {
  if (outputs_) {
    return position_of_rank(epoch, dealing, taken, made);
  }
  const std::uint64_t batches = (taken - before + batch_ - 1) / batch_;
  const std::uint64_t by_all = one_rank() ? taken : before + batches * batch_;
  if (by_all >= dealing.most() && identity_.records != unknown) {
    return at(epoch + 1, {});
  }
  const std::uint64_t in_batches = by_all + (epoch == epoch_ ? begun() : 0);
  const std::uint64_t batch = whole_.by_turns();
  return at(epoch, dealing.place(by_all), batch != 0 ? in_batches % batch : 0);
}

PENSTOCK_INLINE Position RunOrder::position_of_rank(std::uint64_t epoch, const Dealing& dealing,
                                                    std::uint64_t taken,
                                                    std::uint64_t made) const noexcept {
  if (taken >= dealing.count() && identity_.records != unknown) {
    return begin_of(epoch + 1, made);
  }
  const std::uint64_t step = one_rank() ? dealing.begin() + taken : dealing.begin();
  return {identity_,
          epoch,
          step,
          {.inside = one_rank() ? 0 : taken,
           .world = world_beside(),
           .rank = order_.ranks.rank,
           .made = made}};
}
#endif

} // namespace penstock::detail
