// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/detail/links/host_link.hpp>
#include <penstock/detail/links/ring_memory.hpp>
#include <penstock/detail/reading/ranges.hpp>
#include <penstock/detail/reading/reader_node.hpp>
#include <penstock/detail/reading/slot_source.hpp>
#include <penstock/detail/workers/part_by_part.hpp>
#include <penstock/sources/source.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace penstock::detail {

/// Fills the slots of its ring from a source of known size, with Ragged columns, that knows the
/// lengths of its records before it reads them: several workers then fill one slot, each a part.
class SharedReaderNode final : public ReadingNode {
 public:
  /// Reads the slots that `ranges` says.
  [[gnu::cold]] SharedReaderNode(const NodeSetup& setup, const Shared<HostLink>& out,
                                 Owned<SlotSource> source, const SlotRanges& ranges,
                                 const OnError& on_error);

 private:
  // A worker's own memory: lengths of the slot's records up to the part's end, and the offsets of
  // the part's, a run of them for each Ragged column.
  struct Desk {
    Vector<std::uint64_t> lengths;
    Vector<std::int64_t> offsets;
    Vector<OwnOffsets> columns;
  };

  [[gnu::cold]] PENSTOCK_INLINE void reset() override;

  PENSTOCK_INLINE void work(unsigned worker, Meter& meter) override;

  // Returns false if the run is to end.
  bool read(Desk& desk, const PartRange& share, const SlotRanges::Range& range, PartOf units,
            Meter& meter);

  // Empties a worker's own offsets for a part: two workers would write the offset where their parts
  // meet.
  void open_desk(Desk& desk, PartOf units);

  // Writes the part's offsets into the slot's, but for that of its first record: that one the part
  // before it writes.
  void keep_offsets(Desk& desk, std::size_t place, std::uint64_t first, PartOf units);

  // By the last worker of a slot: throws if lengths() told two workers different things. Each share
  // must begin where the one before it ends.
  void check_seams(std::uint64_t ticket, const SlotRanges::Range& range);
  // Where the values of a part that begins a share begin, for each Ragged column.
  std::uint64_t* seams_of(std::uint64_t ticket, std::size_t part) noexcept;
  std::int64_t* offsets_on(Desk& desk, std::size_t column) noexcept;
  // No length that a source claims wraps it.
  std::uint64_t sum_of(const Desk& desk, std::size_t column, std::size_t from,
                       std::size_t to) const noexcept;

  SlotRanges ranges_;
  Parts<> parts_;
  Vector<Desk> desks_;          // by worker
  Vector<std::uint64_t> seams_; // by place, part and column
  std::size_t columns_{};       // Ragged ones
};

#if PENSTOCK_BODIES
PENSTOCK_INLINE
SharedReaderNode::SharedReaderNode(const NodeSetup& setup, const Shared<HostLink>& out,
                                   Owned<SlotSource> source, const SlotRanges& ranges,
                                   const OnError& on_error)
    : ReadingNode{setup, out, std::move(source), on_error}, ranges_{ranges},
      parts_{out->ring.slots(), parts_a_slot(workers(), out->layout().units, out->ring.slots())},
      desks_(workers()) {
  const Vector<Array>& arrays = out_->layout().parts;
  for (std::size_t i = 0; i != arrays.size(); ++i) {
    columns_ += arrays[i].kind == Array::offsets ? 1U : 0U;
  }
  seams_ = Vector<std::uint64_t>(out_->ring.slots() * parts_.parts() * columns_, 0);
  for (Desk& desk : desks_) {
    desk.lengths = Vector<std::uint64_t>(columns_ * out_->layout().units, 0);
    desk.offsets = Vector<std::int64_t>(columns_ * (out_->layout().units + 1), 0);
    desk.columns = Vector<OwnOffsets>(columns_, {});
  }
}

PENSTOCK_INLINE void SharedReaderNode::reset() {
  note_begin();
  out_->reset();
  parts_.reset();
  ranges_.begin(*out_->order, 1);
  out_->ring.end_at(ranges_.slots());
}

PENSTOCK_INLINE void SharedReaderNode::work(unsigned worker, Meter& meter) {
  Draws draws{parts_};
  for (;;) {
    const PartRange share = draws.next();
    HostSlot* const slot = out_->ring.await_free(share.ticket);
    meter.spent(Activity::blocked, Activity::busy);
    if (!slot) {
      return;
    }
    const SlotRanges::Range range = ranges_.of(share.ticket);
    const PartOf units{range.units, parts_.parts(), share};
    for (std::size_t part = share.first; part != share.end; ++part) {
      std::fill_n(seams_of(share.ticket, part), columns_, unknown_size);
    }
    if (units.size() != 0 && !read(desks_[worker], share, range, units, meter)) {
      return;
    }
    draws.took(share, range.units, meter.spent(Activity::busy, Activity::blocked));
    if (parts_.finish(share)) {
      slot->begin(ranges_.index(range), range.first, range.epoch, range.units);
      slot->ends_epoch = range.first + range.units == ranges_.end_of(range.epoch);
      if (!attempt(range.first, [&] { check_seams(share.ticket, range); })) {
        return;
      }
      HostRing::Claim claim = out_->ring.claim_at(share.ticket);
      if (!claim) {
        return;
      }
      out_->book(claim.place(), *slot, meter);
      slot->units = ranges_.kept(range.units, slot->ends_epoch);
      out_->publish(std::move(claim));
    }
  }
}

