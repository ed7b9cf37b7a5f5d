// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/config.hpp>
#include <penstock/detail/base/origin.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/thread_end.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/detail/engine/build.hpp>
#include <penstock/detail/engine/crew.hpp>
#include <penstock/detail/engine/run_sums.hpp>
#include <penstock/device/detail/fed_devices.hpp>
#include <penstock/machine/usable.hpp>
#include <penstock/order/detail/run_order.hpp>
#include <penstock/run/options.hpp>
#include <penstock/run/report.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <new>
#include <stop_token>
#include <string>
#include <utility>

namespace penstock::detail {

/// A T, or none: the part of std::optional that needs no T until there is one. What never calls
/// emplace() compiles nothing of T.
template <class T> class Emplaced {
 public:
  Emplaced() = default;
  Emplaced(const Emplaced&) = delete;
  Emplaced& operator=(const Emplaced&) = delete;
  ~Emplaced() { reset(); }

  /// Makes a T. There must be none.
  template <class... Args> void emplace(Args&&... args) {
    ::new (static_cast<void*>(at_)) T(std::forward<Args>(args)...);
    destroy_ = [](void* at) noexcept { static_cast<T*>(at)->~T(); };
  }
  /// Destroys the T, if there is one.
  void reset() noexcept {
    if (destroy_) {
      std::exchange(destroy_, nullptr)(at_);
    }
  }

 private:
  alignas(T) std::byte at_[sizeof(T)];
  void (*destroy_)(void* at) noexcept {};
};

/// Those who look on at a run: the user's observer, and a thread that shows the run to the
/// application. One thread.
class Onlookers {
 public:
  /// Forgets those of the last run.
  void reset() noexcept { observer_ = nullptr; }
  /// Has the observer begin, calls begun(), and starts the thread. Throws if one of them cannot.
  template <class Begun>
  [[gnu::cold]] void begin(const RunOptions& options, Engine& engine, Begun begun) {
    if (options.observe) {
      options.observe->begin();
      observer_ = options.observe;
      begun();
    }
    const auto start = options.progress ? options.progress.start() : options.stalled.start();
    if (!start) {
      return;
    }
    try {
      watch_ = Owned<RunMonitor>{start(options, engine)};
    } catch (...) {
      Report of_no_run;
      end(of_no_run);
      throw;
    }
  }
  /// Blocks until the thread has ended.
  [[gnu::cold]] void stop_watching() noexcept { watch_ = {}; }
  /// Has the observer add to the Report.
  [[gnu::cold]] void end(Report& report) noexcept;

 private:
  Owned<RunMonitor> watch_;
  RunObserver* observer_{};
};

/// A prepared pipeline: its nodes, their rings and memory, and the threads that run them.
class Engine {
 public:
  /// `memory`: how much the device has, or 0.
  [[gnu::cold]] Engine(std::string device, std::uint64_t memory);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  [[gnu::cold]] ~Engine();

  template <AnyDevice D> Build<D> build(D* device, const PrepareOptions& preparing) {
    return {device, control_, nodes_, threads_, preparing};
  }
  /// Notes in which order a run reads, and how many batches a whole one gives at most.
  void expect(Shared<RunOrder> order, std::uint64_t batches) noexcept;
  std::uint64_t batches() const noexcept { return batches_; }
  FedDevice& fed() noexcept { return fed_; }

  /// Starts the threads, `near` the device, after the last node was added, and has each worker make
  /// what it calls. Throws Error if a thread cannot be started, and StageError if a worker fails.
  [[gnu::cold]] void start_threads(const NearDevice& near);

  /// Begins a run: starts all workers but the first one of the last stage, which is the caller.
  /// Throws if it cannot.
  /// @{
  [[gnu::cold]] void start();
  [[gnu::cold]] void start(const RunOptions& options);
  /// @}
  /// Ends a run, when the caller has done its part: blocks until every worker has come to rest.
  [[gnu::cold]] void finish() noexcept;
  /// Blocks for the run that was started; throws its error when every worker has come to rest.
  const Report& run();
  /// Returns whether the calling thread is one of its own.
  bool is_inside() const noexcept { return crew_.is_one(); }
  /// Returns false if it may be destroyed here. If exit() destroys it inside its run(), or beside
  /// that, stops the run, waits for the others, and returns true: who is inside still needs it.
  [[gnu::cold]] bool stays() noexcept;
  /// Returns the error of the run so far; null if there is none.
  std::exception_ptr error() const noexcept { return control_.error(); }
  void stop() noexcept { control_.stop(); }
  /// Ends the run by the exception in flight, inside a catch block.
  void fail(const char* who) noexcept { control_.fail({.stage = who}); }
  /// Returns whether its threads are this process's; check_here() throws Error if they are not.
  bool is_here() const noexcept { return origin_.is_here(); }
  void check_here() const;
  /// Returns the last stage.
  Node& last() noexcept { return *nodes_.back(); }
  /// Returns what has been done so far. Any thread.
  Report report() const;

