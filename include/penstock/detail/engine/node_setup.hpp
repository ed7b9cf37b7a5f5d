// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/engine/run_control.hpp>
#include <penstock/run/stage_report.hpp>

#include <algorithm>
#include <chrono>
#include <string>

namespace penstock::detail {

/// Returns how long to wait before the next try: from 1 ms on twice as long each time, at most 1 s.
inline std::chrono::milliseconds retry_pause(unsigned failures) noexcept {
  return std::chrono::milliseconds{std::min(1U << std::min(failures, 10U), 1000U)};
}

/// What every node is made with: its stage's name in the Report and in errors, how many workers it
/// has, the control by which its run ends, and, where there are several devices, the one that it
/// works on; null if it works for all.
struct NodeSetup {
  std::string name;
  unsigned workers;
  RunControl& control;
  StageKind kind{StageKind::other};
  const void* side{};
};

} // namespace penstock::detail
