// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dropout.hpp"
#include "model_layout.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

namespace transformer {

/// Fills `numbers` with numbers of a normal distribution with mean 0, the same for each seed: those
/// from number `first` on, which is even.
inline void fill_normal(std::span<float> numbers, std::size_t first, float deviation,
                        std::uint64_t seed) {
  constexpr double turn = 2 * 3.14159265358979323846;
  // Of two uniform numbers, one gives a point's distance and the other its direction: its
  // coordinates are two normal ones.
  for (std::size_t i = 0; i < numbers.size(); i += 2) {
    const std::uint64_t bits = mixed(seed + first + i);
    const auto above_0 = static_cast<double>((bits >> 32) + 1) * 0x1p-32;
    const auto share = static_cast<double>(bits & 0xffffffff) * 0x1p-32;
    const double distance = deviation * std::sqrt(-2 * std::log(above_0));
    numbers[i] = static_cast<float>(distance * std::cos(turn * share));
    if (i + 1 < numbers.size()) {
      numbers[i + 1] = static_cast<float>(distance * std::sin(turn * share));
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
  struct Piece {
    std::span<float> numbers;
    std::size_t first;
    float deviation;
    std::uint64_t seed;
  };
  std::vector<Piece> pieces;
  constexpr std::size_t most = std::size_t{1} << 20; // values of a piece
  std::uint64_t tensor = 0;
  for (const Place& place : layout.places()) {
    const std::string_view name = place.name;
    float* const at = values.data() + place.begin;
    ++tensor;
    if (name.find("norm") != name.npos) {
      if (name.ends_with("_weight")) {
        std::fill_n(at, place.count(), 1.0F);
      }
    } else if (place.decays) {
      const bool adds = name.ends_with("project_weight") || name.ends_with("down_weight");
      const std::size_t count = (name == "wte" ? config.vocabulary : place.rows) * place.columns;
      for (std::size_t first = 0; first < count; first += most) {
        pieces.push_back({{at + first, std::min(most, count - first)},
                          first,
                          adds ? residual : usual,
                          mixed(mixed(seed) + tensor)});
      }
    }
  }
  // A GPU would wait seconds for one thread to make 124 million numbers.
  std::atomic<std::size_t> taken{0};
  const auto work = [&] {
    for (std::size_t i = taken++; i < pieces.size(); i = taken++) {
      fill_normal(pieces[i].numbers, pieces[i].first, pieces[i].deviation, pieces[i].seed);
    }
  };
  std::vector<std::jthread> others;
  const std::size_t processors = std::max(std::thread::hardware_concurrency(), 1U);
  for (std::size_t i = 1; i < std::min(processors, 1 + values.size() / most); ++i) {
    others.emplace_back(work);
  }
  work();
  others.clear(); // joins them
  return values;
}

} // namespace transformer
