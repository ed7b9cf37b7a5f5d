// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dropout.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <stdexcept>
#include <vector>

namespace transformer {

/// How a token is chosen.
struct SamplerOptions {
  float temperature = 1;  ///< Logits are divided by it; 0: the likeliest is chosen.
  std::size_t top_k = 0;  ///< Only so many likeliest can be chosen; 0: all.
  std::uint64_t seed = 1; ///< Equal seeds, equal choices.
};

/// Chooses one token after the other, by their logits.
class Sampler {
 public:
  explicit Sampler(const SamplerOptions& options) : options_{options} {}

  /// Returns the number of a token. Of equally likely ones, the lower numbers come first. Throws
  /// std::runtime_error for logits that are no numbers.
  std::size_t operator()(std::span<const float> logits) {
    ++drawn_;
    if (!std::ranges::all_of(logits, [](float logit) { return std::isfinite(logit); })) {
      throw std::runtime_error{"the model's logits are no numbers: its training has diverged, so "
                               "take an earlier checkpoint, or train with a lower --rate"};
    }
    if (options_.temperature == 0) {
      return static_cast<std::size_t>(std::ranges::max_element(logits) - logits.begin());
    }
    keep_likeliest(logits);
    const float greatest = logits[*std::ranges::max_element(
        kept_, {}, [&](std::size_t token) { return logits[token]; })];
    weights_.resize(kept_.size());
    std::ranges::transform(kept_, weights_.begin(), [&](std::size_t token) {
      return std::exp((static_cast<double>(logits[token]) - static_cast<double>(greatest)) /
                      static_cast<double>(options_.temperature));
    });
    const double sum = std::accumulate(weights_.begin(), weights_.end(), 0.0);
    double left = sum * static_cast<double>(mixed(mixed(options_.seed) + drawn_) >> 11) * 0x1p-53;
    std::size_t chosen = 0;
    for (; chosen + 1 < kept_.size() && left >= weights_[chosen]; ++chosen) {
      left -= weights_[chosen];
    }
    return kept_[chosen];
  }

 private:
  /// Fills kept_ with the tokens that can be chosen.
  void keep_likeliest(std::span<const float> logits) {
    kept_.resize(logits.size());
    std::iota(kept_.begin(), kept_.end(), std::size_t{0});
    if (options_.top_k == 0 || options_.top_k >= logits.size()) {
      return;
    }
    const auto end = kept_.begin() + static_cast<std::ptrdiff_t>(options_.top_k);
    std::ranges::nth_element(kept_, end, [&](std::size_t a, std::size_t b) {
      return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
    });
    kept_.erase(end, kept_.end());
    std::ranges::sort(kept_);
  }

  SamplerOptions options_;
  std::uint64_t drawn_ = 0;
  std::vector<std::size_t> kept_;
  std::vector<double> weights_;
};

} // namespace transformer
