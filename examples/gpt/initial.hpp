// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dropout.hpp"
#include "model_layout.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace transformer {

/// Calls f(value) for `count` numbers of a normal distribution with mean 0, the same for each seed.
template <class F>
void normal_numbers(std::size_t count, float deviation, std::uint64_t seed, F f) {
  constexpr double turn = 2 * 3.14159265358979323846;
  // Of two uniform numbers, one gives a point's distance and the other its direction: its
  // coordinates are two normal ones.
  for (std::size_t i = 0; i < count; i += 2) {
    const std::uint64_t bits = mixed(seed + i);
    const auto above_0 = static_cast<double>((bits >> 32) + 1) * 0x1p-32;
    const auto share = static_cast<double>(bits & 0xffffffff) * 0x1p-32;
    const double distance = deviation * std::sqrt(-2 * std::log(above_0));
    f(static_cast<float>(distance * std::cos(turn * share)));
    if (i + 1 < count) {
      f(static_cast<float>(distance * std::sin(turn * share)));
    }
  }
}

/// Returns a model's first parameters, in GPT-2's way: scales are 1, shifts are 0, and matrices are
/// normal with a deviation of 0.02, but for those before a residual's sum, to which all layers add.
/// The padded rows of the token embedding are 0.
inline std::vector<float> initial_parameters(const Config& config, std::uint64_t seed) {
  const ModelLayout layout{config};
  std::vector<float> values(layout.size());
  constexpr float usual = 0.02F;
  const float residual = usual / std::sqrt(2 * static_cast<float>(config.layers));
  std::uint64_t tensor = 0;
  for (const Place& place : layout.places()) {
    const std::string_view name = place.name;
    float* at = values.data() + place.begin;
    ++tensor;
    if (name.find("norm") != name.npos) {
      if (name.ends_with("_weight")) {
        std::fill_n(at, place.count(), 1.0F);
      }
    } else if (place.decays) {
      const bool adds = name.ends_with("project_weight") || name.ends_with("down_weight");
      const std::size_t rows = name == "wte" ? config.vocabulary : place.rows;
      normal_numbers(rows * place.columns, adds ? residual : usual, mixed(mixed(seed) + tensor),
                     [&](float value) { *at++ = value; });
    }
  }
  return values;
}

} // namespace transformer
