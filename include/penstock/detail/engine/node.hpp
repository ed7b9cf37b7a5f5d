// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/config.hpp>
#include <penstock/detail/base/interrupt.hpp>
#include <penstock/detail/base/thread_end.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/detail/engine/run_control.hpp>
#include <penstock/detail/links/ring_memory.hpp>
#include <penstock/detail/measure/meter.hpp>
#include <penstock/detail/measure/trace.hpp>
#include <penstock/detail/turns/used_up.hpp>
#include <penstock/error.hpp>
#include <penstock/run/options.hpp>
#include <penstock/run/stage_report.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <type_traits>
#include <utility>

namespace penstock::detail {

/// A thread that works for several nodes, none of which has a thread of its own. The engine owns it
/// and has it run once a run.
class SharedThread {
 public:
  SharedThread() = default;
  SharedThread(const SharedThread&) = delete;
  SharedThread& operator=(const SharedThread&) = delete;
  virtual ~SharedThread() = default;

  /// Returns the name of the first node that it works for.
  virtual const std::string& name() const noexcept = 0;
  /// Forgets the last run, before the next, while all threads rest.
  virtual void reset() noexcept = 0;
  /// Does its part of a run, on the thread itself. Throws nothing, but a callable may end the
  /// thread.
  virtual void run() = 0;
};

/// Returns how long to wait before the next try: from 1 ms on twice as long each time, at most 1 s.
std::chrono::milliseconds retry_pause(unsigned failures) noexcept;

/// What every node is made with: its stage's name in the Report and in errors, how many workers it
/// has, the control by which its run ends, where there are several devices, the one that it works
/// on, null if it works for all; and behind a tee() its branch, such as "2" or "2.1".
struct NodeSetup {
  std::string name;
  unsigned workers;
  RunControl& control;
  StageKind kind{StageKind::other};
  const void* side{};
  std::string branch{};
};

/// A stage at work: what prepare() makes of a stage's description. Each of its workers runs work()
/// once a run, in a thread of its own; worker 0 of the last stage is the thread that called run().
/// A stage without threads is driven by another thread.
class Node {
 public:
  [[gnu::cold]] explicit Node(const NodeSetup& setup);
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  virtual ~Node() = default;

  const std::string& name() const noexcept { return name_; }
  const void* side() const noexcept { return side_; }
  StageKind kind() const noexcept { return kind_; }
  const std::string& branch() const noexcept { return branch_; }
  unsigned workers() const noexcept { return static_cast<unsigned>(meters_.size()); }
  virtual unsigned threads() const noexcept { return workers(); }
  /// Has the stage say when it waits: for the last one, before the first run.
  virtual void lead() { meters_[0].watch(control_.waits(), true); }
  /// Returns whether the stage gives another number of records than it takes: records() are then
  /// those it took.
  virtual bool recounts() const noexcept { return false; }

  /// Returns whether its exceptions come from the run's source, so that a record that a SourceError
  /// names is one of the run's.
  virtual bool reads() const noexcept { return false; }

  /// Prepares for a run while no worker works; the thread that runs the pipeline calls it, for the
  /// stages after this one first. Returns false if it failed: then there is to be no run.
  [[gnu::cold]] bool make_ready() noexcept;

  void run(unsigned worker);

  /// Returns whether its workers are to make what they call: see make().
  virtual bool makes() const noexcept { return false; }
  /// Has a worker make what it calls, in its own thread, while the pipeline is prepared. Throws
  /// StageError.
  [[gnu::cold]] void make_for(unsigned worker);
  /// Does what waits until all stages have done their part of the run, whether it has failed or
  /// not, and all workers rest. The thread that ends the run calls it.
  virtual void commit() noexcept {}
  /// Hands in what its workers have, after a run that has not failed; the thread that ends the run
  /// calls it.
  [[gnu::cold]] void hand_in_all() noexcept;

  /// Drops what its workers have to hand in, after a run that has failed: the next one has no part
  /// of it.
  virtual void drop_parts() noexcept {}
  /// Makes for its workers, before a run, what drop_parts() has dropped. Throws StageError.
  [[gnu::cold]] void renew_parts();

  /// Reports a run that took `seconds`. Allocates nothing if `stage` is an earlier report of this
  /// node.
  [[gnu::cold]] PENSTOCK_INLINE virtual void report(double seconds, StageReport& stage) const;
  /// Returns the place in the run's order behind what was used up so far; any thread.
  std::uint64_t place() const noexcept { return used_up_.place(); }
  /// Returns how many records went through so far; any thread.
  std::uint64_t records() const noexcept;

