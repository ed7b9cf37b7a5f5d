// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/shared.hpp>
#include <penstock/detail/engine/node.hpp>
#include <penstock/detail/links/host_link.hpp>
#include <penstock/on_error.hpp>
#include <penstock/report.hpp>
#include <penstock/sources/detail/told.hpp>
#include <penstock/sources/source.hpp>

#include <string>
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
    stage.note = note_;
    add_note_of(source_, stage.note);
  }

 protected:
  From source_;
  const OnError on_error_;
  const Shared<HostLink> out_;
  std::string note_;
};

} // namespace penstock::detail