PENSTOCK_INLINE bool SharedReaderNode::read(Desk& desk, const PartRange& share,
                                            const SlotRanges::Range& range, PartOf units,
                                            Meter& meter) {
  const std::uint64_t first = range.first + units.begin;
  bool ends = false;
  const Item item = attempt_item(on_error_, meter, first, units.size(), [&](unsigned attempt) {
    const TraceRange shown = trace(ranges_.index(range) + units.begin);
    const std::size_t place = share.ticket % out_->ring.slots();
    const Patience patience{control().interrupt(), meter, range.epoch, attempt};
    std::fill_n(desk.lengths.data(), columns_ * units.end, 0);
    source_->lengths(range.first, std::span{desk.lengths.data(), columns_ * units.end});
    open_desk(desk, units);
    const SlotPart part{out_->memory, place, units.begin, units.size(), first, first};
    const std::size_t got =
        source_->fill_beside(part, {desk.columns.data(), columns_}, patience).count;
    ends = got < units.size() && patience.stop_requested(); // it was told to return
    if (!ends) {
      check_count(got, units.size(), first, true);
      keep_offsets(desk, place, first, units);
      for (std::size_t column = 0; column != columns_; ++column) {
        seams_of(share.ticket, share.first)[column] = sum_of(desk, column, 0, units.begin);
      }
    }
  });
  return item == Item::good && !ends;
}

PENSTOCK_INLINE void SharedReaderNode::open_desk(Desk& desk, PartOf units) {
  for (std::size_t column = 0; column != columns_; ++column) {
    std::int64_t* const offsets = offsets_on(desk, column);
    offsets[0] = 0;
    std::fill_n(offsets + 1, units.size(), std::int64_t{-1});
    desk.columns[column] = {offsets, sum_of(desk, column, 0, units.begin),
                            sum_of(desk, column, units.begin, units.end)};
  }
}

PENSTOCK_INLINE void SharedReaderNode::keep_offsets(Desk& desk, std::size_t place,
                                                    std::uint64_t first, PartOf units) {
  std::size_t column = 0;
  for (std::size_t at = 0; at != out_->layout().parts.size(); ++at) {
    if (out_->layout().parts[at].kind != Array::offsets) {
      continue;
    }
    std::int64_t* const to = offsets_of(out_->memory, place, at);
    const std::int64_t* const own = offsets_on(desk, column);
    std::uint64_t end = sum_of(desk, column, 0, units.begin);
    if (units.begin == 0) {
      to[0] = 0;
    }
    for (std::size_t i = 0; i != units.size(); ++i) {
      const std::uint64_t length = desk.lengths[(units.begin + i) * columns_ + column];
      if (own[i + 1] - own[i] != static_cast<std::int64_t>(length)) {
        throw_source_error({"penstock: record ", first + i, " has ", length,
                            " values in a Ragged column by the source's lengths(), and its "
                            "read() put another number, or none: they must agree."},
                           {}, 0, first + i);
      }
      end += length;
      to[units.begin + i + 1] = static_cast<std::int64_t>(end);
    }
    ++column;
  }
}

PENSTOCK_INLINE void SharedReaderNode::check_seams(std::uint64_t ticket,
                                                   const SlotRanges::Range& range) {
  const std::size_t place = ticket % out_->ring.slots();
  std::size_t column = 0;
  for (std::size_t at = 0; at != out_->layout().parts.size(); ++at) {
    if (out_->layout().parts[at].kind != Array::offsets) {
      continue;
    }
    const std::int64_t* const offsets = offsets_of(out_->memory, place, at);
    for (std::size_t part = 0; part != parts_.parts(); ++part) {
      const std::uint64_t begin = seams_of(ticket, part)[column];
      const std::size_t unit = PartOf{range.units, parts_.parts(), part}.begin;
      if (begin != unknown_size && begin != static_cast<std::uint64_t>(offsets[unit])) {
        throw_source_error({"penstock: the source's lengths() told two things of the records "
                            "before ",
                            range.first + unit, ": did what it reads change?"},
                           {}, 0, range.first + unit);
      }
    }
    ++column;
  }
}

PENSTOCK_INLINE std::uint64_t* SharedReaderNode::seams_of(std::uint64_t ticket,
                                                          std::size_t part) noexcept {
  return seams_.data() + (ticket % out_->ring.slots() * parts_.parts() + part) * columns_;
}

PENSTOCK_INLINE std::int64_t* SharedReaderNode::offsets_on(Desk& desk,
                                                           std::size_t column) noexcept {
  return desk.offsets.data() + column * (out_->layout().units + 1);
}

PENSTOCK_INLINE std::uint64_t SharedReaderNode::sum_of(const Desk& desk, std::size_t column,
                                                       std::size_t from,
                                                       std::size_t to) const noexcept {
  std::uint64_t sum = 0;
  for (std::size_t i = from; i != to; ++i) {
    const std::uint64_t length = desk.lengths[i * columns_ + column];
    sum = length > unknown_size - sum ? unknown_size : sum + length;
  }
  return sum;
}
#endif

} // namespace penstock::detail