 private:
  struct Stop {
    RunControl& control;
    void operator()() const noexcept { control.stop(); }
  };

  // Begins to measure a run, and has all nodes get ready for it.
  [[gnu::cold]] void set_off();
  void check_free() const;
  void set_running(bool running);

  [[gnu::cold]] void sum_up(Report& report, double seconds) const;

  const Origin origin_;
  RunControl control_;
  Vector<Owned<SharedThread>> threads_; // beside those that nodes have
  Vector<Owned<Node>> nodes_;
  Crew crew_;
  FedDevice fed_;
  Emplaced<std::stop_callback<Stop>> stop_;
  RunSums sums_;
  Onlookers onlookers_;
  mutable std::mutex reporting_;
  bool running_{}; // between start() and finish()
  Report report_;
  std::uint64_t batches_{};
  Shared<RunOrder> order_;
};

/// Shares an engine with the loops over it. One thread makes the engine while others may ask for
/// it. May be moved while nobody asks. A forked child leaves the engine as it is: the threads that
/// it would wait for are not there. So does exit() that is called in a callable.
class EngineOwner {
 public:
  EngineOwner() = default;
  EngineOwner(EngineOwner&& other) noexcept
      : shared_{std::move(other.shared_)}, engine_{other.engine_.exchange(nullptr)} {}
  EngineOwner& operator=(EngineOwner&& other) noexcept {
    engine_.store(other.engine_.exchange(nullptr), StdAtomics::relaxed);
    shared_ = std::move(other.shared_);
    return *this;
  }

  /// Throws std::bad_alloc, and then destroys the engine.
  [[gnu::cold]] void set(Owned<Engine> engine);
  /// Returns the engine; null before set().
  Engine* get() const noexcept { return engine_.load(StdAtomics::acquire); } // pairs with set()
  /// Returns a share of the engine. Only the thread that makes it calls this.
  const Shared<Engine>& share() const noexcept { return shared_; }

 private:
  [[gnu::cold]] static void destroy(Engine* engine) noexcept;

