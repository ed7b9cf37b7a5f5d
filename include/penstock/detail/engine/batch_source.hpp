// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/engine/loops.hpp>
#include <penstock/lease.hpp>

namespace penstock::detail {

/// Gives the application's own loop its batches. Only the loop's thread calls it.
template <class B> class BatchSource {
 public:
  virtual ~BatchSource() = default;
  /// Returns the loops with which it shares a run; null if it has the run for itself.
  virtual Loops* loops() noexcept { return nullptr; }
  /// Begins the loop, before the first batch; `stream` is for batches on a device.
  virtual void enter(StreamHandle stream) noexcept = 0;
  /// Blocks for the next batch; returns an empty lease if there are no more, or the run has failed.
  virtual Lease<B> next() noexcept = 0;
  /// Ends the loop, after the last lease that the loop itself holds was released. May wait for the
  /// device. `early`: nobody will be thrown the run's error.
  virtual void leave(bool early) noexcept = 0;
};

} // namespace penstock::detail
