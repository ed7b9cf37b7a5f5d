// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/order/position.hpp>
#include <penstock/run/report.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <type_traits>
#include <utility>

namespace penstock {

/// What a Reader or a Decoder does when an item fails, with any exception. An item is a slot; for a
/// Decoder it is what its callable got, a record or a batch. By default the first error ends the
/// run: `.on_error = {.skips = 100}` leaves out up to 100 items, `.on_error = {.retries = 3}` tries
/// each up to three times more.
struct OnError {
  /// How often an item is tried again before it counts as bad, after a pause of 1 ms that doubles
  /// each time, up to 1 s, and that the run's end cuts short. A Reader also tries so often to open
  /// its source.
  unsigned retries = 0;
  /// How many bad items a run may leave out; one more ends it. The Report lists what was left out.
  std::uint64_t skips = 0;
};

struct Report;

/// Looks at a run more closely than a Report does by itself, since looking costs:
/// `pipeline.run({.observe = &observer})`. HostObserver (diagnose/host_observer.hpp) tells which
/// processor time was taken away, and GpuObserver (diagnose/gpu_observer.hpp) what the GPU did. It
/// must outlive the run, and observes one run at a time.
class RunObserver {
 public:
  virtual ~RunObserver() = default;
  /// Called on the thread that runs the pipeline, before the run begins; what it throws ends the
  /// run before anything is read.
  virtual void begin() = 0;
  /// Called on that thread when the run has ended, however it did, to add to its Report; also if
  /// the run could not begin after begin(), with an empty one. A FanOut's run may end on another
  /// thread, and a run that not all loops joined ends when the FanOut dies. Must not throw.
  virtual void end(Report& report) noexcept = 0;
};

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
struct RunMonitor {
  virtual ~RunMonitor() = default;
};
/// Starts to show a run as its options say, and returns what the caller is to delete: in
/// pipeline/pipeline.hpp. Throws Error.
inline RunMonitor* start_monitor(const RunOptions& options, Engine& engine);

/// A callable that a run calls from time to time, or none. Only a program that gives one compiles
/// what watches a run.
template <class Seen> class Callback {
 public:
  Callback(std::nullptr_t = nullptr) {}
  /// Takes what std::function takes.
  template <class F>
    requires(std::is_invocable_v<F&, const Seen&> && !std::is_same_v<F, Callback>)
  Callback(F f) : call_{std::move(f)}, start_{call_ ? &start_monitor : nullptr} {}

  explicit operator bool() const noexcept { return start_ != nullptr; }
  void operator()(const Seen& seen) const { call_(seen); }
  /// Returns start_monitor; null if there is no callable.
  auto start() const noexcept { return start_; }

 private:
  std::function<void(const Seen&)> call_;
  RunMonitor* (*start_)(const RunOptions&, Engine&){};
};

} // namespace detail

/// Options of a run: `pipeline.run({.progress = f})`.
struct RunOptions {
  /// Where the run begins: at a position that an earlier one had, or at the beginning. Throws
  /// OptionError, before anything is read, for a position of another order.
  Position from = {};
  /// The run is this epoch alone, from 0, as it is in a run of all, whatever the Reader's `.epochs`
  /// are: for a program that begins a run for each. With `from`, what is left of it. Throws
  /// OptionError if `from` is in another, and for an epoch that is too late for the source.
  std::optional<std::uint64_t> epoch = {};
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
  /// How long a step of a loop, and the begin of the next run, wait for shared leases to come back
  /// before they throw that batches are still held: see Lease::share(). Long enough for a garbage
  /// collector, by default; 0 or less: not at all.
  std::chrono::milliseconds lease_wait{10'000};
};

/// How far prepare() is with the files of a source.
struct Preparation {
  /// Files opened and measured.
  std::uint64_t files{};
  /// Files found: more and more, and all of them when the first is opened.
  std::uint64_t files_in_all{};
};

namespace detail {

/// A callable that prepare() calls from time to time, or none.
class OpeningCallback {
 public:
  OpeningCallback(std::nullptr_t = nullptr) {}
  /// Takes what std::function takes.
  template <class F>
    requires(std::is_invocable_v<F&, const Preparation&> && !std::is_same_v<F, OpeningCallback>)
  OpeningCallback(F f) : call_{std::move(f)} {}

  explicit operator bool() const noexcept { return static_cast<bool>(call_); }
  void operator()(const Preparation& now) const {
    threw_ = true;
    call_(now);
    threw_ = false;
  }
  /// Returns whether the last call has thrown.
  bool threw() const noexcept { return threw_; }

 private:
  std::function<void(const Preparation&)> call_;
  mutable bool threw_{};
};

} // namespace detail

/// Options of prepare(): `pipeline.prepare({.progress = f})`.
struct PrepareOptions {
  /// `void(const Preparation&)`, called while files are found and opened, on the thread that called
  /// prepare(), and once more when the last is open. What it throws, prepare() throws, and is then
  /// as if it had not been called. Never called for a source without files.
  detail::OpeningCallback progress = {};
  /// How often progress is called; 0: after each file that the thread which called prepare() has
  /// looked at or opened.
  std::chrono::milliseconds every{100};
};

} // namespace penstock
