// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/config.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/detail/engine/run_control.hpp>
#include <penstock/detail/links/host_link.hpp>
#include <penstock/detail/turns/flush.hpp>
#include <penstock/detail/turns/openings.hpp>
#include <penstock/detail/turns/ramp.hpp>
#include <penstock/order/detail/origins.hpp>
#include <penstock/order/detail/run_order.hpp>
#include <penstock/ring/ring.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace penstock::detail {

/// The slots of a link that several workers fill with outputs, in any number of each share: what is
/// known of each slot while it fills, and who publishes it.
class OutputSlots {
 public:
  /// What a share brings to the slots that it fills.
  struct SlotHeading {
    std::uint64_t number;   // of its next output
    std::uint64_t turn;     // the same, or, of a Decoder that gives one for one, its source's
    std::uint64_t left_out; // outputs before it, in slots that go on empty
    std::uint64_t epoch;
    Flush::Clock::time_point read; // when what it is made of was read
  };

  /// `drop_last`: an epoch's last slot is left out if it is short.
  [[gnu::cold]] OutputSlots(Shared<HostLink> link, const Ramp& size, bool drop_last);

  HostLink& link() const noexcept { return *link_; }
  /// Forgets the last run; the first output to be delivered is number `first`.
  [[gnu::cold]] void reset(std::uint64_t first) noexcept;

  /// Blocks until the slot of a piece is free to be filled. Returns false if the run ends.
  bool begin(const Room::Piece& piece, const SlotHeading& share) noexcept;
  /// Says that the piece is filled, with the last output of what `credits` were taken for.
  void end(const Room::Piece& piece, std::uint64_t credits) noexcept;
  /// Fills room with f(piece), and says the number of each piece's credits by credits(piece); false
  /// if the run ends. What f throws, it throws.
  template <class F, class Credits>
  bool fill(const Room& room, SlotHeading& share, F f, Credits credits) {
    return fillings_.fill(
        link_->ring, room,
        [&](HostSlot& slot, const Room::Piece& piece) {
          note(slot, piece, share);
          f(piece);
          add(piece.ticket, credits(piece));
          share.turn = share.number += piece.units;
        },
        [this](std::uint64_t ticket) { publish(ticket); });
  }
  /// Leaves room void, behind the last output of its slot. Returns false if the run ends.
  bool leave_void(const Room& room, const SlotHeading& share, bool ends_epoch) noexcept;

 private:
  // Written by different workers, each another member; the last reads all.
  struct alignas(cache_line) Known {
    std::uint64_t number{}; // of its first output
    std::uint64_t left_out{};
    std::uint64_t epoch{};
    Flush::Clock::time_point read{};
    std::size_t void_units{};
    bool ends_epoch{};
    StdAtomics::Atomic<std::uint64_t> credits{0};

    void forget() noexcept;
  };

  Known& known(std::uint64_t ticket) noexcept { return known_[ticket % known_.size()]; }
  void note(HostSlot& slot, const Room::Piece& piece, const SlotHeading& share) noexcept;
  void add(std::uint64_t ticket, std::uint64_t credits) noexcept;
  void publish(std::uint64_t ticket) noexcept;

  const Shared<HostLink> link_;
  const Ramp size_;
  const bool drop_last_;
  std::uint64_t first_{};
  Fillings<> fillings_;
  Vector<Known> known_; // by place
};

/// How a Decoder of another number of records is to work.
struct OutputForm {
  std::size_t group{1}; // turns of the order that a call gets
  Ramp size{1};         // of a slot of its ring
  bool cuts{};          // nothing given may wait: a slot ends with that which it is made of
  bool drop_last{};     // an epoch's last slot is left out if it is short
  bool has_positions{}; // a run may go on from what the last stage has used up
};

/// Tells a run's order where outputs come from.
class LoggedOutputs final : public OutputOrigins {
 public:
  [[gnu::cold]] void reset(std::uint64_t dropped) noexcept override { log.reset(dropped); }
  [[gnu::cold]] PENSTOCK_INLINE MadeFrom origin(std::uint64_t outputs) const noexcept override;

  OutputLog<> log;
};

