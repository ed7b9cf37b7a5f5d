// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/decoding/decoding_node.hpp>
#include <penstock/detail/links/ragged.hpp>
#include <penstock/detail/workers/slot_by_slot.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace penstock::detail {

/// Turns slots of one ring into slots of the next, slot t into slot t, several at once, where one
/// of them has a Ragged column. A slot is one worker's, since nobody knows where a part of its
/// output begins: the callable gets the slot's records, one after the other, if it is of `Single`
/// records, else the slot.
template <bool Single, class F, class From, class To>
class RaggedDecoderNode final : public DecodingNode<F, From, To> {
  using Base = DecodingNode<F, From, To>;
  using typename Base::Item;

 public:
  using Base::Base;

 private:
  void work(unsigned worker, Meter& meter) override {
    slot_by_slot(*in_, *out_, meter, [&](const HostRing::Take& from, HostRing::Claim& to) {
      const TraceRange range = this->trace(from.slot().index);
      bool done = false;
      // The run ends if there is no memory to note the skipped records.
      return this->attempt(in_->visit(from.slot(), 0).record, [&] {
        if constexpr (Single) {
          done = records(this->call_of(worker), from, to, meter);
        } else {
          done = whole_slot(this->call_of(worker), from, to, meter);
        }
      }) && done;
    });
  }

  // Return false if the run is to end.
  template <class Call>
  bool whole_slot(Call& call, const HostRing::Take& from, HostRing::Claim& to, Meter& meter) {
    const HostSlot& given = from.slot();
    HostSlot& slot = to.slot();
    const std::uint64_t first = in_->visit(given, 0).record;
    slot.source.start(given.source[0]);
    const auto in = in_->template batch<const typename From::schema, typename From::space>(
        from.place(), given, given.index);
    const auto out =
        out_->template batch<typename To::schema, typename To::space>(to.place(), slot, slot.index);
    const Item item = this->attempt_item(on_error_, meter, first, given.units, [&] {
      open_ragged(out_->memory, to.place(), given.units);
      std::invoke(call, in, out);
      check_ragged(out_->memory, to.place(), given.units, first);
    });
    slot.units = item == Item::good ? given.units : 0;
    out_->check_left(slot.units, given.units);
    slot.source.take(from.slot().source);
    return item != Item::failed;
  }
  template <class Call>
  bool records(Call& call, const HostRing::Take& from, HostRing::Claim& to, Meter& meter) {
    const HostSlot& given = from.slot();
    HostSlot& slot = to.slot();
    const auto in =
        in_->memory.template view<typename From::schema>(from.place(), given.units, 0, 0);
    auto out = out_->memory.template view<typename To::schema>(to.place(), given.units, 0, 0);
    const auto one = [&](std::size_t i, std::size_t at) {
      out.source_index = in_->visit(given, i).record - at; // so that put() names the record
      open_ragged(out_->memory, to.place(), at + 1, at);
      this->call_for(call, given, in, i, out, at);
      check_ragged(out_->memory, to.place(), at + 1, out.source_index, at);
    };
    Kept kept;
    const PartOf units{given.units, 1, 0};
    const bool done = this->each_record(given, units, kept, slot.source, meter, one);
    slot.units = kept.count;
    slot.source.go_on(kept.count, given.source[given.units]);
    out_->check_left(kept.count, given.units);
    slot.index = kept.count != 0 ? in_->index_of(given, kept.first) : slot.index;
    return done;
  }

  using Base::in_;
  using Base::on_error_;
  using Base::out_;
};

} // namespace penstock::detail
