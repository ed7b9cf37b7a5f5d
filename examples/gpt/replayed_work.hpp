// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>

namespace transformer {

/// Work that is enqueued again and again, and is always the same. The first time it is enqueued
/// piece by piece, which also prepares what a capture could not; the second time it is captured;
/// from then on, one call launches all of it.
template <class D> class ReplayedWork {
 public:
  /// Enqueues what `f()` enqueues on `stream`; `graph`: whether it may be captured.
  template <class F> void enqueue(D& device, typename D::stream_type& stream, bool graph, F f) {
    if (!graph || !prepared_) {
      f();
      prepared_ = true;
      return;
    }
    if (!graph_) {
      graph_.emplace(device.capture(std::span{&stream, 1}, f));
    }
    graph_->launch(stream);
  }

 private:
  bool prepared_ = false;
  std::optional<typename D::graph_type> graph_;
};

} // namespace transformer