/// What the workers of a Decoder of another number of records share: in turn each learns where the
/// outputs of its share go.
class OutputRun {
 public:
  /// A place in the run's order, noted before the output of this number in its share.
  struct Section {
    std::size_t before;
    std::uint64_t place;
  };
  /// What a share is told in its turn.
  struct Told {
    std::size_t dropped;    // of its first outputs: an earlier run has given them
    std::uint64_t kept;     // the others, which room is to be opened for
    Room before;            // stays void: it ends the epoch before
    std::uint64_t number;   // of the first output that is not dropped
    std::uint64_t behind;   // number of the next share's first
    std::uint64_t left_out; // outputs before, of epochs' last slots
  };
  /// Number and next number of a share, and whether it is the last of its slot.
  struct Turn {
    std::uint64_t number, next;
    bool last;
  };

  [[gnu::cold]] OutputRun(const Shared<HostLink>& in, const Shared<HostLink>& out,
                          const OutputForm& form, std::size_t workers);

  [[gnu::cold]] void reset();

  /// Whether an earlier run has given some of the next outputs. In turn.
  bool drops() const noexcept { return made_ < dropped_; }
  /// In turn, counts the outputs of a share. `ends_epoch`: its slot does.
  Told take(std::size_t outputs, const Vector<Section>& from, bool last, std::uint64_t epoch,
            bool ends_epoch, std::uint64_t behind) noexcept;
  /// In turn, when room is opened for them, returns the room that stays void behind them. Throws
  /// Error if the share is the last of a slot of `units` that must not be left out.
  Room finish(bool last, std::size_t units, bool ends_epoch);
  /// Ends the ring, when no worker has or will have a share any more.
  void end() noexcept;

  OutputSlots slots;
  Openings<> openings;

 private:
  // In turn: see Openings::close().
  Room close(bool empty, bool ends_epoch) noexcept;

  const OutputForm form_;
  const Shared<RunOrder> order_;
  LoggedOutputs* outputs_{};
  std::uint64_t dropped_{}; // of the run's first outputs
  // Only the worker whose turn it is touches these.
  std::uint64_t epoch_{};    // of the last share
  std::uint64_t made_{};     // outputs so far
  std::uint64_t of_slot_{};  // of them, made of the slot at hand
  std::uint64_t left_out_{}; // of them, in epochs' last slots
};

#if PENSTOCK_BODIES
PENSTOCK_INLINE OutputSlots::OutputSlots(Shared<HostLink> link, const Ramp& size, bool drop_last)
    : link_{std::move(link)}, size_{size}, drop_last_{drop_last},
      fillings_{link_->ring.slots(), size}, known_(link_->ring.slots()) {}

PENSTOCK_INLINE void OutputSlots::reset(std::uint64_t first) noexcept {
  first_ = first;
  fillings_.reset();
  for (std::size_t i = 0; i != known_.size(); ++i) {
    known_[i].forget();
  }
}

PENSTOCK_INLINE bool OutputSlots::begin(const Room::Piece& piece,
                                        const SlotHeading& share) noexcept {
  HostSlot* const slot = link_->ring.await_free(piece.ticket);
  if (slot) {
    note(*slot, piece, share);
  }
  return slot;
}

PENSTOCK_INLINE void OutputSlots::end(const Room::Piece& piece, std::uint64_t credits) noexcept {
  add(piece.ticket, credits);
  if (fillings_.filled(piece)) {
    publish(piece.ticket);
  }
}

PENSTOCK_INLINE bool OutputSlots::leave_void(const Room& room, const SlotHeading& share,
                                             bool ends_epoch) noexcept {
  return fillings_.fill(
      link_->ring, room,
      [&](HostSlot& slot, const Room::Piece& piece) {
        note(slot, piece, share);
        known(piece.ticket).void_units = piece.units;
        known(piece.ticket).ends_epoch = ends_epoch;
      },
      [this](std::uint64_t ticket) { publish(ticket); });
}

PENSTOCK_INLINE void OutputSlots::Known::forget() noexcept {
  void_units = 0;
  ends_epoch = false;
  credits.store(0, StdAtomics::relaxed);
}

PENSTOCK_INLINE void OutputSlots::note(HostSlot& to, const Room::Piece& piece,
                                       const SlotHeading& share) noexcept {
  if (piece.first == 0) {
    to.source.start(share.turn);
    Known& slot = known(piece.ticket);
    slot.number = share.number;
    slot.left_out = share.left_out;
    slot.epoch = share.epoch;
    slot.read = share.read;
  }
}

