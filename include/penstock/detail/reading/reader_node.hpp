// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/detail/engine/node.hpp>
#include <penstock/detail/engine/sizes.hpp>
#include <penstock/detail/links/host_link.hpp>
#include <penstock/detail/links/ring_memory.hpp>
#include <penstock/detail/reading/ranges.hpp>
#include <penstock/detail/reading/slot_source.hpp>
#include <penstock/order/position.hpp>
#include <penstock/run/options.hpp>
#include <penstock/run/report.hpp>
#include <penstock/sources/detail/optional_members.hpp>
#include <penstock/sources/source.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <sys/prctl.h>

namespace penstock::detail {

/// What the nodes of a Reader have in common: a source, and what the Report says of it.
class ReadingNode : public Node {
 public:
  [[gnu::cold]] ReadingNode(const NodeSetup& setup, const Shared<HostLink>& out,
                            Owned<SlotSource> source, const OnError& on_error);

  bool reads() const noexcept final { return true; }
  [[gnu::cold]] PENSTOCK_INLINE void report(double seconds, StageReport& stage) const final;

 protected:
  /// To be called before each run.
  [[gnu::cold]] void note_begin() noexcept;

  const Owned<SlotSource> source_;
  const OnError on_error_;
  const Shared<HostLink> out_;
  std::string note_;

 private:
  bool shuffles() const noexcept { return static_cast<bool>(out_->order->order().shuffle); }

  bool begun_anew_{}; // a run has begun at the beginning
  bool repeats_{};    // and this one did, too, in the same order
};

/// Fills the slots of its ring from a source, several at once, each with its own range.
class ReaderNode : public ReadingNode {
 public:
  /// Reads the slots that `ranges` says, or, unless it is null, those that `dealt` deals out, and
  /// hands a slot on when `flush` says: there is then one worker, if the source gives for now.
  [[gnu::cold]] ReaderNode(const NodeSetup& setup, const Shared<HostLink>& out,
                           Owned<SlotSource> source, const SlotRanges& ranges,
                           Owned<RangeDealer> dealt, const Flush& flush, const OnError& on_error);

 protected:
  /// Fills a slot, whose records need not be neighbours in the source. No node of another order
  /// than the source's is a ReaderNode alone: see OrderedReaderNode.
  virtual void read_ordered(std::size_t /*place*/, HostSlot& /*slot*/, Filled& /*got*/,
                            unsigned /*attempt*/, Meter& /*meter*/) {}
  /// Does so with each record as an item: its neighbours have nothing to do with it.
  virtual Item read_singly(std::size_t /*place*/, HostSlot& /*slot*/, Filled& /*got*/,
                           Meter& /*meter*/);
  // Returns what says which record of the source a unit is of.
  auto record_of(std::uint64_t epoch, std::uint64_t unit) const noexcept {
    return [=, this] { return out_->order->visit(epoch, out_->layout().in_records(unit)).record; };
  }
  void note_read(std::size_t place, Filled& got, std::size_t count) const noexcept;

  const bool ragged_;

 private:
  [[gnu::cold]] PENSTOCK_INLINE void reset() override;

  PENSTOCK_INLINE void work(unsigned /*worker*/, Meter& meter) override;

  [[gnu::cold]] void end_at(std::uint64_t ticket) noexcept;
  // Fills a slot, from record got.count on, and counts there: what came in order, and perhaps for
  // now, cannot be asked for again by another attempt.
  void read(std::size_t place, HostSlot& slot, Filled& got, unsigned attempt, Meter& meter);
  // Returns when to look whether the records that a slot has so far are due.
  Flush::Clock::time_point due(std::size_t place, const Filled& got) const noexcept;

