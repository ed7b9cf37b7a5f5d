// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/output.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/detail/links/host_link.hpp>
#include <penstock/detail/measure/meter.hpp>
#include <penstock/detail/outputs/output_buffer.hpp>
#include <penstock/detail/outputs/output_run.hpp>
#include <penstock/detail/turns/openings.hpp>
#include <penstock/error.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace penstock::detail {

/// Ends a callable in its middle because its run ends. No std::exception, so that the callable's
/// own handlers let it pass.
struct RunEnded {};

/// What one worker of a Decoder of another number of records makes of its share: it lies in a
/// buffer until the share's turn comes. Where the share is one call that states how much it gives,
/// its turn comes at once, and it writes straight into the slots. `Same`: each record that it is
/// given becomes one, with the same number in the source, or is left out.
template <class S, bool Same> class OutputWorker final : public Outlet<S> {
 public:
  OutputWorker(OutputRun& run, const Layout& chunk) : run_{run}, buffer_{chunk} {
    if constexpr (Same) {
      units_.reserve(run.slots.link().layout().units); // here, and not in a later run
    }
  }

  /// Begins a share, the units to before `last` of the slot `given`, which lies in a place.
  /// `alone`: it is one call, and what that gives is kept, or the run ends.
  void begin(const OutputRun::Turn& turn, const HostLink& in, const HostSlot& given,
             std::size_t place, std::size_t last, bool alone, Meter& meter) noexcept {
    turn_ = turn;
    in_ = &in;
    given_ = &given;
    place_ = place;
    behind_ = given.source[last];
    bytes_ = 0;
    alone_ = alone;
    meter_ = &meter;
    opened_ = ended_ = false;
    piece_ = {};
    sections_.clear();
    units_.clear();
    groups_.clear();
    misused_ = false;
    buffer_.clear(*this);
  }
  /// Says from which place in the order what comes next is made.
  void note(std::uint64_t place) { sections_.push_back({buffer_.size(*this), place}); }
  /// Adds the record that is to be made of record `number` of the source; returns it in `view`.
  std::size_t add(std::uint64_t number) {
    buffer_.next(*this, number);
    return this->at++;
  }
  /// Adds `units` records, all of this share, the first of which is made of record `number`: has
  /// fill(view) fill them.
  template <class Fill> void add_whole(std::size_t units, std::uint64_t number, Fill fill) {
    buffer_.fill_whole(*this, units, number, fill);
  }

  /// Begins a call; another one for the same group if it was tried before.
  void begin_group(unsigned tries) noexcept {
    if (tries == 0) {
      before_ = buffer_.mark(*this);
    } else {
      leave_out_group();
    }
    told_ = {};
    first_ = buffer_.size(*this);
    stated_ = none;
  }
  void leave_out_group() noexcept { buffer_.back_to(*this, before_); }
  /// Throws Error if the call gave fewer records than it stated, or left one of them open.
  void check_group() {
    if (misused_) {
      throw Error{"penstock: Decoder: its callable went on after an error of open() or add(): let "
                  "that error pass."};
    }
    if (!opened_) {
      buffer_.close(*this);
    }
    const std::size_t left = room_.units + (this->end - this->at);
    const std::size_t gave = opened_ ? stated_ - left : buffer_.size(*this) - first_;
    if (stated_ != none && gave != stated_) {
      throw_error<Error>({"penstock: Decoder: its callable stated ", stated_,
                          " records by open() and gave ", gave, ": state as many as it adds."});
    }
  }
  /// Notes that a group, of the slot's units from `first` to before `last`, has given what it
  /// gives.
  void end_group(std::size_t first, std::size_t last) {
    for (std::size_t unit = first; Same && outputs() != first_ && unit != last; ++unit) {
      units_.push_back(unit);
    }
    if (!in_->ahead) {
      return;
    }
    const std::uint64_t all = in_->credits(place_);
    const std::uint64_t credits =
        credits_of(all, given_->units, last) - credits_of(all, given_->units, first);
    if (outputs() == (opened_ ? 0 : first_)) {
      in_->use_up(credits);
    } else {
      groups_.push_back({outputs(), credits});
    }
  }
  /// Returns whether the run has ended, so that the last call was broken off.
  bool ended() const noexcept { return ended_; }
  /// Returns how many outputs its share has so far, or states.
  std::size_t outputs() const noexcept { return opened_ ? stated_ : buffer_.size(*this); }
  /// Returns how many bytes those have, when they are handed on.
  std::size_t bytes() const noexcept {
    return ragged ? bytes_ : outputs() * run_.slots.link().layout().unit_bytes();
  }

  /// Waits for its turn, unless that was before, and hands on what it has. Returns false if the run
  /// ends. Throws Error if it may not.
  bool hand_on() {
    if (opened_) {
      end_piece();
    } else {
      buffer_.seal(*this);
      if (!await_turn() || !take(outputs()) || !(ragged ? copy_ragged() : copy())) {
        return false;
      }
    }
    share_.number = told_.behind;
    share_.turn = Same ? behind_ : told_.behind;
    return run_.slots.leave_void(rest_, share_, given_->ends_epoch);
  }

 private:
  static constexpr bool ragged = schema_traits<S>::ragged;
  static constexpr std::size_t none = ~std::size_t{0};
  static constexpr std::size_t most_outputs = std::size_t{1} << 48;
  struct Group {     // that has outputs
    std::size_t end; // of its outputs, in the share
    std::uint64_t credits;
  };

  void open(std::size_t count) override {
    if (count > most_outputs) {
      misused_ = true;
      throw_error<Error>({"penstock: Decoder: its callable stated ", count,
                          " records by open(), which no call gives: was it a negative number?"});
    }
    if (stated_ != none || buffer_.size(*this) != first_) {
      misused_ = true;
      throw Error{"penstock: Decoder: its callable called open() twice, or after add(): state how "
                  "many records it gives once, and first."};
    }
    stated_ = count;
    if (!alone_) {
      return;
    }
    if (!await_turn()) {
      end_run();
    }
    if (!run_.drops()) {
      if (!take(count)) {
        end_run();
      }
      opened_ = true;
      this->at = this->end = 0;
    }
  }
  void next() override {
    if (ended_) {
      throw RunEnded{};
    }
    if (!opened_) {
      buffer_.close(*this);
      buffer_.next(*this, buffer_.size(*this));
      return;
    }
    if (room_.units == 0) {
      misused_ = true;
      throw_error<Error>({"penstock: Decoder: its callable stated ", stated_,
                          " records by open() and adds more: state as many as it adds."});
    }
    end_piece();
    const Room::Piece piece = room_.next(run_.openings.size());
    if (!await_free([&] { return run_.slots.begin(piece, share_); })) {
      end_run();
    }
    piece_ = piece;
    share_.turn = share_.number += piece.units;
    const HostLink& link = run_.slots.link();
    this->view =
        link.memory.template view<S>(piece.ticket % link.ring.slots(), link.layout().units, 0, 0);
    this->at = piece.first;
    this->end = piece.first + piece.units;
  }
  // Hands on the piece that it has filled, if there is one.
  void end_piece() noexcept {
    if (piece_.units != 0) {
      const bool last = room_.units == 0 && !groups_.empty();
      run_.slots.end(std::exchange(piece_, {}), last ? groups_[0].credits : 0);
    }
  }
  [[noreturn]] void end_run() {
    ended_ = true;
    throw RunEnded{};
  }

  // Returns false if the run ends.
  bool await_turn() noexcept {
    if (run_.openings.is_turn(turn_.number)) {
      return true;
    }
    meter_->pause(Activity::blocked);
    const bool there = run_.openings.await_turn(turn_.number);
    meter_->spent(Activity::blocked, Activity::busy);
    return there;
  }
  // Returns what `f` does, which waits for a slot to be free.
  template <class F> auto await_free(F f) noexcept {
    meter_->pause(Activity::blocked);
    const auto free = f();
    meter_->spent(Activity::blocked, Activity::busy);
    return free;
  }
  // In turn, takes room, and passes the turn on; with Ragged columns copy_ragged() does. Returns
  // false if the run ends.
  bool take(std::size_t outputs) {
    told_ = run_.take(outputs, sections_, turn_.last, given_->epoch, given_->ends_epoch,
                      in_->order->place_at_end(given_->epoch));
    share_ = {told_.number, told_.number, told_.left_out, given_->epoch, in_->was_read(place_)};
    if constexpr (!ragged) {
      room_ = run_.openings.open(told_.kept);
      pass();
    }
    // At once: slots before it must go on, so that those behind it come free.
    return run_.slots.leave_void(told_.before, share_, true);
  }
  void pass() {
    rest_ = run_.finish(turn_.last, given_->units, given_->ends_epoch);
    run_.openings.pass(turn_.next);
  }

  // Copies the buffer to where it goes. Returns false if the run ends.
  bool copy() {
    typename OutputBuffer<S>::Cursor from;
    buffer_.copy(from, told_.dropped, nullptr, 0, 0);
    std::size_t done = told_.dropped;
    std::size_t group = give_back(done);
    const HostLink& link = run_.slots.link();
    return run_.slots.fill(
        room_, share_,
        [&](const Room::Piece& piece) {
          const auto units = piece.units;
          buffer_.copy(from, units, &link.memory, piece.ticket % link.ring.slots(), piece.first);
          done += units;
        },
        [&](const Room::Piece&) { return credits_until(done, group); });
  }
  // Copies Ragged records: a slot whose values are full ends short. In turn it says where
  // all values go; what goes into the last slot is copied while others have their turns.
  bool copy_ragged() {
    typename OutputBuffer<S>::Cursor from;
    buffer_.copy(from, told_.dropped, nullptr, 0, 0);
    std::size_t done = told_.dropped;
    std::size_t group = give_back(done);
    HostLink& link = run_.slots.link();
    const std::size_t all = done + told_.kept;
    while (done != all) {
      const Room next = run_.openings.next();
      HostSlot* const slot = await_free([&] { return link.ring.await_free(next.ticket); });
      if (!slot) {
        return false;
      }
      const std::size_t place = next.ticket % link.ring.slots();
      const std::size_t left = run_.openings.size().size(next.ticket) - next.unit;
      const std::size_t units =
          buffer_.fits(from, std::min(left, all - done), link.memory, place, next.unit);
      if (units == 0) {
        link.check_cut();
        run_.slots.leave_void(run_.openings.close(false), share_, false);
        continue;
      }
      const Room::Piece piece = run_.openings.open(units).next(run_.openings.size());
      share_.number = Same ? in_->index_of(*given_, units_[done]) : share_.number;
      run_.slots.begin(piece, share_);
      buffer_.lay_out(from, units, link.memory, place, piece.first);
      bytes_ += link.memory.used(place, piece.first + units) -
                (piece.first != 0 ? link.memory.used(place, piece.first) : 0);
      const std::size_t before = std::exchange(done, done + units);
      share_.turn = share_.number += units;
      if constexpr (Same) {
        for (std::size_t i = 0; i != units; ++i) {
          slot->source.go_on(piece.first + i, given_->source[units_[before + i]]);
        }
        slot->source.go_on(piece.first + units,
                           done != all ? given_->source[units_[done]] : behind_);
      }
      if (done == all) {
        pass();
      }
      buffer_.copy(from, units, &link.memory, place, piece.first);
      run_.slots.end(piece, credits_until(done, group));
    }
    return told_.kept != 0 || pass_none();
  }
  // Passes the turn on where all was left out: the source goes on behind that. Returns false if
  // the run ends.
  bool pass_none() {
    const Room next = run_.openings.next();
    if (Same && next.unit != 0) {
      HostSlot* const slot = run_.slots.link().ring.await_free(next.ticket);
      if (!slot) {
        return false;
      }
      slot->source.go_on(next.unit, behind_);
    }
    pass();
    return true;
  }

  // Returns the credits of the groups from `group` on whose outputs end at `done` or before; moves
  // `group` behind them.
  std::uint64_t credits_until(std::size_t done, std::size_t& group) const noexcept {
    std::uint64_t credits = 0;
    for (; group != groups_.size() && groups_[group].end <= done; ++group) {
      credits += groups_[group].credits;
    }
    return credits;
  }
  // Gives back those of outputs that an earlier run has given; returns the first group behind.
  std::size_t give_back(std::size_t done) const noexcept {
    std::size_t group = 0;
    in_->use_up(credits_until(done, group));
    return group;
  }

  OutputRun& run_;
  OutputBuffer<S> buffer_;
  Vector<OutputRun::Section> sections_;
  Vector<Group> groups_; // while something bounds how far the Reader is ahead
  // The share at hand.
  OutputRun::Turn turn_{};
  const HostLink* in_{};
  const HostSlot* given_{};
  std::size_t place_{}; // of that slot
  Meter* meter_{};
  bool alone_{}, ended_{}, misused_{};
  bool opened_{};             // its room is taken, and it writes there
  std::uint64_t behind_{};    // the number in the source behind it
  Vector<std::size_t> units_; // of the slot, of which it has made something
  std::size_t bytes_{};       // handed on, with Ragged columns
  OutputRun::Told told_{};
  Room room_; // for its outputs
  Room rest_; // stays void behind them
  OutputSlots::SlotHeading share_{};
  Room::Piece piece_{}; // that it writes, if it is opened

  // The group at hand.
  typename OutputBuffer<S>::Mark before_{};
  std::size_t first_{}; // of its outputs, in the buffer
  std::size_t stated_{none};
};

} // namespace penstock::detail