PENSTOCK_INLINE void OutputSlots::add(std::uint64_t ticket, std::uint64_t credits) noexcept {
  if (credits != 0) { // relaxed: handed on with the piece
    known(ticket).credits.fetch_add(credits, StdAtomics::relaxed);
  }
}

PENSTOCK_INLINE void OutputSlots::publish(std::uint64_t ticket) noexcept {
  HostRing::Claim claim = link_->ring.claim_at(ticket);
  if (!claim) {
    return;
  }
  Known& known = this->known(ticket);
  HostSlot& slot = claim.slot();
  const bool dropped = drop_last_ && known.ends_epoch && known.void_units != 0;
  slot.index = known.number - known.left_out - first_;
  slot.epoch = known.epoch;
  slot.units = dropped ? 0 : size_.size(ticket) - known.void_units;
  slot.ends_epoch = known.ends_epoch;
  const std::uint64_t credits = known.credits.load(StdAtomics::relaxed);
  if (Dues* const dues = link_->dues(claim.place())) {
    *dues = {slot.units != 0 ? credits : 0, known.read};
  }
  if (slot.units == 0) {
    link_->use_up(credits);
  }
  known.forget();
  link_->publish(std::move(claim));
}

PENSTOCK_INLINE MadeFrom LoggedOutputs::origin(std::uint64_t outputs) const noexcept {
  return log.origin(outputs);
}

PENSTOCK_INLINE OutputRun::OutputRun(const Shared<HostLink>& in, const Shared<HostLink>& out,
                                     const OutputForm& form, std::size_t workers)
    : slots{out, form.size, form.drop_last}, openings{form.size, workers}, form_{form},
      order_{in->order} {
  if (form.has_positions) {
    auto outputs = new_shared<LoggedOutputs>();
    outputs_ = outputs.get();
    order_->recount(form.group, std::move(outputs));
  }
}

PENSTOCK_INLINE void OutputRun::reset() {
  dropped_ = outputs_ ? order_->dropped() : 0;
  made_ = of_slot_ = left_out_ = 0;
  epoch_ = order_->first_epoch();
  slots.reset(dropped_);
  openings.reset();
}

PENSTOCK_INLINE OutputRun::Told OutputRun::take(std::size_t outputs, const Vector<Section>& from,
                                                bool last, std::uint64_t epoch, bool ends_epoch,
                                                std::uint64_t behind) noexcept {
  Told told{};
  // Where batches were handed on when they were full, no slot may have ended the epoch before.
  if (epoch != std::exchange(epoch_, epoch)) {
    told.before = close(false, true);
  }
  const std::uint64_t first = made_;
  made_ += outputs;
  told.dropped = std::min<std::uint64_t>(outputs, first < dropped_ ? dropped_ - first : 0);
  told.kept = outputs - told.dropped;
  told.number = first + told.dropped;
  told.behind = made_;
  told.left_out = left_out_;
  for (std::size_t i = 0; outputs_ && i != from.size(); ++i) {
    outputs_->log.note(first + from[i].before, from[i].place);
  }
  if (last && ends_epoch && outputs_ && behind != RunOrder::unknown) {
    outputs_->log.note(made_, behind);
  }
  of_slot_ += outputs;
  return told;
}

PENSTOCK_INLINE Room OutputRun::finish(bool last, std::size_t units, bool ends_epoch) {
  if (last) {
    slots.link().check_left(std::exchange(of_slot_, 0), units);
  }
  return last && (ends_epoch || form_.cuts) ? close(ends_epoch, ends_epoch) : Room{};
}

PENSTOCK_INLINE void OutputRun::end() noexcept {
  const Room rest = openings.close(false);
  slots.link().ring.end_at(openings.end());
  slots.leave_void(rest, {made_, made_, left_out_, 0, {}}, false);
}

PENSTOCK_INLINE Room OutputRun::close(bool empty, bool ends_epoch) noexcept {
  const Room rest = openings.close(empty);
  if (form_.drop_last && ends_epoch && rest.units != 0) {
    left_out_ += openings.size().size(rest.ticket) - rest.units;
  }
  return rest;
}
#endif

} // namespace penstock::detail
