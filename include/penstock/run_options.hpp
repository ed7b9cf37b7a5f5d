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
  /// Seconds since a record moved anywhere.
  double seconds{};
  /// What every stage does now: see its busy_now, starved_now and blocked_now.
  Report report;
};

/// Options of a run: `pipeline.run({.progress = f})`.
struct RunOptions {
  /// Ends the run early, which is no error; at once, if the stop was requested before the run.
  /// request_stop() takes a lock: in a signal handler call Pipeline::stop() instead.
  std::stop_token stop = {};
  /// Called with what the run has done so far, on a thread of its own, one call at a time, and
  /// never after run() has returned. It may call stop(), which has no effect while nothing runs;
  /// what it throws ends the run.
  std::function<void(const Report&)> progress = {};
  /// How often progress is called.
  std::chrono::milliseconds every{500};
  /// Called when no record has moved in any stage for `stall_limit`, and again only after one has;
  /// on the same thread as progress. A call that never returns cannot be ended from outside, but it
  /// can be named.
  std::function<void(const Stall&)> stalled = {};
  /// How long no record must have moved before `stalled` is called.
  std::chrono::milliseconds stall_limit{10'000};
};

} // namespace penstock
