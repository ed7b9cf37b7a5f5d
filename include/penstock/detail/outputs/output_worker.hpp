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

#include <cstddef>
#include <cstdint>
#include <utility>

namespace penstock::detail {

/// Ends a callable in its middle because its run ends. No std::exception, so that the callable's
/// own handlers let it pass.
struct RunEnded {};

/// What one worker of a Decoder of another number of records makes of its share: it lies in a
/// buffer until the share's turn comes. Where the share is one call that states how much it gives,
/// its turn comes at once, and it writes straight into the slots.
template <class S> class OutputWorker final : public Outlet<S> {
 public:
  OutputWorker(OutputRun& run, const Layout& chunk) : run_{run}, buffer_{chunk} {}

  /// Begins a share, of the slot `given`, which lies in a place. `alone`: it is one call, and what
  /// that gives is kept, or the run ends.
  void begin(const OutputRun::Turn& turn, const HostLink& in, const HostSlot& given,
             std::size_t place, bool alone, Meter& meter) noexcept {
    turn_ = turn;
    in_ = &in;
    given_ = &given;
    place_ = place;
    alone_ = alone;
    meter_ = &meter;
    opened_ = ended_ = false;
    piece_ = {};
    sections_.clear();
    groups_.clear();
    misused_ = false;
    buffer_.clear(*this);
  }
  /// Says from which place in the order what comes next is made.
  void note(std::uint64_t place) { sections_.push_back({buffer_.size(*this), place}); }

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
  void check_group() const {
    if (misused_) {
      throw Error{"penstock: Decoder: its callable went on after an error of open() or add(): let "
                  "that error pass."};
    }
    if (!opened_) {
      buffer_.check_last(*this);
    }
    const std::size_t left = told_.room.units + (this->end - this->at);
    const std::size_t gave = opened_ ? stated_ - left : buffer_.size(*this) - first_;
    if (stated_ != none && gave != stated_) {
      throw_error<Error>({"penstock: Decoder: its callable stated ", stated_,
                          " records by open() and gave ", gave, ": state as many as it adds."});
    }
  }
  /// Notes that a group, of the slot's units from `first` to before `last`, has given what it
  /// gives.
  void end_group(std::size_t first, std::size_t last) {
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

  /// Waits for its turn, unless that was before, and hands on what it has. Returns false if the run
  /// ends. Throws Error if the values of a Ragged column do not fit.
  bool hand_on() {
    if (opened_) {
      end_piece();
    } else if (!await_turn() || !copy(take(outputs()))) {
      return false;
    }
    share_.number = told_.behind;
    const bool good = run_.slots.leave_void(told_.rest, share_, given_->ends_epoch);
    if constexpr (ragged) {
      run_.openings.pass(turn_.next);
    }
    return good;
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
      take(count);
      opened_ = true;
      this->at = this->end = 0;
    }
  }
  void next() override {
    if (ended_) {
      throw RunEnded{};
    }
    if (!opened_) {
      buffer_.next(*this);
      return;
    }
    if (told_.room.units == 0) {
      misused_ = true;
      throw_error<Error>({"penstock: Decoder: its callable stated ", stated_,
                          " records by open() and adds more: state as many as it adds."});
    }
    end_piece();
    meter_->pause(Activity::blocked);
    const Room::Piece piece = told_.room.next(run_.openings.size());
    const bool free = run_.slots.begin(piece, share_);
    meter_->spent(Activity::blocked, Activity::busy);
    if (!free) {
      end_run();
    }
    piece_ = piece;
    share_.number += piece.units;
    const HostLink& link = run_.slots.link();
    this->view =
        link.memory.template view<S>(piece.ticket % link.ring.slots(), link.layout().units, 0, 0);
    this->at = piece.first;
    this->end = piece.first + piece.units;
  }
  // Hands on the piece that it has filled, if there is one.
  void end_piece() noexcept {
    if (piece_.units != 0) {
      const bool last = told_.room.units == 0 && !groups_.empty();
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
  // In turn, takes room, and passes the turn on. With Ragged columns it keeps the turn: where its
  // values go is known when those before them are there.
  const OutputRun::Told& take(std::size_t outputs) noexcept {
    told_ = run_.take(outputs, sections_, turn_.last, given_->epoch, given_->ends_epoch,
                      in_->order->place_at_end(given_->epoch));
    share_ = {told_.number, told_.left_out, given_->epoch, in_->was_read(place_)};
    if constexpr (!ragged) {
      run_.openings.pass(turn_.next);
    }
    // At once: slots before it must go on, so that those behind it come free.
    run_.slots.leave_void(told_.before, share_, true);
    return told_;
  }
  // Copies the buffer to where it goes. Returns false if the run ends.
  bool copy(const OutputRun::Told& told) {
    typename OutputBuffer<S>::Cursor from;
    buffer_.seal(*this);
    buffer_.copy(from, told.dropped, nullptr, 0, 0);
    std::size_t done = told.dropped;
    std::size_t group = 0;
    for (; group != groups_.size() && groups_[group].end <= done; ++group) {
      in_->use_up(groups_[group].credits);
    }
    const HostLink& link = run_.slots.link();
    return run_.slots.fill(
        told.room, share_,
        [&](const Room::Piece& piece) {
          const auto units = piece.units;
          buffer_.copy(from, units, &link.memory, piece.ticket % link.ring.slots(), piece.first);
          done += units;
        },
        [&](const Room::Piece&) {
          std::uint64_t credits = 0;
          for (; group != groups_.size() && groups_[group].end <= done; ++group) {
            credits += groups_[group].credits;
          }
          return credits;
        });
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
  bool opened_{}; // its room is taken, and it writes there
  OutputRun::Told told_{};
  OutputSlots::SlotHeading share_{};
  Room::Piece piece_{}; // that it writes, if it is opened

  // The group at hand.
  typename OutputBuffer<S>::Mark before_{};
  std::size_t first_{}; // of its outputs, in the buffer
  std::size_t stated_{none};
};

} // namespace penstock::detail
