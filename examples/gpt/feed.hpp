// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "events.hpp"

#include <penstock/data/column.hpp>
#include <penstock/data/schema.hpp>
#include <penstock/device/device.hpp>
#include <penstock/order/order.hpp>
#include <penstock/order/position.hpp>
#include <penstock/run/report.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

namespace transformer {

/// An input and its target, as PyTorch wants both: 16 bytes for what 2 say in the file.
struct Pair {
  std::int64_t x;
  std::int64_t y;
};
/// A record of windows that were made into pairs on the host.
struct PairWindow : penstock::Columns<penstock::Field<"pairs", Pair, penstock::dynamic>> {};

/// For penstock::for_each: makes input and target number i of a batch, of windows as they lie in
/// the file, or of pairs. `tokens` or `pairs` has one window behind the other.
/// @{
template <class T> struct SplitWindows {
  const T* tokens;
  std::size_t context; // a window has one token more
  std::int32_t* inputs;
  std::int32_t* targets;

  PENSTOCK_HD void operator()(std::size_t i) const {
    const T* const token = tokens + i / context * (context + 1) + i % context;
    inputs[i] = token[0];
    targets[i] = token[1];
  }
};
struct SplitPairs {
  const Pair* pairs;
  std::int32_t* inputs;
  std::int32_t* targets;

  PENSTOCK_HD void operator()(std::size_t i) const {
    inputs[i] = static_cast<std::int32_t>(pairs[i].x);
    targets[i] = static_cast<std::int32_t>(pairs[i].y);
  }
};
/// @}

/// Where a batch's inputs and targets go: device memory for batch * context numbers each.
struct FeedInto {
  std::int32_t* inputs;
  std::int32_t* targets;
};

/// Which batches a feed has. Its windows lie side by side; in each epoch they are shifted by
/// another number of tokens, and come in another order. Without `shifted` they stay where they are.
struct FeedOptions {
  std::size_t batch = 1;   ///< Windows of a batch. What an epoch has less than a batch is left out.
  std::size_t context = 1; ///< Inputs of a window, which has one token more.
  std::uint64_t seed = 1337;
  bool shifted = true;
  std::uint64_t records = 0; ///< Windows of an epoch, over all ranks; 0: all.
  std::uint64_t epochs = 1'000'000'000;
  penstock::Ranks ranks = {};
  Events events = {}; ///< pinned, prefetch, workers and layout count.
};

/// Fills inputs and targets, batch by batch.
template <penstock::AnyDevice D> class Feed {
 public:
  /// Is called with the position behind each batch, when the work that fills inputs and targets has
  /// been enqueued. Returns whether it wants another batch.
  using Step = std::function<bool(const penstock::Position&)>;

  virtual ~Feed() = default;
  /// Calls step() for each batch from a position on. All work is enqueued on `stream`. Throws what
  /// penstock throws, and what step() throws.
  virtual void each(penstock::Stream<D> stream, const penstock::Position& from,
                    const Step& step) = 0;
  /// Returns the seconds in which the loop, or the device, has waited for data, in the last call of
  /// each() until now. Also while that runs.
  virtual double waited_s() const = 0;
  /// Returns what the pipeline did, if there is one.
  virtual std::optional<penstock::Report> report() const = 0;
};

} // namespace transformer
