// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/engine/node.hpp>
#include <penstock/detail/engine/sizes.hpp>
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
  /// `units` of the source are read in `epochs`, or to its end if they are unknown_size.
  ReaderNode(NodeSetup setup, std::shared_ptr<HostLink> out, From source, std::uint64_t units,
             std::uint64_t epochs, const OnError& on_error)
      : Node{std::move(setup)}, source_{std::move(source)}, on_error_{on_error},
        known_{units != unknown_size}, units_{known_ ? units / epochs : unknown_size},
        out_{std::move(out)} {
    const Grain& grain = out_->grain();
    if (known_) {
      per_epoch_ = units_ / grain.records + (units_ % grain.records != 0 ? 1 : 0);
      tickets_ = per_epoch_ * epochs;
    }
    if (grain.records == 1 && grain.bytes() > read_bytes) {
      note_ = "a record of " + std::to_string(grain.bytes()) + " bytes is a slot";
    }
  }

  bool reads() const noexcept override { return true; }
  void report(double seconds, StageReport& stage) const override {
    Node::report(seconds, stage);
    stage.depth = out_->ring.slots();
    stage.note = note_;
  }

 private:
  void reset() override {
    out_->reset();
    if (known_) {
      out_->ring.end_at(tickets_);
    }
  }

  void work(unsigned /*worker*/, Meter& meter) override {
    HostRing& ring = out_->ring;
    const Grain& grain = out_->grain();
    for (;;) {
      HostRing::Claim claim = ring.claim();
      meter.spent(Spent::blocked, Spent::busy);
      if (!claim) {
        return;
      }
      const std::uint64_t epoch = known_ ? claim.ticket() / per_epoch_ : 0;
      const std::uint64_t first = (claim.ticket() - epoch * per_epoch_) * grain.records;
      const auto wanted =
          static_cast<std::size_t>(std::min<std::uint64_t>(units_ - first, grain.records));
      HostSlot& slot = claim.slot();
      slot.index = known_ ? epoch * units_ + first : first;
      slot.source.start(first);
      slot.records = wanted;
      const Item item = attempt_item(on_error_, meter, first / grain.units,
                                     grain.whole_records(first, wanted), [&] {
                                       const TraceRange range = trace(slot.index / grain.units);
                                       slot.records = read(claim.place(), slot, wanted);
                                     });
      if (item == Item::failed) {
        return;
      }
      meter.spent(Spent::busy, Spent::blocked);
      const bool ends = item == Item::good && slot.records < wanted;
      slot.ends_epoch = ends || first + wanted == units_;
      slot.records = item == Item::good ? slot.records : 0;
      slot.bytes = slot.records != 0 ? out_->places.used(claim.place(), slot.records) : 0;
      meter.did(grain.whole_records(first, slot.records), slot.bytes);
      meter.found_in_use(ring.was_in_use());
      if (ends) {
        ring.end_at(claim.ticket() + 1);
      }
      const Fill fill = slot.records == 0                                 ? Fill::none
                        : slot.ends_epoch || slot.records < grain.records ? Fill::partial
                                                                          : Fill::full;
      out_->publish(std::move(claim), fill);
    }
  }

  std::size_t read(std::size_t place, const HostSlot& slot, std::size_t wanted) {
    const std::uint64_t first = slot.source[0];
    if constexpr (ReadsBytes<From>) {
      if (out_->grain().units != 1) {
        source_.read_bytes(first, std::span{out_->places.data(place), wanted});
        return wanted;
      }
    }
    open_ragged(out_->places, place, wanted);
    const std::size_t got = source_.read(out_->batch<T, Where>(place, slot, first));
    if (got < wanted && known_) {
      throw SourceError{"penstock: the source gave " + std::to_string(got) +
                            " records where it has " + std::to_string(wanted) +
                            ": its size() and its read() disagree.",
                        {},
                        0,
                        first + got};
    }
    check_ragged(out_->places, place, got, first);
    return got;
  }

  From source_;
  const OnError on_error_;
  const bool known_;
  const std::uint64_t units_; // in one epoch
  std::uint64_t per_epoch_{};
  std::uint64_t tickets_{};
  std::string note_;
  const std::shared_ptr<HostLink> out_;
};

} // namespace penstock::detail
