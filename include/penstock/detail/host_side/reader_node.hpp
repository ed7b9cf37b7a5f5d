// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/owned.hpp>
#include <penstock/detail/base/throwing.hpp>
#include <penstock/detail/engine/node.hpp>
#include <penstock/detail/engine/sizes.hpp>
#include <penstock/detail/host_side/dealt_ranges.hpp>
#include <penstock/detail/host_side/slot_ranges.hpp>
#include <penstock/detail/links/host_link.hpp>
#include <penstock/detail/links/ragged.hpp>
#include <penstock/sources/source.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

namespace penstock::detail {

/// Fills the slots of its ring from a source, several at once, each with its own range.
template <Source From, class Where> class ReaderNode final : public Node {
  using T = typename From::schema;

 public:
  /// Reads the slots that `ranges` says, or, unless it is null, those that `dealt` deals out.
  [[gnu::cold]] ReaderNode(const NodeSetup& setup, const std::shared_ptr<HostLink>& out,
                           From source, const SlotRanges& ranges, Owned<DealtRanges> dealt,
                           const OnError& on_error)
      : Node{setup}, source_{std::move(source)}, on_error_{on_error}, ranges_{ranges},
        dealt_{std::move(dealt)}, out_{out} {
    const Layout& layout = out_->layout();
    if (layout.units == 1 && layout.bytes() > usual_read) {
      note_ = joined({"a record of ", layout.bytes(), " bytes is a slot"});
    }
  }

  bool reads() const noexcept override { return true; }
  [[gnu::cold]] void report(double seconds, StageReport& stage) const override {
    Node::report(seconds, stage);
    stage.depth = out_->ring.slots();
    stage.note = note_;
  }

 private:
  [[gnu::cold]] void reset() override {
    out_->reset();
    if (dealt_) {
      dealt_->reset(out_->ring);
    } else if (ranges_.known()) {
      out_->ring.end_at(ranges_.slots());
    }
  }

  void work(unsigned /*worker*/, Meter& meter) override {
    HostRing& ring = out_->ring;
    const Layout& layout = out_->layout();
    for (;;) {
      HostRing::Claim claim = ring.claim();
      if (!claim) {
        meter.spent(Activity::blocked, Activity::busy);
        return;
      }
      HostSlot& slot = claim.slot();
      slot.units = 0;
      const SlotRanges::Range range =
          dealt_ ? dealt_->next(claim.ticket(), ring) : ranges_.of(claim.ticket());
      meter.spent(Activity::blocked, Activity::busy);
      const std::uint64_t first = range.first;
      const std::size_t wanted = range.units;
      if (wanted == 0) {
        return;
      }
      slot.index = ranges_.index(range);
      slot.source.start(first);
      slot.epoch = range.epoch;
      slot.units = wanted;
      std::size_t got = 0;
      const Item item =
          attempt_item(on_error_, meter, layout.in_records(first),
                       layout.whole_records(first, wanted), [&](unsigned attempt) {
                         const TraceRange shown = trace(layout.in_records(slot.index));
                         read(claim.place(), slot, got,
                              Patience{control().interrupt(), meter, range.epoch, attempt});
                       });
      // A source that was told to return had no time to fill the slot.
      if (item == Item::failed || (got < wanted && control().interrupt().raised())) {
        slot.units = 0; // the slot goes on, empty, to a thread that did not see the ring fail
        return;
      }
      meter.spent(Activity::busy, Activity::blocked);
      const bool ends = item == Item::good && got < wanted;
      slot.ends_epoch = ends || first + wanted == ranges_.units();
      slot.units = item == Item::good ? got : 0;
      slot.bytes = slot.units != 0 ? out_->memory.used(claim.place(), slot.units) : 0;
      slot.credits = slot.units;
      meter.did(layout.whole_records(first, slot.units), slot.bytes);
      meter.found_in_use(ring.was_in_use());
      if (dealt_) {
        dealt_->give_back(wanted - slot.units);
      }
      if (ends) {
        end(claim.ticket());
      }
      const Fill fill = slot.units == 0                                ? Fill::none
                        : slot.ends_epoch || slot.units < layout.units ? Fill::partial
                                                                       : Fill::full;
      out_->publish(std::move(claim), fill);
    }
  }

  void end(std::uint64_t ticket) noexcept {
    if (dealt_) {
      dealt_->end(ticket, out_->ring);
    } else {
      out_->ring.end_at(ticket + 1);
    }
  }
  // Fills a slot, from record `got` on, and counts there: what came in order cannot be asked for
  // again by another attempt.
  void read(std::size_t place, const HostSlot& slot, std::size_t& got, const Patience& patience) {
    const std::uint64_t first = slot.source[0];
    const std::size_t wanted = slot.units;
    if constexpr (ReadsBytes<From>) {
      if (out_->layout().in_pieces()) {
        source_.read_bytes(first, std::span{out_->memory.data(place), wanted});
        got = wanted;
        return;
      }
    }
    open_ragged(out_->memory, place, wanted, got);
    Filled filled = for_now(0);
    do {
      const std::uint64_t next = first + got;
      filled = read_some(source_,
                         got == 0 ? out_->batch<T, Where>(place, slot, next)
                                  : out_->part<T, Where>(place, slot, next, got, wanted - got),
                         patience);
      check_count(filled.count, wanted - got, next, false);
      check_ragged(out_->memory, place, got + filled.count, first);
      got += filled.count;
    } while (filled.for_now && got < wanted && !patience.stop_requested());
    if (!patience.stop_requested()) {
      check_count(got, wanted, first, ranges_.known());
    }
  }

  From source_;
  const OnError on_error_;
  const SlotRanges ranges_;
  const Owned<DealtRanges> dealt_; // null if a slot's number says what it holds
  std::string note_;
  const std::shared_ptr<HostLink> out_;
};

} // namespace penstock::detail
