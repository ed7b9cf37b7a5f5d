// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/order/position.hpp>
#include <penstock/run/report.hpp>
#include <penstock/run/run_observer.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <stop_token>
#include <string>
#include <type_traits>
#include <utility>

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

struct RunOptions;

namespace detail {

class Engine;
/// Shows a run to the application until it dies.
struct Watch {
  virtual ~Watch() = default;
};
/// Starts to show a run as its options say, and returns what the caller is to delete: in
/// detail/engine/watch.hpp. Throws Error.
inline Watch* start_watch(const RunOptions& options, Engine& engine);

/// A callable that a run calls from time to time, or none. Only a program that gives one compiles
/// what watches a run.
template <class Seen> class Callback {
 public:
  Callback(std::nullptr_t = nullptr) {}
  /// Takes what std::function takes.
  template <class F>
    requires(std::is_invocable_v<F&, const Seen&> && !std::is_same_v<F, Callback>)
  Callback(F f) : call_{std::move(f)}, start_{call_ ? &start_watch : nullptr} {}

  explicit operator bool() const noexcept { return start_ != nullptr; }
  void operator()(const Seen& seen) const { call_(seen); }
  /// Returns start_watch; null if there is no callable.
  auto start() const noexcept { return start_; }

 private:
  std::function<void(const Seen&)> call_;
  Watch* (*start_)(const RunOptions&, Engine&){};
};

} // namespace detail

/// Options of a run: `pipeline.run({.progress = f})`.
struct RunOptions {
  /// Where the run begins: at a position that an earlier one had, or at the beginning. Throws
  /// OptionError, before anything is read, for a position of another order.
  Position from = {};
  /// Ends the run early, which is no error; at once, if the stop was requested before the run.
  /// request_stop() takes a lock: in a signal handler call Pipeline::stop() instead.
  std::stop_token stop = {};
  /// `void(const Report&)`, called with what the run has done so far, on a thread of its own, one
  /// call at a time, and never after run() has returned. It may call stop(), which has no effect
  /// while nothing runs; what it throws ends the run.
  detail::Callback<Report> progress = {};
  /// How often progress is called.
  std::chrono::milliseconds every{500};
  /// `void(const Stall&)`, called when no record has moved in any stage for `stall_limit`, and
  /// again only after one has; on the same thread as progress. A call that never returns cannot be
  /// ended from outside, but it can be named.
  detail::Callback<Stall> stalled = {};
  /// How long no record must have moved before `stalled` is called.
  std::chrono::milliseconds stall_limit{10'000};
  /// What looks at the run more closely, or null.
  RunObserver* observe = nullptr;
};

} // namespace penstock
