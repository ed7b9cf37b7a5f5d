// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "checkpoint_state.hpp"
#include "config.hpp"
#include "events.hpp"
#include "feed.hpp"
#include "train_options.hpp"
#include "training.hpp"

#include <penstock/order/order.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>

namespace transformer {

/// What the options and the data make of a training.
struct TrainPlan {
  Config config;
  TrainingOptions training;
  FeedOptions trained;
  FeedOptions held_out;
  Events events;
  bool fused_attention{}; ///< On tensor cores, if the model's sizes are those that it is for.
  /// What must not change when the training goes on, by the options' names.
  std::map<std::string, std::string> fixed;
  /// What stays as it was when the training goes on, unless another value is given.
  std::map<std::string, std::string> kept;
};

/// Returns the shortest text that is read back as the same number.
inline std::string shortest(float value) {
  std::array<char, 32> text;
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

/// Returns what a training that goes on from a state takes from it where no option is given.
inline std::map<std::string, std::string> kept_in(const CheckpointState& state) {
  std::map<std::string, std::string> kept{{"--dropout", shortest(state.dropout)}};
  for (const char* name : {"--rate", "--warmup", "--decay-steps", "--clip", "--decay"}) {
    if (const auto option = state.options.find(name); option != state.options.end()) {
      kept.insert(*option);
    }
  }
  return kept;
}

/// Returns how many blocks' activations to keep if others are recomputed, for the least memory: a
/// block has about 15 values for each value of its input.
inline std::size_t least_group(std::size_t layers) {
  std::size_t best = 1;
  const auto kept = [layers](std::size_t group) { return 16 * group + layers / group; };
  for (std::size_t group = 1; group <= layers; ++group) {
    if (layers % group == 0 && kept(group) < kept(best)) {
      best = group;
    }
  }
  return best;
}

/// Makes a rank's plan of a training for data with tokens of `ids` different numbers, of which
/// `held_out` are held out. Throws std::invalid_argument, whose text is one line.
inline TrainPlan make_plan(const TrainOptions& options, std::size_t ids, std::uint64_t held_out,
                           const penstock::Ranks& ranks = {}) {
  struct Usual {
    std::size_t batch;
    float rate;
    float dropout;
    float beta2;
  };
  const Usual usual = options.config == "tiny"    ? Usual{8, 2e-3F, 0, 0.99F}
                      : options.config == "small" ? Usual{64, 1e-3F, 0.2F, 0.99F}
                                                  : Usual{16, 6e-4F, 0, 0.95F};
  TrainPlan plan;
  plan.events = parse_events(options.events);
  plan.config = presets::named(options.config);
  plan.config.vocabulary = ids;
  plan.config.context = options.context.value_or(plan.config.context);
  const std::size_t head = plan.config.width / plan.config.heads;
  plan.fused_attention =
      plan.events.tensor_cores && (head == 64 || head == 128) && plan.config.context % 128 == 0;
  const std::size_t batch = options.batch.value_or(usual.batch);
  if (batch % options.micro_batches != 0) {
    throw std::invalid_argument{"a batch of " + std::to_string(batch) +
                                " sequences is not made up of " +
                                std::to_string(options.micro_batches) +
                                " equal micro-batches: give --batch or --micro-batches"};
  }
  if (plan.events.overlapped && plan.events.graph) {
    throw std::invalid_argument{
        "optimiser=overlapped works on a stream of its own, which no graph of a pass has: leave "
        "out graph, or take optimiser"};
  }
  if (options.decay_steps != 0 && options.decay_steps <= options.warmup) {
    throw std::invalid_argument{"--decay-steps is " + std::to_string(options.decay_steps) +
                                ", and until step " + std::to_string(options.warmup) +
                                " the rate grows: give more, or a smaller --warmup"};
  }
  if (plan.events.overlapped && options.clip != 0) {
    throw std::invalid_argument{
        "optimiser=overlapped updates blocks before all gradients are there, so nothing can clip "
        "them: give --clip 0 too"};
  }
  TrainingOptions& training = plan.training;
  training.ranks = ranks;
  training.batch = batch / options.micro_batches;
  training.micro_batches = options.micro_batches;
  training.group = plan.events.recompute ? least_group(plan.config.layers) : 0;
  training.graph = plan.events.graph;
  training.way = plan.events.overlapped  ? StepWay::beside_backward
                 : plan.events.optimiser ? StepWay::all
                                         : StepWay::each_tensor;
  training.dropout = options.dropout.value_or(usual.dropout);
  training.seed = options.seed;
  training.adamw = {.rate = options.rate.value_or(usual.rate),
                    .beta2 = usual.beta2,
                    .decay = options.decay,
                    .clip = options.clip,
                    .schedule = {.warm_up = options.warmup, .steps = options.decay_steps}};
  plan.kept = {{"--rate", shortest(training.adamw.rate)},
               {"--warmup", std::to_string(options.warmup)},
               {"--decay-steps", std::to_string(options.decay_steps)},
               {"--clip", shortest(options.clip)},
               {"--decay", shortest(options.decay)}};

  plan.trained = {.batch = training.batch,
                  .context = plan.config.context,
                  .seed = options.seed,
                  .ranks = ranks,
                  .events = plan.events};
  plan.held_out = plan.trained;
  plan.held_out.shifted = false;
  plan.held_out.epochs = 1;
  const std::uint64_t windows = held_out == 0 ? 0 : (held_out - 1) / plan.config.context;
  const std::uint64_t pass = training.batch * std::uint64_t{ranks.world};
  plan.held_out.records =
      std::min(options.eval_batches * options.micro_batches, windows / pass) * pass;
  if (options.eval_every != 0 && plan.held_out.records == 0) {
    throw std::invalid_argument{
        "held out are " + std::to_string(held_out) + " tokens, " + std::to_string(windows) +
        " windows of " + std::to_string(plan.config.context) + ", and a batch has " +
        std::to_string(pass) +
        ": give --val FILE, more data, or a smaller --batch or --context, or --eval-every 0"};
  }
  plan.fixed = {{"--batch", std::to_string(batch * ranks.world)},
                {"--seed", std::to_string(options.seed)}};
  return plan;
}

} // namespace transformer
