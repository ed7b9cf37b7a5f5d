// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dropout.hpp"
#include "loss_head.hpp"
#include "model_layout.hpp"
#include "on_device.hpp"
#include "ops.hpp"
#include "stack.hpp"

#include <penstock/device/device_array.hpp>
#include <penstock/error.hpp>
#include <penstock/order/order.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

namespace transformer {

struct ModelOptions {
  std::size_t group = 0;  ///< Blocks whose activations are kept: see Stack. 0: all of them.
  float dropout = 0;      ///< One value out of 1 / dropout is dropped in training.
  std::uint64_t seed = 0; ///< Of dropout.
  std::size_t logit_bytes = std::size_t{512} << 20; ///< The most for logits.
  penstock::Ranks ranks = {};                       ///< For dropout: see Drops.
};

/// A GPT-2: embeddings, blocks, a norm, and the token embedding again for the head. All work is
/// enqueued on the operations' stream. Tokens and targets are device memory, one for each row.
template <class Ops> class Model {
 public:
  using T = typename Ops::value_type;
  using D = typename Ops::device_type;

  /// Takes parameters and gradients, each of ModelLayout{config}.size() values that must outlive
  /// it. A model that does not train needs no gradients: they may be null. Throws OptionError.
  Model(D& device, Ops& ops, const Config& config, T* parameters, Wide<T>* gradients,
        const ModelOptions& options = {})
      : ops_{ops}, layout_{config}, parameters_{parameters}, gradients_{gradients},
        passes_{device, 1}, dropout_{checked_rate(options.dropout), options.seed, passes_.data(),
                                     ops.shape(), options.ranks},
        stack_{device,
               ops,
               options.group != 0 ? options.group : config.layers,
               {parameters + layout_.blocks(), gradient(layout_.blocks())},
               dropout_},
        normed_{device, ops.shape().values()}, statistics_{device, 2 * ops.shape().rows()},
        head_{device,
              ops,
              config,
              parameters + layout_.token_embedding(),
              gradient(layout_.token_embedding()),
              options.logit_bytes} {}

  const ModelLayout& layout() const noexcept { return layout_; }
  T* parameters() noexcept { return parameters_; }
  Wide<T>* gradients() noexcept { return gradients_; }
  /// Returns the number of training passes so far, in device memory: dropout follows from it.
  std::uint64_t* passes() noexcept { return passes_.data(); }
  /// Returns the mean loss of the latest step's passes so far, or of the latest evaluation; in
  /// device memory.
  const Wide<T>* loss() const noexcept { return head_.loss(); }
  /// Returns the bytes that are kept between forward and backward.
  std::size_t activation_bytes() const noexcept { return stack_.activation_bytes(); }

  void clear_gradients() {
    penstock::for_each(ops_.stream(), layout_.size(), Fill<Wide<T>>{gradients_, 0});
  }

  /// Computes the loss of a batch, and adds the gradients of its mean. `first`: whether loss()
  /// begins anew, rather than go on to be the mean of several passes. Calls done(block) as
  /// Stack::backward() does.
  template <class F>
  void train(const std::int32_t* tokens, const std::int32_t* targets, bool first, F done) {
    embed(tokens, dropout_.embeddings());
    stack_.forward();
    norm();
    head_.train(normed_.data(), targets, first);
    ops_.norm_backward({normed_.data(), stack_.out(), parameters_ + layout_.norm_weight(),
                        statistics_.data(), statistics_.data() + ops_.shape().rows(), stack_.d(),
                        gradient(layout_.norm_weight()), gradient(layout_.norm_bias()), false});
    stack_.backward(done);
    ops_.embedding_backward({stack_.d(), tokens, gradient(layout_.token_embedding()),
                             gradient(layout_.position_embedding()), dropout_.embeddings()});
    penstock::for_each(ops_.stream(), 1, CountUp{passes_.data()});
  }
  void train(const std::int32_t* tokens, const std::int32_t* targets, bool first = true) {
    train(tokens, targets, first, [](std::size_t) {});
  }

  /// Computes the loss of a batch; drops nothing, and changes no gradients.
  void evaluate(const std::int32_t* tokens, const std::int32_t* targets) {
    forward(tokens);
    head_.evaluate(normed_.data(), targets);
  }

  /// Computes what logits() begins with; drops nothing.
  void forward(const std::int32_t* tokens) {
    embed(tokens, {});
    stack_.evaluate();
    norm();
  }
  /// Computes the logits of some rows after forward(), and returns where in device memory they will
  /// be until the next pass: for each row, those of the padded vocabulary. Throws OptionError if
  /// these are more rows than ModelOptions::logit_bytes allow.
  const T* logits(std::size_t begin, std::size_t rows) {
    return head_.logits(normed_.data(), begin, rows);
  }

 private:
  static float checked_rate(float rate) {
    if (!(rate >= 0 && rate <= 0.99F)) {
      throw penstock::OptionError{"a dropout of " + std::to_string(rate) +
                                  " is not from 0 to 0.99"};
    }
    return rate;
  }
  Wide<T>* gradient(std::size_t begin) const noexcept {
    return gradients_ != nullptr ? gradients_ + begin : nullptr;
  }
  void embed(const std::int32_t* tokens, const Drops& drops) {
    ops_.embedding({tokens, parameters_ + layout_.token_embedding(),
                    parameters_ + layout_.position_embedding(), stack_.in(), drops});
  }
  void norm() {
    ops_.norm({stack_.out(), parameters_ + layout_.norm_weight(), parameters_ + layout_.norm_bias(),
               normed_.data(), statistics_.data(), statistics_.data() + ops_.shape().rows()});
  }

  Ops& ops_;
  ModelLayout layout_;
  T* parameters_;
  Wide<T>* gradients_;
  penstock::DeviceArray<std::uint64_t, D> passes_;
  Dropout dropout_;
  Stack<Ops> stack_;
  penstock::DeviceArray<T, D> normed_; // and then its gradient
  penstock::DeviceArray<Wide<T>, D> statistics_;
  LossHead<Ops> head_;
};

} // namespace transformer