 protected:
  /// Has the Report tell of the ring that the stage fills, whose memory lives as long as the node.
  void fills(const RingMemory& memory, std::size_t slots) noexcept;
  /// Says that its errors are of records of the source, which names them.
  void is_of_source(bool is) noexcept { of_source_ = is; }
  /// Forgets the last run, however it ended: gives back what the node still holds of the ring
  /// before it, and opens the ring after it.
  virtual void reset() = 0;
  virtual void work(unsigned /*worker*/, Meter& /*meter*/) {}
  virtual void make(unsigned /*worker*/) {}
  virtual void hand_in(unsigned /*worker*/) {}
  virtual bool lacks_parts() const noexcept { return false; }

  /// Calls f; if f throws, ends the run with that error, of `record`, which is a number or a
  /// callable that an error alone asks for it, and returns false. Leases must outlive the call:
  /// rings are to be closed before a slot goes on unfilled. Throws only what ends f's thread.
  template <class R, class F> bool attempt(const R& record, F f) {
    return caught(f, [&] { failed(number_of(record)); });
  }
  /// Says that all up to a place in the run's order was used up: for a last stage. One thread at a
  /// time.
  void used_up(std::uint64_t place) noexcept { used_up_.set(place); }
  UsedUp<>& used_up() noexcept { return used_up_; }
  /// How an item ended, after the retries and skips that OnError allows; again: it did not yet.
  enum class Item : std::uint8_t { good, again, skipped, failed };
  /// Decides, inside a catch block, about an item of `records` records of the source from `record`
  /// on that was tried `tries` times before this one.
  [[gnu::cold]] Item thrown(const OnError& on_error, Meter& meter, unsigned tries,
                            std::uint64_t record, std::uint64_t records) noexcept;
  /// Calls f as attempt() does, for an item: `records` records of the source from `record` on. An f
  /// that takes a number gets that of its failures so far.
  template <class R, class F>
  Item attempt_item(const OnError& on_error, Meter& meter, const R& record, std::uint64_t records,
                    F f) {
    for (unsigned tries = 0;; ++tries) {
      Item item = Item::good;
      const auto call = [&] {
        if constexpr (std::is_invocable_v<F&, unsigned>) {
          f(tries);
        } else {
          f();
        }
      };
      if (caught(call,
                 [&] { item = thrown(on_error, meter, tries, number_of(record), records); }) ||
          item != Item::again) {
        return item;
      }
    }
  }
  /// Returns a range that shows a tool the work on one slot, while it lives: to be opened after the
  /// waiting.
  TraceRange trace(std::uint64_t record) const noexcept { return {name_.c_str(), record}; }
  RunControl& control() noexcept { return control_; }
  Meter& meter(unsigned worker) noexcept { return meters_[worker]; }

 private:
  template <class E> [[gnu::cold]] static bool is() noexcept { // inside a catch block
    try {
      throw;
    } catch (const E&) {
      return true;
    } catch (...) {
      return false;
    }
  }
  RecordNames names() const noexcept { return of_source_ ? control_.names() : RecordNames{}; }
  // Not in attempt(), of which there are many.
  [[gnu::cold]] void failed(std::uint64_t record) noexcept;
  template <class R> static std::uint64_t number_of(const R& record) noexcept {
    if constexpr (std::is_invocable_v<const R&>) {
      return record();
    } else {
      return static_cast<std::uint64_t>(record);
    }
  }
  // Waits before an item is tried again; returns false if the run ends.
  [[gnu::cold]] bool pause(unsigned failures, Meter& meter) noexcept;

