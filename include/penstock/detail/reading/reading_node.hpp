// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/engine/node.hpp>
#include <penstock/detail/links/host_link.hpp>
#include <penstock/order/position.hpp>
#include <penstock/run/on_error.hpp>
#include <penstock/run/report.hpp>
#include <penstock/sources/detail/optional_members.hpp>
#include <penstock/sources/source.hpp>

#include <new>
#include <string>
#include <string_view>
#include <utility>

namespace penstock::detail {

/// What the nodes of a Reader have in common: a source, and what the Report says of it.
template <Source From> class ReadingNode : public Node {
 public:
  [[gnu::cold]] ReadingNode(const NodeSetup& setup, const Shared<HostLink>& out, From source,
                            const OnError& on_error)
      : Node{setup}, source_{std::move(source)}, on_error_{on_error}, out_{out} {
    fills(out_->memory, out_->ring.slots());
  }

  bool reads() const noexcept final { return true; }
  [[gnu::cold]] void report(double seconds, StageReport& stage) const final {
    Node::report(seconds, stage);
    constexpr std::string_view again =
        "began with epoch 0 again: the order, and what a seed and a visit make random, are those "
        "of a run before; for others give the Reader .epochs = n, and take them in one loop, or "
        "begin each run .from the position() of the last batch";
    stage.note = note_;
    add_note_of(source_, stage.note);
    try {
      if (shuffles()) {
        stage.note.reserve(stage.note.size() + again.size() + 2); // here, and not in a later run
      }
      if (repeats_) {
        add_note(stage.note, again);
      }
    } catch (const std::bad_alloc&) { // no Report is lost for a note
    }
  }

 protected:
  /// To be called before each run.
  [[gnu::cold]] void note_begin() noexcept {
    const Position from = out_->order->position(0);
    const bool anew = from.epoch() == 0 && from.step() == 0 && from.inside() == 0;
    repeats_ = shuffles() && anew && begun_anew_;
    begun_anew_ = begun_anew_ || anew;
  }

  From source_;
  const OnError on_error_;
  const Shared<HostLink> out_;
  std::string note_;

 private:
  bool shuffles() const noexcept { return static_cast<bool>(out_->order->order().shuffle); }

  bool begun_anew_{}; // a run has begun at the beginning
  bool repeats_{};    // and this one did, too, in the same order
};

} // namespace penstock::detail
