// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/links/host_link.hpp>
#include <penstock/detail/links/ragged.hpp>
#include <penstock/detail/reading/ordered_reads.hpp>
#include <penstock/detail/reading/reader_node.hpp>
#include <penstock/sources/source.hpp>

#include <cstddef>
#include <cstdint>

namespace penstock::detail {

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
