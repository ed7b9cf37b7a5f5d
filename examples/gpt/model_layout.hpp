// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "config.hpp"
#include "shape.hpp"

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace transformer {

/// Where a tensor lies among a model's parameters, counted in values.
struct Place {
  std::string name; ///< Such as "wte" or "block3.qkv_weight".
  std::size_t begin;
  std::size_t rows; ///< 1 for a vector.
  std::size_t columns;
  bool decays; ///< Whether AdamW makes it smaller: matrices, but no scales and shifts.

  std::size_t count() const noexcept { return rows * columns; }
};

/// Where all tensors of a model lie in one array: the token embedding, which is the head's matrix
/// too, the position embedding, the blocks as Layout has them, and the last norm. Each begins at a
/// multiple of Layout::grain; what lies between two tensors stays 0.
class ModelLayout {
 public:
  explicit ModelLayout(const Config& config)
      : config_{config}, block_{config.shape(1)},
        positions_{grains(config.padded_vocabulary() * config.width)},
        blocks_{positions_ + grains(config.context * config.width)},
        norm_weight_{blocks_ + config.layers * block_.block()},
        norm_bias_{norm_weight_ + grains(config.width)}, size_{norm_bias_ + grains(config.width)} {}

  const Config& config() const noexcept { return config_; }
  /// Returns the layout inside a block.
  const Layout& block() const noexcept { return block_; }
  /// Return where a part begins.
  /// @{
  std::size_t token_embedding() const noexcept { return 0; }
  std::size_t position_embedding() const noexcept { return positions_; }
  std::size_t blocks() const noexcept { return blocks_; }
  std::size_t norm_weight() const noexcept { return norm_weight_; }
  std::size_t norm_bias() const noexcept { return norm_bias_; }
  /// @}
  /// Returns how many values there are, with those between tensors.
  std::size_t size() const noexcept { return size_; }

  /// Returns all tensors in the order of memory.
  std::vector<Place> places() const {
    const std::size_t c = config_.width;
    std::vector<Place> all{{"wte", token_embedding(), config_.padded_vocabulary(), c, true},
                           {"wpe", positions_, config_.context, c, true}};
    for (std::size_t block = 0; block < config_.layers; ++block) {
      for (std::size_t tensor = 0; tensor < tensors; ++tensor) {
        const bool is_matrix = Layout::decays(tensor);
        const std::size_t columns =
            tensor == static_cast<std::size_t>(Tensor::down_weight) ? 4 * c : c;
        const std::size_t count = block_.size(tensor);
        std::string name = "block" + std::to_string(block) + ".";
        name += tensor_names[tensor];
        all.push_back({name, blocks_ + block * block_.block() + block_.begin(tensor),
                       is_matrix ? count / columns : 1, is_matrix ? columns : count, is_matrix});
      }
    }
    all.push_back({"norm_weight", norm_weight_, 1, c, false});
    all.push_back({"norm_bias", norm_bias_, 1, c, false});
    return all;
  }

 private:
  static constexpr std::array<std::string_view, tensors> tensor_names{
      "norm1_weight", "norm1_bias", "qkv_weight", "qkv_bias", "project_weight", "project_bias",
      "norm2_weight", "norm2_bias", "up_weight",  "up_bias",  "down_weight",    "down_bias"};

  static std::size_t grains(std::size_t values) noexcept {
    return (values + Layout::grain - 1) / Layout::grain * Layout::grain;
  }

  Config config_;
  Layout block_;
  std::size_t positions_;
  std::size_t blocks_;
  std::size_t norm_weight_;
  std::size_t norm_bias_;
  std::size_t size_;
};

} // namespace transformer
