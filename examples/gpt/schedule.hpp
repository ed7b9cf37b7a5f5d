// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#include <cmath>
#include <cstdint>

namespace transformer {

/// How an optimiser's rate changes from step to step: it grows in a line, falls along half a
/// cosine's wave, and stays.
struct Schedule {
  std::uint64_t warm_up = 0; ///< The steps in which it grows.
  std::uint64_t steps = 0;   ///< The step at which it has fallen; 0: it never falls.
  float least = 0.1F;        ///< What it falls to, as a share of the greatest.

  /// Returns the rate of a step, counted from 0, as a share of the greatest.
  PENSTOCK_HD float at(std::uint64_t step) const {
    if (step < warm_up) {
      return static_cast<float>(step + 1) / static_cast<float>(warm_up + 1);
    }
    if (steps == 0) {
      return 1;
    }
    if (step >= steps) {
      return least;
    }
    const double done = static_cast<double>(step - warm_up) / static_cast<double>(steps - warm_up);
    constexpr double pi = 3.14159265358979323846;
    return least + (1 - least) * static_cast<float>(0.5 * (1 + cos(pi * done)));
  }
};

} // namespace transformer
