// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/row.hpp>
#include <penstock/detail/engine/node.hpp>
#include <penstock/detail/host_side/slot_by_slot.hpp>
#include <penstock/detail/links/ragged.hpp>
#include <penstock/detail/links/source_numbers.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

namespace penstock::detail {

/// Turns slots of one ring into slots of the next, slot t into slot t, several at once. The
/// callable gets whole batches or, if Single, one record after the other.
template <class F, class From, class FromWhere, class To, class ToWhere, bool Single>
class DecoderNode final : public Node {
 public:
  DecoderNode(const NodeSetup& setup, const std::shared_ptr<HostLink>& in,
              const std::shared_ptr<HostLink>& out, const F& f, const OnError& on_error)
      : Node{setup}, calls_(workers(), f), on_error_{on_error}, in_{in}, out_{out} {}

  void report(double seconds, StageReport& stage) const override {
    Node::report(seconds, stage);
    stage.depth = out_->ring.slots();
  }

 private:
  using In = Batch<const From, FromWhere>;
  using Out = Batch<To, ToWhere>;

  void reset() override { out_->reset(); }

  void work(unsigned worker, Meter& meter) override {
    slot_by_slot(*in_, *out_, meter, [&](const HostRing::Take& from, HostRing::Claim& to) {
      return decode(calls_[worker], from, to, meter);
    });
  }

  // Returns false if the run is to end.
  bool decode(F& call, const HostRing::Take& from, HostRing::Claim& to, Meter& meter) noexcept {
    const TraceRange range = trace(from.slot().index);
    const HostSlot& given = from.slot();
    HostSlot& slot = to.slot();
    const std::uint64_t first = given.source[0];
    slot.source.start(first);
    const In in = in_->batch<const From, FromWhere>(from.place(), given, given.index);
    const Out out = out_->batch<To, ToWhere>(to.place(), slot, slot.index);
    if constexpr (Single) {
      bool done = false;
      // The run ends if there is no memory to note the skipped records.
      return attempt(first, [&] { done = decode_records(call, in, out, given, slot, meter); }) &&
             done;
    } else {
      const Item item = attempt_item(on_error_, meter, first, given.units, [&] {
        open_ragged(out_->memory, to.place(), given.units);
        std::invoke(call, in, out);
        check_ragged(out_->memory, to.place(), given.units, first);
      });
      slot.units = item == Item::good ? given.units : 0;
      slot.source.take(from.slot().source);
      return item != Item::failed;
    }
  }

  // The next record takes the place of a skipped one.
  bool decode_records(F& call, const In& in, const Out& out, const HostSlot& given, HostSlot& slot,
                      Meter& meter) {
    SourceNumbers::Walk numbers{given.source};
    std::uint64_t due = given.source[0];
    std::size_t kept = 0;
    for (std::size_t i = 0; i < in.size(); ++i) {
      const std::uint64_t record = numbers.next();
      switch (attempt_item(on_error_, meter, record, 1, [&] {
        // A record of a run-time size is passed as its first byte.
        std::invoke(call, *at(in.data(), i * in.record_bytes()),
                    *at(out.data(), kept * out.record_bytes()));
      })) {
      case Item::good:
        if (record != due) {
          slot.source.go_on(kept, record);
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
    slot.units = kept;
    return true;
  }

  template <class T> static T* at(T* data, std::size_t bytes) noexcept {
    using Byte = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
    return reinterpret_cast<T*>(reinterpret_cast<Byte*>(data) + bytes);
  }

  Row<F> calls_;
  const OnError on_error_;
  const std::shared_ptr<HostLink> in_;
  const std::shared_ptr<HostLink> out_;
};

} // namespace penstock::detail
