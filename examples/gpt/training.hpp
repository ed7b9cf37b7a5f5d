// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "adamw.hpp"
#include "gradient_sums.hpp"
#include "initial.hpp"
#include "model.hpp"
#include "model_layout.hpp"
#include "reducer.hpp"
#include "replayed_work.hpp"
#include "side_stream.hpp"
#include "training_options.hpp"

#include <penstock/device/device_array.hpp>
#include <penstock/error.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace transformer {

/// A model with its optimiser. You fill inputs() and targets() on stream(), and call pass(); work
/// that reads loss() or fills the next batch follows on the same stream. Its memory is all
/// allocated at the start. For one thread at a time, to which the device is attached.
template <class Ops> class Training {
 public:
  using T = typename Ops::value_type;
  using D = typename Ops::device_type;

  /// Begins with initial_parameters(). `ops_options` go to Ops. Blocks until all is there. Throws
  /// OptionError.
  template <class... OpsOptions>
  Training(D& device, const Config& config, const TrainingOptions& options,
           OpsOptions... ops_options)
      : device_{device}, options_{checked(options)}, layout_{config},
        ops_{device, config.shape(options.batch), ops_options...},
        side_{device, ops_.stream(), options.graph}, inputs_{device, ops_.shape().rows()},
        targets_{device, ops_.shape().rows()}, parameters_{device, layout_.size()},
        gradients_{device, layout_.size()},
        model_{device,
               ops_,
               config,
               parameters_.data(),
               gradients_.data(),
               {options.group, options.dropout, options.seed, options.logit_bytes, options.ranks}},
        sums_{device, layout_, options.ranks, model_.loss(), gradients_.data()},
        adamw_{device,
               parts(layout_),
               {layout_.blocks(), layout_.block().block()},
               parameters_.data(),
               gradients_.data(),
               stream(),
               options.adamw} {
    const std::vector<float> initial = initial_parameters(config, options.seed);
    device_.copy_to_device(adamw_.master(), initial.data(), initial.size() * sizeof(float),
                           stream());
    adamw_.restore(0, stream());
    device_.sync(stream());
  }
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;
  /// Blocks until all work is done: it uses memory that goes now.
  ~Training() {
    try {
      device_.sync(side_.stream());
      device_.sync(stream());
    } catch (const penstock::DeviceError&) {
      return; // nothing runs on a device that has broken down
    }
  }

  typename D::stream_type& stream() noexcept { return ops_.stream(); }
  const ModelLayout& layout() const noexcept { return layout_; }
  const TrainingOptions& options() const noexcept { return options_; }
  /// Return where a pass's tokens and their targets go: a sequence after the other, each number
  /// below the vocabulary.
  /// @{
  penstock::DeviceArray<std::int32_t, D>& inputs() noexcept { return inputs_; }
  penstock::DeviceArray<std::int32_t, D>& targets() noexcept { return targets_; }
  /// @}
  /// Returns the mean loss of the latest step's passes so far, or of the latest evaluation; one
  /// value in device memory. With several ranks it is the mean over all, and is there when a step
  /// is whole.
  const Wide<T>* loss() const noexcept { return sums_.loss(); }
  /// Returns what the latest step of the optimiser knew, such as its rate; in device memory.
  const StepNumbers* now() const noexcept { return adamw_.now(); }
  /// Return how many passes and whole steps have been enqueued.
  /// @{
  std::uint64_t passes() const noexcept { return passes_; }
  std::uint64_t steps() const noexcept { return passes_ / options_.micro_batches; }
  /// @}
  Model<Ops>& model() noexcept { return model_; }
  AdamW<T, D>& adamw() noexcept { return adamw_; }

  /// Has the ranks of TrainingOptions::ranks add up their gradients and losses: call it before the
  /// first pass if there are several. All of them must then make the same passes and evaluations.
  void reduce_by(Reducer<Wide<T>, D>& reducer) noexcept { sums_.reduce_by(reducer); }

  /// Enqueues forward and backward over inputs() and targets(), and with a step's last pass the
  /// optimiser's step. Returns whether this was a step's last.
  bool pass() {
    sums_.check();
    const bool first = passes_ % options_.micro_batches == 0;
    const bool last = (passes_ + 1) % options_.micro_batches == 0;
    work_[first ? 1 : 0][last ? 1 : 0].enqueue(device_, stream(), options_.graph,
                                               [&] { enqueue(first, last); });
    ++passes_;
    return last;
  }
  /// Enqueues the loss of inputs() and targets(), without dropout. It changes nothing but loss().
  void evaluate() {
    evaluation_.enqueue(device_, stream(), options_.graph, [&] {
      model_.evaluate(inputs_.data(), targets_.data());
      sums_.share_loss(stream());
    });
  }

  /// Returns the state. Blocks until all passes are done. Throws Error in the middle of a step,
  /// whose gradients it would lack.
  TrainingState state() {
    check_between_steps("saved");
    TrainingState now;
    now.steps = steps();
    now.passes = passes_;
    const auto read = [&](std::vector<float>& to, const float* from) {
      to.resize(adamw_.size());
      device_.copy_to_host(to.data(), from, to.size() * sizeof(float), stream());
    };
    read(now.masters, adamw_.master());
    read(now.means, adamw_.mean());
    read(now.squares, adamw_.square());
    device_.sync(stream());
    return now;
  }
  /// Goes on from a state. Blocks. Throws Error if the state is that of another model or of other
  /// micro-batches, and in the middle of a step.
  void restore(const TrainingState& state) {
    check_between_steps("restored");
    const std::size_t size = adamw_.size();
    if (state.masters.size() != size || state.means.size() != size ||
        state.squares.size() != size || state.passes != state.steps * options_.micro_batches) {
      throw penstock::Error{
          "a state of " + std::to_string(state.masters.size()) + " values and " +
          std::to_string(state.passes) + " passes in " + std::to_string(state.steps) +
          " steps is not one of this training: " + std::to_string(size) + " values, and " +
          std::to_string(options_.micro_batches) + " passes a step"};
    }
    const auto write = [&](float* to, const std::vector<float>& from) {
      device_.copy_to_device(to, from.data(), size * sizeof(float), stream());
    };
    write(adamw_.master(), state.masters);
    write(adamw_.mean(), state.means);
    write(adamw_.square(), state.squares);
    went_on(state.steps);
    device_.sync(stream());
  }
  /// Goes on after so many steps, from what you have enqueued on stream() to be filled into the
  /// optimiser's master(), mean() and square().
  void went_on(std::uint64_t steps) {
    passes_ = steps * options_.micro_batches;
    adamw_.restore(steps, stream());
    penstock::for_each(stream(), 1, Fill<std::uint64_t>{model_.passes(), passes_});
  }

 private:
  static const TrainingOptions& checked(const TrainingOptions& options) {
    if (options.batch == 0 || options.micro_batches == 0) {
      throw penstock::OptionError{"a batch of 0 sequences, or a step of 0 micro-batches: take 1 "
                                  "or more"};
    }
    if (options.way == StepWay::beside_backward && (options.adamw.clip > 0 || options.graph)) {
      throw penstock::OptionError{"an optimiser beside backward begins before all gradients are "
                                  "there, on a stream of its own: turn off clip and graph, or take "
                                  "StepWay::all"};
    }
    return options;
  }
  static std::vector<Part> parts(const ModelLayout& layout) {
    std::vector<Part> all;
    for (const Place& place : layout.places()) {
      all.push_back({place.begin, place.count(), place.decays});
    }
    return all;
  }
  void check_between_steps(const char* what) const {
    if (passes_ % options_.micro_batches != 0) {
      throw penstock::Error{"training cannot be " + std::string{what} + " after " +
                            std::to_string(passes_ % options_.micro_batches) + " of a step's " +
                            std::to_string(options_.micro_batches) + " passes: finish the step"};
    }
  }

  void enqueue(bool first, bool last) {
    if (first) {
      model_.clear_gradients();
    }
    if (!last) {
      model_.train(inputs_.data(), targets_.data(), first);
      return;
    }
    if (steps_beside()) {
      begin_step();
    }
    model_.train(inputs_.data(), targets_.data(), first, [&](std::size_t block) { done(block); });
    if (sums_) {
      side_.follow();
      sums_.embeddings(side_.stream());
      side_.join();
    }
    step();
  }
  // Whatever reads the block's parameters has been enqueued by now.
  void done(std::size_t block) {
    if (sums_ || steps_beside()) {
      side_.follow();
      sums_.block(block, side_.stream());
      if (steps_beside()) {
        adamw_.block(block, side_.stream());
      }
    }
  }
  void step() {
    if (steps_beside()) {
      adamw_.range(0, layout_.blocks(), stream());
      adamw_.range(layout_.norm_weight(), layout_.size() - layout_.norm_weight(), stream());
      side_.join();
      return;
    }
    begin_step();
    options_.way == StepWay::all ? adamw_.all(stream()) : adamw_.each_tensor(stream());
  }
  bool steps_beside() const noexcept { return options_.way == StepWay::beside_backward; }
  void begin_step() { adamw_.begin_step(options_.micro_batches * options_.ranks.world); }

  D& device_;
  TrainingOptions options_;
  ModelLayout layout_;
  Ops ops_;
  SideStream<D> side_;
  penstock::DeviceArray<std::int32_t, D> inputs_, targets_;
  penstock::DeviceArray<T, D> parameters_;
  penstock::DeviceArray<Wide<T>, D> gradients_;
  Model<Ops> model_;
  GradientSums<Wide<T>, D> sums_;
  AdamW<T, D> adamw_;
  std::array<std::array<ReplayedWork<D>, 2>, 2> work_; // whether it is a step's first, and last
  ReplayedWork<D> evaluation_;
  std::uint64_t passes_ = 0;
};

} // namespace transformer