  Shared<Engine> shared_;
  StdAtomics::Atomic<Engine*> engine_{nullptr};
};

#if PENSTOCK_BODIES
PENSTOCK_INLINE void Onlookers::end(Report& report) noexcept {
  if (RunObserver* const observer = std::exchange(observer_, nullptr)) {
    observer->end(report);
  }
}

PENSTOCK_INLINE Engine::Engine(std::string device, std::uint64_t memory) {
  report_.device = std::move(device);
  report_.device_memory = memory;
}

PENSTOCK_INLINE Engine::~Engine() {
  if (running_) { // of several loops not all took part
    stop();
    finish();
  }
  crew_.dismiss();
  nodes_.clear(); // the last one first: each takes from the one before it
}

PENSTOCK_INLINE void Engine::expect(Shared<RunOrder> order, std::uint64_t batches) noexcept {
  order_ = std::move(order);
  report_.records_in_all = order_->records_of_run();
  batches_ = batches;
}

PENSTOCK_INLINE void Engine::start_threads(const NearDevice& near) {
  std::size_t threads = threads_.size();
  for (const auto& node : nodes_) {
    threads += node->threads();
  }
  crew_.stay_on(near.processors_for(threads));
  for (const auto& node : nodes_) {
    for (unsigned worker = 0; worker < node->threads(); ++worker) {
      if (worker == 0 && &node == &nodes_.back()) {
        node->make_for(worker);
      } else {
        crew_.add(*node, worker);
      }
    }
  }
  for (const auto& thread : threads_) {
    SharedThread& t = *thread;
    crew_.add(t.name(), 0, 1, [&t] { t.run(); }, nullptr);
  }
  nodes_.back()->lead();
  report_.processors = usable_processors();
  sum_up(report_, 0); // allocates the report's texts here and not in a run
}

PENSTOCK_INLINE void Engine::start() {
  const NoCancellation whole;
  check_free();
  order_->begin();
  set_off();
  control_.begin();
  crew_.go();
}

PENSTOCK_INLINE void Engine::start(const RunOptions& options) {
  const NoCancellation whole;
  check_free();
  order_->begin_from(options.from, options.epoch);
  set_off();
  try {
    // The observer first: what it takes is none of the run's time, and no stall.
    onlookers_.begin(options, *this, [this] {
      const std::scoped_lock lock{reporting_};
      sums_.begin();
    });
  } catch (...) {
    set_running(false);
    throw;
  }
  control_.begin();
  stop_.emplace(options.stop, Stop{control_});
  crew_.go();
}

PENSTOCK_INLINE void Engine::finish() noexcept {
  const NoCancellation whole;
  control_.tell_tokens();
  crew_.wait();
  for (const auto& node : nodes_) {
    node->commit();
  }
  stop_.reset();
  control_.end();
  onlookers_.stop_watching();
  for (std::size_t i = 0; !control_.failed() && i < nodes_.size(); ++i) {
    nodes_[i]->hand_in_all();
  }
  for (std::size_t i = 0; control_.failed() && i < nodes_.size(); ++i) {
    nodes_[i]->drop_parts();
  }
  const std::scoped_lock lock{reporting_};
  running_ = false;
  sum_up(report_, sums_.seconds());
  report_.dropped = dropped(report_.stages, nodes_);
  onlookers_.end(report_);
}

PENSTOCK_INLINE const Report& Engine::run() {
  crew_.drive([this] { nodes_.back()->run(0); }, [this] { finish(); });
  control_.rethrow();
  return report_;
}

PENSTOCK_INLINE bool Engine::stays() noexcept {
  if (!crew_.is_in_use()) {
    return false;
  }
  stop();
  crew_.await_others();
  left_at_exit.store(true, StdAtomics::relaxed);
  return true;
}

PENSTOCK_INLINE void Engine::check_here() const {
  if (!is_here()) {
    throw Error{"penstock: this pipeline was prepared before this process was forked, and its "
                "threads and memory are the parent's: make another one after the fork."};
  }
}

PENSTOCK_INLINE Report Engine::report() const {
  const std::scoped_lock lock{reporting_};
  if (!running_) {
    return report_;
  }
  Report now;
  now.device = report_.device;
  now.records_in_all = report_.records_in_all;
  now.processors = report_.processors;
  now.device_memory = report_.device_memory;
  sum_up(now, sums_.seconds());
  now.seconds = sums_.seconds(); // asked again: no stage has worked for longer than the run
  return now;
}

PENSTOCK_INLINE void Engine::set_off() {
  sums_.begin();
  onlookers_.reset();
  try {
    control_.reset();
    for (const auto& node : nodes_) {
      node->renew_parts();
    }
    // Each node may hold leases of the ring before it, so the last comes first.
    for (std::size_t i = nodes_.size(); i-- != 0;) {
      if (!nodes_[i]->make_ready()) {
        control_.rethrow();
      }
    }
    for (const auto& thread : threads_) {
      thread->reset();
    }
  } catch (...) {
    const std::scoped_lock lock{reporting_};
    control_.copy_error(report_.error);
    throw;
  }
  set_running(true);
}

PENSTOCK_INLINE void Engine::check_free() const {
  check_here();
  if (crew_.lacks_threads()) {
    throw Error{"penstock: a callable has ended a thread of this pipeline: make another one."};
  }
  const std::scoped_lock lock{reporting_};
  if (running_) {
    throw Error{"penstock: this pipeline is running already: leave its loop, or wait for its "
                "run(), before it runs again."};
  }
}

PENSTOCK_INLINE void Engine::set_running(bool running) {
  const std::scoped_lock lock{reporting_};
  running_ = running;
  report_.records_in_all = order_->records_of_run();
}

PENSTOCK_INLINE void Engine::sum_up(Report& report, double seconds) const {
  sums_.fill(report, nodes_, control_, *order_, seconds);
}

PENSTOCK_INLINE void EngineOwner::set(Owned<Engine> engine) {
  shared_ = detail::share(engine, destroy);
  engine_.store(shared_.get(), StdAtomics::release); // pairs with get()
}

PENSTOCK_INLINE void EngineOwner::destroy(Engine* engine) noexcept {
  if (engine->is_here() && !engine->stays()) {
    delete engine;
  }
}
#endif

} // namespace penstock::detail
