// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/links/host_link.hpp>
#include <penstock/detail/links/ring_memory.hpp>
#include <penstock/detail/reading/ranges.hpp>
#include <penstock/detail/reading/reader_node.hpp>
#include <penstock/detail/reading/slot_source.hpp>
#include <penstock/order/detail/ordered_numbers.hpp>
#include <penstock/order/detail/run_order.hpp>
#include <penstock/sources/patience.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>

namespace penstock::detail {

/// Reads the records of `count` turns from `turn` on, wherever they lie in the source, into a place
/// from its record `at` on, one behind the other. Returns how many it read: fewer only if the run
/// ends. Throws what the source throws. Any number of threads.
std::size_t read_turns(const SlotSource& source, const RunOrder& order, const RingMemory& memory,
                       std::size_t place, std::size_t at, std::uint64_t epoch, std::uint64_t turn,
                       std::size_t count, const Patience& patience);

/// Reads the bytes of records that go in pieces: `count` of them, from byte `at` of all turns'
/// records back to back, into `to`.
[[gnu::cold]] void read_pieces(const SlotSource& source, const RunOrder& order,
                               std::uint64_t record_bytes, std::byte* to, std::uint64_t epoch,
                               std::uint64_t at, std::size_t count);

/// A ReaderNode that can also read in another order than the source's: as `out`'s order says. Only
/// what may ask for such an order compiles it.
class OrderedReaderNode final : public ReaderNode {
 public:
  using ReaderNode::ReaderNode;

 private:
  PENSTOCK_INLINE void read_ordered(std::size_t place, HostSlot& slot, Filled& got,
                                    unsigned attempt, Meter& meter) override;
  [[gnu::cold]] PENSTOCK_INLINE Item read_singly(std::size_t place, HostSlot& slot, Filled& got,
                                                 Meter& meter) override;
};

#if PENSTOCK_BODIES
PENSTOCK_INLINE std::size_t read_turns(const SlotSource& source, const RunOrder& order,
                                       const RingMemory& memory, std::size_t place, std::size_t at,
                                       std::uint64_t epoch, std::uint64_t turn, std::size_t count,
                                       const Patience& patience) {
  if (mixes_windows(order.order()) && source.hears_what_comes()) {
    each_block_ahead(order, epoch, turn, count, [&](std::uint64_t first, std::uint64_t some) {
      source.will_read(first, some);
    });
  }
  std::uint64_t numbers[256];
  std::size_t done = 0;
  while (done != count) {
    const std::size_t some = std::min(count - done, std::size(numbers));
    order.numbers(epoch, turn + done, some, numbers);
    const SlotPart into{memory, place, at + done, some, numbers[0], numbers[0]};
    const Filled got = source.fill_numbered(std::span{numbers}.first(some), into, patience);
    const bool ends = got.count < some && patience.stop_requested();
    if (!ends && (!got.for_now || got.count > some)) {
      const std::size_t last = std::min(got.count, some - 1);
      check_count(got.count, some, numbers[last] - last, true); // the one that is missing
    }
    done += got.count;
    if (ends) {
      return done;
    }
  }
  return count;
}

PENSTOCK_INLINE void read_pieces(const SlotSource& source, const RunOrder& order,
                                 std::uint64_t record_bytes, std::byte* to, std::uint64_t epoch,
                                 std::uint64_t at, std::size_t count) {
  for (std::size_t done = 0; done != count;) {
    const std::uint64_t within = (at + done) % record_bytes;
    const std::size_t part =
        static_cast<std::size_t>(std::min<std::uint64_t>(count - done, record_bytes - within));
    const std::uint64_t number = order.visit(epoch, (at + done) / record_bytes).record;
    source.read_bytes(number * record_bytes + within, std::span{to + done, part});
    done += part;
  }
}

PENSTOCK_INLINE void OrderedReaderNode::read_ordered(std::size_t place, HostSlot& slot, Filled& got,
                                                     unsigned attempt, Meter& meter) {
  got = 0;
  if (out_->layout().in_pieces()) {
    read_pieces(*source_, *out_->order, out_->layout().units_a_record, out_->memory.data(place),
                slot.epoch, slot.source[0], slot.units);
    return note_read(place, got, slot.units);
  }
  if (ragged_) {
    open_ragged(out_->memory, place, slot.units);
  }
  const std::size_t count =
      read_turns(*source_, *out_->order, out_->memory, place, 0, slot.epoch, slot.source[0],
                 slot.units, Patience{control().interrupt(), meter, slot.epoch, attempt});
  if (ragged_) {
    check_ragged(out_->memory, place, count, record_of(slot.epoch, slot.source[0])());
  }
  note_read(place, got, count);
}

PENSTOCK_INLINE Node::Item OrderedReaderNode::read_singly(std::size_t place, HostSlot& slot,
                                                          Filled& got, Meter& meter) {
  const std::uint64_t first = slot.source[0];
  for (std::uint64_t turn = first; turn != first + slot.units; ++turn) {
    const auto read_one = [&](unsigned attempt) {
      if (ragged_) {
        open_ragged(out_->memory, place, got.count + 1, got.count);
      }
      const Patience patience{control().interrupt(), meter, slot.epoch, attempt};
      if (read_turns(*source_, *out_->order, out_->memory, place, got.count, slot.epoch, turn, 1,
                     patience) != 0) {
        if (ragged_) {
          check_ragged(out_->memory, place, got.count + 1,
                       record_of(slot.epoch, turn)() - got.count, got.count);
        }
        slot.source.go_on(got.count, turn);
        note_read(place, got, 1);
      }
    };
    const Item item = attempt_item(on_error_, meter, record_of(slot.epoch, turn), 1, read_one);
    if (item == Item::failed) {
      return item;
    }
  }
  const std::size_t of = control().interrupt().raised() ? 0 : slot.units;
  const bool some_left = attempt(first, [&] {
    slot.source.go_on(got.count, first + slot.units);
    out_->check_left(got.count, of);
  });
  return some_left ? Item::good : Item::failed;
}
#endif

} // namespace penstock::detail
