// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/callables/each_worker.hpp>
#include <penstock/data/batch.hpp>
#include <penstock/data/row.hpp>
#include <penstock/data/visit.hpp>
#include <penstock/detail/base/callable.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/detail/links/host_link.hpp>
#include <penstock/detail/links/ring_memory.hpp>
#include <penstock/detail/workers/calling_node.hpp>
#include <penstock/detail/workers/part_by_part.hpp>
#include <penstock/detail/workers/warned.hpp>
#include <penstock/order/detail/origins.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <type_traits>

namespace penstock::detail {

/// Which records of a slot's part a Decoder kept: how many, and which of the slot's came first.
struct Kept {
  std::size_t count{};
  std::size_t first{};
};

/// What the nodes of a Decoder have in common. Its callable has the parameters P.
template <class F, class From, class To> class DecodingNode : public CallingNode<F> {
 protected:
  using Item = Node::Item;
  using P = called_parameters<F>;
  using InView = BatchView<typename From::schema>;
  using OutView = BatchView<typename To::schema>;

 public:
  DecodingNode(const NodeSetup& setup, const Shared<HostLink>& in, const Shared<HostLink>& out,
               const F& f, const OnError& on_error)
      : CallingNode<F>{setup, f}, on_error_{on_error}, in_{in}, out_{out} {
    this->fills(out_->memory, out_->ring.slots());
    this->is_of_source(in_->has_turns && !in_->outputs);
  }

  [[gnu::cold]] void report(double seconds, StageReport& stage) const final {
    Node::report(seconds, stage);
    if constexpr (is_warned) {
      warned_.tell(stage.note);
    }
  }

 protected:
  void reset() override {
    out_->reset();
    warned_.reset();
  }
  void make(unsigned worker) final {
    CallingNode<F>::make(worker);
    if constexpr (is_warned) {
      this->call_of(worker).tell_of_warnings(warned_);
    }
  }

  /// Calls `call` for record `i` of a slot, to fill record `at` of another.
  template <class Call>
  void call_for(Call& call, const HostSlot& given, const InView& in, std::size_t i,
                const OutView& out, std::size_t at) const {
    auto&& from = record_at<parameter_t<0, P>>(in, i);
    auto&& to = record_at<parameter_t<1, P>>(out, at);
    if constexpr (P::count == 3) {
      std::invoke(call, from, to, in_->visit(given, i));
    } else {
      std::invoke(call, from, to);
    }
  }

  /// Calls one(i, at) for each record i among a slot's `units`, to make record `at` of those kept:
  /// the next record takes the place of one that is left out. Gives `numbers` those kept. Returns
  /// false if the run is to end. May throw std::bad_alloc.
  template <class One>
  bool each_record(const HostSlot& given, PartOf units, Kept& kept, SourceNumbers& numbers,
                   Meter& meter, One one) {
    kept = {};
    std::size_t i = units.begin;
    std::size_t unbroken = i; // from here to before i all are kept
    const auto keep = [&] {
      if (i != unbroken) {
        kept.first = kept.count == 0 ? unbroken : kept.first;
        numbers.go_on(kept.count, given.source, unbroken, i - unbroken);
        kept.count += i - unbroken;
      }
    };
    unsigned tries = 0;
    while (i != units.end) {
      try {
        // One try block for many records: a cheap callable's loop is then as fast as its own.
        for (; i != units.end; ++i, tries = 0) {
          one(i, kept.count + (i - unbroken));
        }
      } catch (const ThreadEnd&) {
        fail_of_thread_end(
            [&] { this->thrown(on_error_, meter, 0, in_->visit(given, i).record, 1); });
        throw;
      } catch (...) {
        const Item item = this->thrown(on_error_, meter, tries++, in_->visit(given, i).record, 1);
        if (item == Item::failed) {
          return false;
        }
        if (item == Item::skipped) {
          keep();
          unbroken = ++i;
          tries = 0;
        }
      }
    }
    keep();
    return true;
  }

  const OnError on_error_;
  const Shared<HostLink> in_;
  const Shared<HostLink> out_;

 private:
  static constexpr bool is_warned = IsWarned<typename called<F>::type>;

  Warned<> warned_;
};

/// Turns slots of one ring into slots of the next, slot t into slot t. All workers share a slot's
/// records, however few they are or long each takes: the callable gets one record after the other
/// if it is of `Single` records, else a part of the slot as a batch.
template <bool Single, class F, class From, class To>
class DecoderNode final : public DecodingNode<F, From, To> {
  using Base = DecodingNode<F, From, To>;
  using typename Base::Item;

 public:
  /// `whole`: the callable gets whole slots.
  DecoderNode(const NodeSetup& setup, const Shared<HostLink>& in, const Shared<HostLink>& out,
              const F& f, bool whole, const OnError& on_error)
      : Base{setup, in, out, f, on_error},
        parts_{in->ring.slots(),
               whole ? 1 : parts_a_slot(setup.workers, in->layout().units, in->ring.slots())},
        decoded_(in->ring.slots() * parts_.parts()) {}

 private:
  // What one worker made of a part: its first records, without those that were left out.
  struct Decoded {
    Kept kept;
    SourceNumbers numbers;
  };

  void reset() override {
    Base::reset();
    parts_.reset();
  }

  // A slot to work on, and where it and the one to fill lie.
  struct At {
    const HostSlot& given;
    std::size_t from;
    std::size_t to;
  };

