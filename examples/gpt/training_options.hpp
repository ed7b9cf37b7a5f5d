// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "adamw_step.hpp"
#include "model.hpp"

#include <penstock/order/order.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace transformer {

/// How the optimiser's work is enqueued.
enum class StepWay : std::uint8_t {
  each_tensor,     ///< After backward, a kernel for each tensor.
  all,             ///< After backward, one kernel.
  beside_backward, ///< A kernel for each block, on a second stream, as soon as backward is done
                   ///< with it. The gradients cannot be clipped, and there are no graphs.
};

struct TrainingOptions {
  std::size_t batch = 8;         ///< Sequences of a pass.
  std::size_t micro_batches = 1; ///< Passes of a step.
  std::size_t group = 0;         ///< Blocks whose activations are kept: see Stack. 0: all of them.
  bool graph = false;            ///< Whether passes are captured and launched as graphs.
  StepWay way = StepWay::all;
  float dropout = 0;
  std::uint64_t seed = 1337; ///< Of the first parameters and of dropout.
  std::size_t logit_bytes = ModelOptions{}.logit_bytes;
  AdamWOptions adamw = {}; ///< With the schedule and the clipping.
  /// With several ranks a step is made of the passes of all: see Training::reduce_by().
  penstock::Ranks ranks = {};
};

/// What training goes on from, to the last bit on the host device: on a GPU, sums in another order
/// make last bits differ.
struct TrainingState {
  std::vector<float> masters, means, squares; ///< ModelLayout::size() values each.
  std::uint64_t steps = 0;
  std::uint64_t passes = 0;

  bool operator==(const TrainingState&) const = default;
};

} // namespace transformer
