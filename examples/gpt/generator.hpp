// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "checkpoint.hpp"
#include "config.hpp"
#include "model.hpp"
#include "model_layout.hpp"

#include <penstock/device/device_array.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace transformer {

/// A model that says what may come next. `Ops` compute in floats. For one thread at a time.
template <class Ops> class Generator {
 public:
  using D = typename Ops::device_type;

  /// Reads the weights of a checkpoint, and allocates for sequences of up to `most_tokens`, as far
  /// as the model goes: of longer ones, the last tokens count. Blocks. Throws what Checkpoint
  /// throws, and what the device throws.
  template <class Io>
  Generator(D& device, const Checkpoint<Io>& checkpoint, std::size_t most_tokens)
      : device_{device}, config_{checkpoint.config()}, ops_{device, shape(config_, most_tokens)},
        parameters_{device, ModelLayout{config_}.size()}, tokens_{device, ops_.shape().tokens},
        model_{device,  ops_,
               config_, parameters_.data(),
               nullptr, {.logit_bytes = config_.padded_vocabulary() * sizeof(float)}},
        logits_(config_.vocabulary) {
    checkpoint.read(StateArray::masters, [&](std::size_t first, std::span<const float> values) {
      device_.copy_to_device(parameters_.data() + first, values.data(), values.size_bytes(),
                             ops_.stream());
      device_.sync(ops_.stream());
    });
  }

  /// Returns the logits of each token of the vocabulary, to come behind these, of which there is at
  /// least one. They are valid until the next call. Blocks.
  std::span<const float> operator()(std::span<const std::int32_t> tokens) {
    const std::span<const std::int32_t> last = tokens.last(std::min(tokens.size(), tokens_.size()));
    auto& stream = ops_.stream();
    device_.copy_to_device(tokens_.data(), last.data(), last.size_bytes(), stream);
    model_.forward(tokens_.data());
    const float* const logits = model_.logits(last.size() - 1, 1);
    device_.copy_to_host(logits_.data(), logits, logits_.size() * sizeof(float), stream);
    device_.sync(stream);
    return logits_;
  }

 private:
  // Kernels like round numbers of tokens.
  static Shape shape(const Config& config, std::size_t most_tokens) {
    Shape shape = config.shape(1);
    shape.tokens = std::min(config.context, (most_tokens + 63) / 64 * 64);
    return shape;
  }

  D& device_;
  Config config_;
  Ops ops_;
  penstock::DeviceArray<float, D> parameters_;
  penstock::DeviceArray<std::int32_t, D> tokens_; // those behind the last one change nothing
  Model<Ops> model_;
  std::vector<float> logits_;
};

} // namespace transformer