  const bool starts_anew_; // an attempt may ask for all of a slot again
  SlotRanges ranges_;
  const Owned<RangeDealer> dealt_; // null if a slot's number says what it holds
  const Flush flush_;
};

#if PENSTOCK_BODIES
PENSTOCK_INLINE ReadingNode::ReadingNode(const NodeSetup& setup, const Shared<HostLink>& out,
                                         Owned<SlotSource> source, const OnError& on_error)
    : Node{setup}, source_{std::move(source)}, on_error_{on_error}, out_{out} {
  fills(out_->memory, out_->ring.slots());
  is_of_source(true);
}

PENSTOCK_INLINE void ReadingNode::report(double seconds, StageReport& stage) const {
  Node::report(seconds, stage);
  constexpr std::string_view again =
      "began with epoch 0 again: the order, and what a seed and a visit make random, are those "
      "of a run before; for others give the Reader .epochs = n, and take them by one epochs(), "
      "or begin each run with .epoch, its number";
  stage.note = note_;
  add_note_of(*source_, stage.note);
  try {
    if (shuffles()) {
      stage.note.reserve(stage.note.size() + again.size() + 2); // here, and not in a later run
    }
    if (repeats_) {
      add_note(stage.note, again);
    }
  } catch (const std::bad_alloc&) { // no Report is lost for a note
  }
}

PENSTOCK_INLINE void ReadingNode::note_begin() noexcept {
  const Position from = out_->order->position(0);
  const bool anew = from.epoch() == 0 && from.step() == 0 && from.inside() == 0;
  repeats_ = shuffles() && anew && begun_anew_;
  begun_anew_ = begun_anew_ || anew;
}

PENSTOCK_INLINE ReaderNode::ReaderNode(const NodeSetup& setup, const Shared<HostLink>& out,
                                       Owned<SlotSource> source, const SlotRanges& ranges,
                                       Owned<RangeDealer> dealt, const Flush& flush,
                                       const OnError& on_error)
    : ReadingNode{setup, out, std::move(source), on_error}, ragged_{out_->layout().ragged()},
      starts_anew_{!source_->abilities().for_now && !source_->in_order()}, ranges_{ranges},
      dealt_{std::move(dealt)}, flush_{flush} {
  if (dealt_) {
    dealt_->be_watched(setup.control);
  }
  if (out_->layout().units == 1 && out_->layout().bytes() > usual_read) {
    note_ = joined({"a record of ", out_->layout().bytes(), " bytes is a slot"});
  }
}

PENSTOCK_INLINE Node::Item ReaderNode::read_singly(std::size_t, HostSlot&, Filled&, Meter&) {
  return Item::failed;
}

PENSTOCK_INLINE void ReaderNode::note_read(std::size_t place, Filled& got,
                                           std::size_t count) const noexcept {
  Dues* const dues = flush_ && got.count == 0 ? out_->dues(place) : nullptr;
  if (dues) {
    dues->read = Flush::Clock::now();
  }
  got.count += count;
}

PENSTOCK_INLINE void ReaderNode::reset() {
  note_begin();
  out_->reset();
  ranges_.begin(*out_->order, out_->layout().units_a_record);
  if (dealt_) {
    dealt_->reset(ranges_);
  } else if (ranges_.known()) {
    out_->ring.end_at(ranges_.slots());
  }
}

PENSTOCK_INLINE void ReaderNode::work(unsigned, Meter& meter) {
  HostRing& ring = out_->ring;
  const Layout& layout = out_->layout();
  if (flush_) { // it sleeps for some 10 us at a time: see DeviceThread
    prctl(PR_SET_TIMERSLACK, 1UL);
  }
  for (;;) {
    HostRing::Claim claim = ring.try_claim();
    const bool at_once = claim && !dealt_;
    if (!claim && !(claim = ring.claim())) {
      meter.spent(Activity::blocked, Activity::busy);
      return;
    }
    HostSlot& slot = claim.slot();
    slot.units = 0;
    const SlotRanges::Range range =
        dealt_ ? dealt_->next(claim.ticket(), ring) : ranges_.of(claim.ticket());
    meter.goes_on(at_once, Activity::blocked, Activity::busy);
    const std::uint64_t first = range.first;
    const std::size_t wanted = range.units;
    if (wanted == 0) {
      return;
    }
    slot.begin(ranges_.index(range), first, range.epoch, wanted);
    Filled got = 0;
    const bool singly = on_error_.skips != 0 && !out_->order->plain();
    const Item item =
        singly ? read_singly(claim.place(), slot, got, meter)
               : attempt_item(on_error_, meter, record_of(slot.epoch, first),
                              layout.whole_records(first, wanted), [&](unsigned attempt) {
                                const TraceRange shown = trace(layout.in_records(slot.index));
                                read(claim.place(), slot, got, attempt, meter);
                              });
    if (item == Item::failed) {
      slot.units = 0; // the slot goes on, empty, to a thread that did not see the ring fail
      return;
    }
    meter.spent(Activity::busy, Activity::blocked);
    const bool ends = item == Item::good && got.count < wanted && !got.for_now && !singly;
    const bool cut = item == Item::good && got.count < wanted && got.for_now;
    slot.units = item == Item::good ? got.count : 0;
    slot.ends_epoch = ends || (!cut && first + wanted == ranges_.end_of(range.epoch));
    out_->book(claim.place(), slot, meter);
    slot.units = ranges_.kept(slot.units, slot.ends_epoch);
    if (Dues* const dues = out_->dues(claim.place())) {
      dues->credits = slot.units;
    }
    if (dealt_) {
      dealt_->give_back(wanted - slot.units);
      if (cut && workers() == 1) { // of several, the run ends
        dealt_->cut(range, slot.units);
      }
    }
    if (ends) {
      end_at(claim.ticket() + 1);
    }
    out_->publish(std::move(claim));
  }
}

PENSTOCK_INLINE void ReaderNode::end_at(std::uint64_t ticket) noexcept {
  if (dealt_) {
    dealt_->end_at(ticket, out_->ring);
  } else {
    out_->ring.end_at(ticket);
  }
}

PENSTOCK_INLINE void ReaderNode::read(std::size_t place, HostSlot& slot, Filled& got,
                                      unsigned attempt, Meter& meter) {
  if (!out_->order->plain()) {
    return read_ordered(place, slot, got, attempt, meter);
  }
  const std::uint64_t first = slot.source[0];
  const std::size_t wanted = slot.units;
  if (out_->layout().in_pieces()) {
    source_->read_bytes(first, std::span{out_->memory.data(place), wanted});
    return note_read(place, got, wanted);
  }
  if (starts_anew_) {
    got = 0;
  }
  if (ragged_) {
    open_ragged(out_->memory, place, wanted, got.count);
  }
  do {
    const std::uint64_t next = first + got.count;
    const Filled filled = source_->fill(
        {out_->memory, place, got.count, wanted - got.count, next, out_->shown(slot, got.count)},
        Patience{control().interrupt(), meter, slot.epoch, attempt, due(place, got)});
    check_count(filled.count, wanted - got.count, next, false);
    if (ragged_) {
      check_ragged(out_->memory, place, got.count + filled.count, first);
    }
    note_read(place, got, filled.count);
    got.for_now = filled.for_now;
  } while (
      got.for_now && got.count < wanted && !control().interrupt().raised() &&
      !(got.count != 0 && flush_.is_due(
                              out_->was_read(place),
                              [this] { return out_->is_idle(out_->ring.was_claimed() - 1); })));
  // What was told to return gave what it had; the rings are closed, and it counts as dropped.
  if (!got.for_now && !control().interrupt().raised()) {
    check_count(got.count, wanted, first, ranges_.known());
  }
}

PENSTOCK_INLINE Flush::Clock::time_point ReaderNode::due(std::size_t place,
                                                         const Filled& got) const noexcept {
  return got.count == 0 ? Flush::Clock::time_point::max()
                        : flush_.look_again(out_->was_read(place));
}
#endif

} // namespace penstock::detail
