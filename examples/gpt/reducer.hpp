// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/device/device.hpp>

#include <cstddef>

namespace transformer {

/// What several ranks add up: gradients and losses of type W, in memory of a device D. All ranks
/// must make the same calls in the same order.
template <class W, penstock::AnyDevice D> class Reducer {
 public:
  virtual ~Reducer() = default;
  /// Enqueues: each of `count` values becomes the sum of all ranks', the same on all. Graphs may
  /// capture it. One stream at a time: the call before must have been made on the same one, or be
  /// waited for by it.
  virtual void sum(penstock::Stream<D> stream, W* values, std::size_t count) = 0;
  /// To be called once a step, when all of it is enqueued: blocks until the step before is done.
  /// Throws if a rank has kept the others waiting for too long.
  virtual void keep_pace(penstock::Stream<D> stream) = 0;
  /// Blocks until all that is enqueued is done. Throws as keep_pace() does.
  virtual void sync(penstock::Stream<D> stream) = 0;
};

} // namespace transformer
