// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/links/host_link.hpp>
#include <penstock/detail/links/ring_memory.hpp>
#include <penstock/detail/reading/ranges.hpp>
#include <penstock/detail/reading/reader_node.hpp>
#include <penstock/order/detail/ordered_numbers.hpp>
#include <penstock/order/detail/run_order.hpp>
#include <penstock/sources/detail/reads.hpp>
#include <penstock/sources/patience.hpp>
#include <penstock/sources/source.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace penstock::detail {

/// Reads records by their turns in a run, wherever they lie in the source, into slots where they
/// lie one behind the other. Any number of threads.
template <Source From, class Where> class OrderedReads {
  using T = typename From::schema;

 public:
  OrderedReads(const From& source, const RunOrder& order, const RingMemory& memory) noexcept
      : source_{source}, order_{order}, memory_{memory} {}

  /// Reads the records of `count` turns from `turn` on into a place, from its record `at` on.
  /// Returns how many it read: fewer only if the run ends. Throws what the source throws.
  std::size_t records(std::size_t place, std::size_t at, std::uint64_t epoch, std::uint64_t turn,
                      std::size_t count, const Patience& patience) const {
    if constexpr (HearsWhatComes<From>) {
      if (mixes_windows(order_.order())) {
        each_block_ahead(
            order_, epoch, turn, count,
            [this](std::uint64_t first, std::uint64_t some) { source_.will_read(first, some); });
      }
    }
    std::uint64_t numbers[256];
    std::size_t done = 0;
    while (done != count) {
      const std::size_t some = std::min(count - done, std::size(numbers));
      order_.numbers(epoch, turn + done, some, numbers);
      const Batch<T, Where> into{
          memory_.template view_of_part<T>(place, at + done, some, numbers[0], numbers[0])};
      const Filled got = read_numbered(source_, std::span{numbers}.first(some), into, patience);
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
  /// Reads the bytes of records in pieces: `count` of them, from byte `at` of all turns' records
  /// back to back, into `to`.
  void pieces(std::byte* to, std::uint64_t epoch, std::uint64_t at, std::size_t count) const
    requires ReadsBytes<From>
  {
    const std::uint64_t record = memory_.layout().units_a_record;
    for (std::size_t done = 0; done != count;) {
      const std::uint64_t within = (at + done) % record;
      const std::size_t part =
          static_cast<std::size_t>(std::min<std::uint64_t>(count - done, record - within));
      const std::uint64_t number = order_.visit(epoch, (at + done) / record).record;
      source_.read_bytes(number * record + within, std::span{to + done, part});
      done += part;
    }
  }

 private:
  const From& source_;
  const RunOrder& order_;
  const RingMemory& memory_;
};

/// A ReaderNode that can also read in another order than the source's: as `out`'s order says.
template <Source From, class Where>
class OrderedReaderNode final : public ReaderNode<From, Where> {
  using Base = ReaderNode<From, Where>;
  using typename Base::Item;
  static constexpr bool ragged = schema_traits<typename From::schema>::ragged;

 public:
  using Base::Base;

 private:
  void read_ordered(std::size_t place, HostSlot& slot, Filled& got, unsigned attempt,
                    Meter& meter) override {
    const OrderedReads<From, Where> reads{source_, *out_->order, out_->memory};
    got = 0;
    if constexpr (ReadsBytes<From>) {
      if (out_->layout().in_pieces()) {
        reads.pieces(out_->memory.data(place), slot.epoch, slot.source[0], slot.units);
        this->note_read(place, got, slot.units);
        return;
      }
    }
    if constexpr (ragged) {
      open_ragged(out_->memory, place, slot.units);
    }
    const std::size_t count =
        reads.records(place, 0, slot.epoch, slot.source[0], slot.units,
                      Patience{this->control().interrupt(), meter, slot.epoch, attempt});
    if constexpr (ragged) {
      check_ragged(out_->memory, place, count, this->record_of(slot.epoch, slot.source[0])());
    }
    this->note_read(place, got, count);
  }
  [[gnu::cold]] Item read_singly(std::size_t place, HostSlot& slot, Filled& got,
                                 Meter& meter) override {
    const std::uint64_t first = slot.source[0];
    const OrderedReads<From, Where> reads{source_, *out_->order, out_->memory};
    for (std::uint64_t turn = first; turn != first + slot.units; ++turn) {
      const Item item = this->attempt_item(
          on_error_, meter, this->record_of(slot.epoch, turn), 1, [&](unsigned attempt) {
            if constexpr (ragged) {
              open_ragged(out_->memory, place, got.count + 1, got.count);
            }
            const Patience patience{this->control().interrupt(), meter, slot.epoch, attempt};
            if (reads.records(place, got.count, slot.epoch, turn, 1, patience) != 0) {
              if constexpr (ragged) {
                check_ragged(out_->memory, place, got.count + 1,
                             this->record_of(slot.epoch, turn)() - got.count, got.count);
              }
              slot.source.go_on(got.count, turn);
              this->note_read(place, got, 1);
            }
          });
      if (item == Item::failed) {
        return item;
      }
    }
    const std::size_t of = this->control().interrupt().raised() ? 0 : slot.units;
    return this->attempt(first,
                         [&] {
                           slot.source.go_on(got.count, first + slot.units);
                           out_->check_left(got.count, of);
                         })
               ? Item::good
               : Item::failed;
  }

  using Base::on_error_;
  using Base::out_;
  using Base::source_;
};

} // namespace penstock::detail
