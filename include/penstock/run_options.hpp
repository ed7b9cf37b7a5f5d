// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/report.hpp>

#include <chrono>
#include <functional>
#include <stop_token>

namespace penstock {

/// What a run may be told: `pipeline.run({.progress = f})`.
struct RunOptions {
  /// Ends the run early, which is no error.
  std::stop_token stop = {};
  /// Called with what the run has done so far, on a thread of its own, one call at a time, and not
  /// any more when run() returns. It may call stop(); what it throws ends the run.
  std::function<void(const Report&)> progress = {};
  /// How often progress is called.
  std::chrono::milliseconds every{500};
};

} // namespace penstock
