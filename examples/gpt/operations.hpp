// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "config.hpp"

#include <cstddef>
#include <cstdint>

namespace transformer {

/// What a model was used for, while somebody looked on.
struct ModelUse {
  std::size_t tokens{};       ///< Of a sequence.
  std::uint64_t trained{};    ///< Sequences that went forward and backward.
  std::uint64_t validated{};  ///< Sequences that went forward alone.
  std::size_t group{};        ///< Blocks whose activations were kept; those of others came twice.
  bool fused_attention{true}; ///< In one kernel, which leaves out what causality hides.
};

/// Additions and multiplications that tensor cores can do, each counted as one.
struct Operations {
  double products{};           ///< By cuBLASLt.
  double attention_forward{};  ///< By the fused kernel.
  double attention_backward{}; ///< By the fused kernel.

  double all() const noexcept { return products + attention_forward + attention_backward; }
};

/// Returns what a use took, from the shapes alone: a product of m x k and k x n values is 2 m n k
/// operations. All positions of the vocabulary count, padded ones too, and of fused attention the
/// pairs of tokens that causality leaves.
inline Operations operations_of(const Config& config, const ModelUse& use) {
  const auto width = static_cast<double>(config.width);
  const auto layers = static_cast<double>(config.layers);
  const auto tokens = static_cast<double>(use.tokens);
  const auto trained = static_cast<double>(use.trained);
  const double forward = trained + static_cast<double>(use.validated);
  // A group's last product need not be made again: its result is the next group's input.
  const double groups = use.group != 0 ? layers / static_cast<double>(use.group) : 1;
  const double again = trained * (layers - layers / groups);
  const double down_left_out = trained * (groups - 1);

  const double down = 2 * tokens * 4 * width * width;
  const double block = 2 * tokens * 12 * width * width;
  const double head = 2 * tokens * width * static_cast<double>(config.padded_vocabulary());
  Operations sum;
  // Backward makes two products of each of forward's.
  sum.products =
      (forward + 2 * trained) * (layers * block + head) + again * block - down_left_out * down;
  // Forward has two products of each pair of tokens, queries by keys and weights by values, and
  // backward four, and a fifth where it computes the weights again.
  const double pairs = use.fused_attention ? tokens * (tokens + 1) / 2 : tokens * tokens;
  const double pair_product = 2 * pairs * width;
  const double attention_forward = 2 * pair_product * (forward * layers + again);
  if (use.fused_attention) {
    sum.attention_forward = attention_forward;
    sum.attention_backward = 5 * pair_product * trained * layers;
  } else {
    sum.products += attention_forward + 4 * pair_product * trained * layers;
  }
  return sum;
}

} // namespace transformer