  const std::string name_;
  RunControl& control_;
  const StageKind kind_;
  const void* const side_;     // see NodeSetup
  const std::string branch_;   // likewise
  const RingMemory* filled_{}; // null if it fills no ring
  std::size_t slots_filled_{};
  Vector<Meter> meters_;
  bool of_source_{};
  StdAtomics::Atomic<std::uint64_t> bad_items_{0};
  UsedUp<> used_up_;
};

#if PENSTOCK_BODIES
PENSTOCK_INLINE std::chrono::milliseconds retry_pause(unsigned failures) noexcept {
  return std::chrono::milliseconds{std::min(1U << std::min(failures, 10U), 1000U)};
}

PENSTOCK_INLINE Node::Node(const NodeSetup& setup)
    : name_{setup.name}, control_{setup.control}, kind_{setup.kind}, side_{setup.side},
      branch_{setup.branch}, meters_(setup.workers) {
  for (Meter& meter : meters_) {
    meter.watch(control_.waits(), false);
  }
}

PENSTOCK_INLINE bool Node::make_ready() noexcept {
  bad_items_.store(0, StdAtomics::relaxed);
  used_up_.set(0);
  for (Meter& meter : meters_) {
    meter.clear();
  }
  return attempt(0, [&] { reset(); });
}

PENSTOCK_INLINE void Node::run(unsigned worker) {
  Meter& meter = meters_[worker];
  const CallsCountIn here{&meter.calls()};
  const InterruptHere hears{control_.interrupt()};
  const CallsBeforeSleep tells{meter.before_waits()};
  meter.start();
  const struct Stops {
    ~Stops() { meter.stop(); }
    Meter& meter;
  } stops{meter};
  attempt(0, [&] { work(worker, meter); });
}

PENSTOCK_INLINE void Node::make_for(unsigned worker) {
  try {
    make(worker);
  } catch (const ThreadEnd&) {
    throw;
  } catch (...) {
    std::rethrow_exception(
        described({.stage = name_, .worker = {"to make the callable of worker ", worker + 1}}, {}));
  }
}

PENSTOCK_INLINE void Node::hand_in_all() noexcept {
  for (unsigned worker = 0; worker != workers(); ++worker) {
    try {
      hand_in(worker);
    } catch (...) {
      control_.fail({.stage = name_, .worker = {"to hand in the part of worker ", worker + 1}});
      return;
    }
  }
}

PENSTOCK_INLINE void Node::renew_parts() {
  for (unsigned worker = 0; lacks_parts() && worker != workers(); ++worker) {
    make_for(worker);
  }
}

PENSTOCK_INLINE void Node::report(double seconds, StageReport& stage) const {
  stage.name = name_;
  stage.kind = kind_;
  stage.branch = branch_;
  Meter::sum(meters_.data(), meters_.size(), seconds, stage);
  if (filled_ != nullptr) {
    stage.depth = slots_filled_;
    stage.slot_bytes = filled_->layout().bytes();
    stage.ring_bytes = filled_->bytes();
    stage.ring_memory = filled_->kind();
  }
}

PENSTOCK_INLINE std::uint64_t Node::records() const noexcept {
  std::uint64_t sum = 0;
  for (const Meter& meter : meters_) {
    sum += meter.records();
  }
  return sum;
}

PENSTOCK_INLINE void Node::fills(const RingMemory& memory, std::size_t slots) noexcept {
  filled_ = &memory;
  slots_filled_ = slots;
}

PENSTOCK_INLINE Node::Item Node::thrown(const OnError& on_error, Meter& meter, unsigned tries,
                                        std::uint64_t record, std::uint64_t records) noexcept {
  if (is<SlotFull>() || is<ThreadEnded>() || is<ReadEnded>()) {
    failed(record);
    return Item::failed;
  }
  if (tries < on_error.retries) {
    return pause(tries, meter) ? Item::again : Item::failed;
  }
  if (bad_items_.fetch_add(1, StdAtomics::relaxed) < on_error.skips) {
    control_.skips().note(name_, record, records, names());
    meter.skipped(records);
    return Item::skipped;
  }
  control_.fail({.stage = name_,
                 .record = record,
                 .reads = reads(),
                 .skips = on_error.skips,
                 .names = names()});
  return Item::failed;
}

PENSTOCK_NOINLINE void Node::failed(std::uint64_t record) noexcept {
  control_.fail({.stage = name_,
                 .record = record,
                 .reads = reads(),
                 .side = side_,
                 .slot_records = filled_ ? filled_->layout().records() : 0,
                 .names = names()});
}

PENSTOCK_INLINE bool Node::pause(unsigned failures, Meter& meter) noexcept {
  meter.tried_again();
  meter.pause(Activity::starved);
  const bool goes_on =
      control_.interrupt().sleep_until(Meter::Clock::now() + retry_pause(failures));
  meter.spent(Activity::starved, Activity::busy);
  return goes_on;
}
#endif

} // namespace penstock::detail
