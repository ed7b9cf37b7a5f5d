// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/stage_report.hpp>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace penstock::detail {

/// Returns the number of the stage that holds the others back.
[[gnu::cold]] inline std::size_t limiting_stage(const std::vector<StageReport>& stages,
                                                double /*seconds*/, double /*waited_s*/) {
  const auto at = std::max_element(stages.begin(), stages.end(), [](const auto& a, const auto& b) {
    return a.busy_s < b.busy_s;
  });
  return static_cast<std::size_t>(at - stages.begin());
}

} // namespace penstock::detail
