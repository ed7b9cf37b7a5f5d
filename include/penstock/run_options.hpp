// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/report.hpp>

#include <chrono>
#include <functional>
#include <stop_token>
#include <string>

namespace penstock {

/// A run in which nothing has moved for some time.
struct Stall {
  /// The stage that holds up the others, and what it does.
  std::string stage;
  /// Why, in words.
  std::string reason;
  /// Since a record moved anywhere.
  double seconds{};
  /// What every stage does now: see its busy_now, starved_now and blocked_now.
  Report report;
};

/// What a run may be told: `pipeline.run({.progress = f})`.
struct RunOptions {
  /// Ends the run early, which is no error; at once if it was asked before. request_stop() takes a
  /// lock, so it is not for signal handlers, for which there is Pipeline::stop().
  std::stop_token stop = {};
  /// Called with what the run has done so far, on a thread of its own, one call at a time, and not
  /// any more when run() returns. It may call stop(), which is without effect while nothing runs;
  /// what it throws ends the run.
  std::function<void(const Report&)> progress = {};
  /// How often progress is called.
  std::chrono::milliseconds every{500};
  /// Called when no record has moved in any stage for `stall_limit`, and again only after one has;
  /// on the same thread as progress. What never returns cannot be ended from outside, but named.
  std::function<void(const Stall&)> stalled = {};
  /// How long nothing must have moved before `stalled` is called.
  std::chrono::milliseconds stall_limit{10'000};
};

} // namespace penstock
