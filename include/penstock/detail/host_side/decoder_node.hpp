// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/row.hpp>
#include <penstock/detail/engine/node.hpp>
#include <penstock/detail/host_side/part_by_part.hpp>
#include <penstock/detail/links/source_numbers.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <type_traits>

namespace penstock::detail {

/// Turns slots of one ring into slots of the next, slot t into slot t. All workers share a slot's
/// records, however few they are or long each takes: the callable gets one record after the other
/// if it is of `Single` records, else a part of the slot as a batch.
template <bool Single, class F, class From, class To> class DecoderNode final : public Node {
 public:
  /// `whole`: the callable gets whole slots.
  DecoderNode(const NodeSetup& setup, const std::shared_ptr<HostLink>& in,
              const std::shared_ptr<HostLink>& out, const F& f, bool whole, const OnError& on_error)
      : Node{setup}, calls_(workers(), f), on_error_{on_error}, in_{in}, out_{out},
        parts_{in->ring.slots(),
               whole ? 1 : parts_a_slot(workers(), in->layout().units, in->ring.slots())},
        decoded_(in->ring.slots() * parts_.parts()) {}

  void report(double seconds, StageReport& stage) const override {
    Node::report(seconds, stage);
    stage.depth = out_->ring.slots();
  }

 private:
  // What one worker made of a part: its first records, without those that were left out.
  struct Decoded {
    std::size_t kept{};
    SourceNumbers numbers;
  };

  void reset() override {
    out_->reset();
    parts_.reset();
  }

  void work(unsigned worker, Meter& meter) override {
    part_by_part(
        *in_, *out_, parts_, meter,
        [&](std::uint64_t ticket, std::size_t part, const HostSlot& given) {
          return decode(calls_[worker], ticket, part, given, meter);
        },
        [&](std::uint64_t ticket, HostSlot& given, HostSlot& slot) {
          return attempt(given.source[0], [&] { put_together(ticket, given, slot); });
        });
  }

  // Returns false if the run is to end.
  bool decode(F& call, std::uint64_t ticket, std::size_t part, const HostSlot& given,
              Meter& meter) noexcept {
    const PartOf units{given.units, parts_.parts(), part};
    Decoded& decoded = decoded_of(ticket, part);
    decoded.kept = 0;
    if (units.size() == 0) {
      return true;
    }
    const std::uint64_t first = given.source[units.begin];
    const std::uint64_t index = in_->index_of(given, units.begin);
    const TraceRange range = trace(index);
    decoded.numbers.start(first);
    const auto in =
        batch<const typename From::schema, typename From::space>(*in_, ticket, given, index, units);
    const auto out =
        batch<typename To::schema, typename To::space>(*out_, ticket, given, index, units);
    bool done = false;
    // The run ends if there is no memory to note the skipped records.
    return attempt(first,
                   [&] {
                     if constexpr (Single) {
                       done = each_record(call, in, out, given, units, decoded, meter);
                     } else {
                       done = whole_part(call, in, out, given, units, decoded, meter);
                     }
                   }) &&
           done;
  }

  // The part as a batch of its own, in the slot of the ticket in a link.
  template <class T, class Where>
  Batch<T, Where> batch(const HostLink& link, std::uint64_t ticket, const HostSlot& given,
                        std::uint64_t index, PartOf units) const {
    const std::size_t place = ticket % link.ring.slots();
    return parts_.parts() == 1
               ? link.batch<T, Where>(place, given, index)
               : link.part<T, Where>(place, given, index, units.begin, units.size());
  }

  template <class In, class Out>
  bool whole_part(F& call, In in, Out out, const HostSlot& given, PartOf units, Decoded& decoded,
                  Meter& meter) {
    const Item item = attempt_item(on_error_, meter, given.source[units.begin], units.size(),
                                   [&] { std::invoke(call, in, out); });
    if (item == Item::good) {
      decoded.kept = units.size();
      decoded.numbers.go_on(0, given.source, units.begin, units.size());
    }
    return item != Item::failed;
  }

  // The next record takes the place of a skipped one.
  template <class In, class Out>
  bool each_record(F& call, In in, Out out, const HostSlot& given, PartOf units, Decoded& decoded,
                   Meter& meter) {
    SourceNumbers::Walk numbers{given.source, units.begin};
    std::uint64_t due = given.source[units.begin];
    std::size_t kept = 0;
    for (std::size_t i = units.begin; i < units.end; ++i) {
      const std::uint64_t record = numbers.next();
      switch (attempt_item(on_error_, meter, record, 1, [&] {
        // A record of a run-time size is passed as its first byte.
        std::invoke(call, *at(in.data(), (i - units.begin) * in.record_bytes()),
                    *at(out.data(), kept * out.record_bytes()));
      })) {
      case Item::good:
        if (record != due) {
          decoded.numbers.go_on(kept, record);
        }
        due = record + 1;
        ++kept;
        break;
      case Item::skipped:
        break;
      case Item::failed:
        return false;
      }
    }
    decoded.kept = kept;
    return true;
  }

  // By the last worker of a slot: closes the gaps that skipped records have left. May throw
  // std::bad_alloc.
  void put_together(std::uint64_t ticket, HostSlot& given, HostSlot& slot) {
    std::size_t kept = 0;
    for (std::size_t part = 0; part != parts_.parts(); ++part) {
      kept += decoded_of(ticket, part).kept;
    }
    slot.units = kept;
    if (kept == given.units) {
      slot.source.take(given.source);
      return;
    }
    std::size_t to = 0;
    for (std::size_t part = 0; part != parts_.parts(); ++part) {
      const std::size_t from = PartOf{given.units, parts_.parts(), part}.begin;
      const Decoded& decoded = decoded_of(ticket, part);
      if (decoded.kept != 0) {
        move(ticket % out_->ring.slots(), from, to, decoded.kept);
        slot.source.go_on(to, decoded.numbers, 0, decoded.kept);
        to += decoded.kept;
      }
    }
  }

  void move(std::size_t place, std::size_t from, std::size_t to, std::size_t units) noexcept {
    const Row<Array>& arrays = out_->layout().parts;
    for (std::size_t i = 0; i != arrays.size(); ++i) {
      std::byte* const data = out_->memory.data(place, i);
      std::memmove(data + to * arrays[i].each, data + from * arrays[i].each,
                   units * arrays[i].each);
    }
  }

  Decoded& decoded_of(std::uint64_t ticket, std::size_t part) noexcept {
    return decoded_[ticket % in_->ring.slots() * parts_.parts() + part];
  }
  template <class T> static T* at(T* data, std::size_t bytes) noexcept {
    using Byte = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
    return reinterpret_cast<T*>(reinterpret_cast<Byte*>(data) + bytes);
  }

  Row<F> calls_;
  const OnError on_error_;
  const std::shared_ptr<HostLink> in_;
  const std::shared_ptr<HostLink> out_;
  Parts<> parts_;
  Row<Decoded> decoded_; // by place of the ring before it, and part
};

} // namespace penstock::detail