  void work(unsigned worker, Meter& meter) override {
    if (parts_.parts() == 1) { // nothing to deal: a hop costs a quarter less
      slot_by_slot(*in_, *out_, meter, [&](const HostRing::Take& from, HostRing::Claim& to) {
        const At at{from.slot(), from.place(), to.place()};
        return decode(this->call_of(worker), at, 0, meter) && finish(at, from.slot(), to.slot());
      });
      return;
    }
    const auto at = [this](std::uint64_t ticket, const HostSlot& given) {
      return At{given, ticket % in_->ring.slots(), ticket % out_->ring.slots()};
    };
    part_by_part(
        *in_, *out_, parts_, meter,
        [&](std::uint64_t ticket, std::size_t part, const HostSlot& given) {
          return decode(this->call_of(worker), at(ticket, given), part, meter);
        },
        [&](std::uint64_t ticket, HostSlot& given, HostSlot& slot) {
          return finish(at(ticket, given), given, slot);
        });
  }

  // Returns false if the run is to end.
  template <class Call>
  bool decode(Call& call, const At& at, std::size_t part, Meter& meter) {
    const PartOf units{at.given.units, parts_.parts(), part};
    Decoded& decoded = decoded_of(at.from, part);
    decoded.kept = {};
    if (units.size() == 0) {
      return true;
    }
    const TraceRange range = this->trace(in_->index_of(at.given, units.begin));
    if constexpr (Single) {
      bool done = false;
      // The run ends if there is no memory to note the skipped records.
      return this->attempt(record_of(at, units.begin), [&] {
        done = records(call, at, units, decoded, meter);
      }) && done;
    } else {
      return whole_part(call, at, units, decoded, meter);
    }
  }
  auto record_of(const At& at, std::size_t unit) const noexcept {
    return [this, &at, unit] { return in_->visit(at.given, unit).record; };
  }

  template <class Call>
  bool whole_part(Call& call, const At& at, PartOf units, Decoded& decoded, Meter& meter) {
    const std::uint64_t index = in_->index_of(at.given, units.begin);
    const auto in = batch<const typename From::schema, typename From::space>(
        *in_, at.from, at.given, units, index);
    const auto out =
        batch<typename To::schema, typename To::space>(*out_, at.to, at.given, units, index);
    const Item item = this->attempt_item(on_error_, meter, record_of(at, units.begin), units.size(),
                                         [&] { std::invoke(call, in, out); });
    if (item == Item::good) {
      decoded.kept = {units.size(), units.begin};
      // The run ends if there is no memory to note which they are.
      return units.size() == at.given.units || this->attempt(record_of(at, units.begin), [&] {
        decoded.numbers.go_on(0, at.given.source, units.begin, units.size());
      });
    }
    return item != Item::failed;
  }
  // The part as a batch of its own, in a place of a link.
  template <class T, class Where>
  Batch<T, Where> batch(const HostLink& link, std::size_t place, const HostSlot& given,
                        PartOf units, std::uint64_t index) const {
    return parts_.parts() == 1
               ? link.batch<T, Where>(place, given, index)
               : link.part<T, Where>(place, given, index, units.begin, units.size());
  }

  template <class Call>
  bool records(Call& call, const At& at, PartOf units, Decoded& decoded, Meter& meter) {
    const HostSlot& given = at.given;
    const auto in =
        in_->memory.template view<typename From::schema>(at.from, given.units, given.index, 0);
    const auto out =
        out_->memory.template view<typename To::schema>(at.to, given.units, given.index, 0);
    return this->each_record(given, units, decoded.kept, decoded.numbers, meter,
                             [&](std::size_t i, std::size_t kept) {
                               this->call_for(call, given, in, i, out, units.begin + kept);
                             });
  }

  // By the last worker of a slot. Returns false if the run is to end.
  bool finish(const At& at, HostSlot& given, HostSlot& slot) noexcept {
    std::size_t kept = 0;
    for (std::size_t part = 0; part != parts_.parts(); ++part) {
      kept += decoded_of(at.from, part).kept.count;
    }
    slot.units = kept;
    if (kept == given.units) {
      slot.source.take(given.source);
      return true;
    }
    return this->attempt(record_of(at, 0), [&] { put_together(at, slot); });
  }
  // Closes the gaps that skipped records have left. May throw std::bad_alloc.
  void put_together(const At& at, HostSlot& slot) {
    out_->check_left(slot.units, at.given.units);
    std::size_t to = 0;
    for (std::size_t part = 0; part != parts_.parts(); ++part) {
      const std::size_t from = PartOf{at.given.units, parts_.parts(), part}.begin;
      const Decoded& decoded = decoded_of(at.from, part);
      if (decoded.kept.count != 0) {
        slot.index = to == 0 ? in_->index_of(at.given, decoded.kept.first) : slot.index;
        move(at.to, from, to, decoded.kept.count);
        slot.source.go_on(to, decoded.numbers, 0, decoded.kept.count);
        to += decoded.kept.count;
      }
    }
    slot.source.go_on(to, at.given.source[at.given.units]);
  }

  void move(std::size_t place, std::size_t from, std::size_t to, std::size_t units) noexcept {
    const Vector<Array>& arrays = out_->layout().parts;
    for (std::size_t i = 0; i != arrays.size(); ++i) {
      std::byte* const data = out_->memory.data(place, i);
      std::memmove(data + to * arrays[i].each, data + from * arrays[i].each,
                   units * arrays[i].each);
    }
  }

  Decoded& decoded_of(std::size_t from, std::size_t part) noexcept {
    return decoded_[from * parts_.parts() + part];
  }

  using Base::in_;
  using Base::on_error_;
  using Base::out_;
  Parts<> parts_;
  Vector<Decoded> decoded_; // by place of the ring before it, and part
};

} // namespace penstock::detail
