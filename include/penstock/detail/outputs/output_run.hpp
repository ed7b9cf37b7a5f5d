// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/detail/engine/run_control.hpp>
#include <penstock/detail/links/host_link.hpp>
#include <penstock/detail/outputs/output_slots.hpp>
#include <penstock/detail/turns/openings.hpp>
#include <penstock/order/detail/origins.hpp>
#include <penstock/order/detail/run_order.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace penstock::detail {

/// How a Decoder of another number of records is to work.
struct OutputForm {
  std::size_t group{1}; // turns of the order that a call gets
  Ramp size{1};         // of a slot of its ring
  bool cuts{};          // nothing given may wait: a slot ends with that which it is made of
  bool drop_last{};     // an epoch's last slot is left out if it is short
  bool has_positions{}; // a run may go on from what the last stage has used up
};

/// Tells a run's order where outputs come from.
class LoggedOutputs final : public OutputOrigins {
 public:
  [[gnu::cold]] void reset(std::uint64_t dropped) noexcept override { log.reset(dropped); }
  [[gnu::cold]] Origin origin(std::uint64_t outputs) const noexcept override {
    const auto found = log.origin(outputs);
    return {found.place, found.made};
  }

  OutputLog<> log;
};

/// What the workers of a Decoder of another number of records share: in turn each learns where the
/// outputs of his share go.
class OutputRun {
 public:
  /// A place in the run's order, noted before the output of this number in its share.
  struct Section {
    std::size_t before;
    std::uint64_t place;
  };
  /// What a share is told in its turn.
  struct Told {
    std::size_t dropped;    // of its first outputs: an earlier run has given them
    Room before;            // stays void: it ends the epoch before
    Room room;              // for the others
    Room rest;              // stays void behind them
    std::uint64_t number;   // of the first output that is not dropped
    std::uint64_t behind;   // number of the next share's first
    std::uint64_t left_out; // outputs before, of epochs' last slots
  };
  /// Number and next number of a share, and whether it is the last of its slot.
  struct Turn {
    std::uint64_t number, next;
    bool last;
  };

  [[gnu::cold]] OutputRun(const Shared<HostLink>& in, const Shared<HostLink>& out,
                          const OutputForm& form, std::size_t workers)
      : slots{out, form.size, form.drop_last}, openings{form.size, workers}, form_{form},
        order_{in->order} {
    if (form.has_positions) {
      auto outputs = new_shared<LoggedOutputs>();
      outputs_ = outputs.get();
      order_->recount(form.group, std::move(outputs));
    }
  }

  [[gnu::cold]] void reset() {
    dropped_ = outputs_ ? order_->dropped() : 0;
    made_ = left_out_ = 0;
    epoch_ = order_->first_epoch();
    slots.reset(dropped_);
    slots.link().reset();
    openings.reset();
  }

  /// Whether an earlier run has given some of the next outputs. In turn.
  bool drops() const noexcept { return made_ < dropped_; }
  /// In turn, takes room for the outputs of a share. `ends_epoch`: its slot does.
  Told take(std::size_t outputs, const Vector<Section>& from, bool last, std::uint64_t epoch,
            bool ends_epoch, std::uint64_t behind) noexcept {
    Told told{};
    // Where batches were handed on when they were full, no slot may have ended the epoch before.
    if (epoch != std::exchange(epoch_, epoch)) {
      told.before = close(false, true);
    }
    const std::uint64_t first = made_;
    made_ += outputs;
    told.dropped = std::min<std::uint64_t>(outputs, first < dropped_ ? dropped_ - first : 0);
    told.number = first + told.dropped;
    told.behind = made_;
    told.left_out = left_out_;
    told.room = openings.open(outputs - told.dropped);
    for (std::size_t i = 0; outputs_ && i != from.size(); ++i) {
      outputs_->log.note(first + from[i].before, from[i].place);
    }
    if (last && ends_epoch && outputs_ && behind != RunOrder::unknown) {
      outputs_->log.note(made_, behind);
    }
    if (last && (ends_epoch || form_.cuts)) {
      told.rest = close(ends_epoch, ends_epoch);
    }
    return told;
  }
  /// Ends the ring, when no worker has or will have a share any more.
  void end() noexcept {
    const Room rest = openings.close(false);
    slots.link().ring.end_at(openings.end());
    slots.leave_void(rest, {made_, left_out_, 0, {}}, false);
  }

  OutputSlots slots;
  Openings<> openings;

 private:
  // In turn: see Openings::close().
  Room close(bool empty, bool ends_epoch) noexcept {
    const Room rest = openings.close(empty);
    if (form_.drop_last && ends_epoch && rest.units != 0) {
      left_out_ += openings.size().size(rest.ticket) - rest.units;
    }
    return rest;
  }

  const OutputForm form_;
  const Shared<RunOrder> order_;
  LoggedOutputs* outputs_{};
  std::uint64_t dropped_{}; // of the run's first outputs
  // Whose turn it is, his.
  std::uint64_t epoch_{};    // of the last share
  std::uint64_t made_{};     // outputs so far
  std::uint64_t left_out_{}; // of them, in epochs' last slots
};

} // namespace penstock::detail
