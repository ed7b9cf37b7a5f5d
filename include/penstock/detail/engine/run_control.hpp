// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/base/interrupt.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/detail/engine/failure.hpp>
#include <penstock/detail/engine/skip_notes.hpp>
#include <penstock/detail/measure/meter.hpp>
#include <penstock/error.hpp>
#include <penstock/ring/ring.hpp>

#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <string>
#include <utility>

namespace penstock::detail {

/// Lets threads in that stop a run while it goes on, and lets the run end only when all of them
/// have left: what they close is then closed, and nothing of the next run. A thread that is inside
/// is about to leave, also if it stops in a signal handler.
///
/// enter(), leave() and was_entered() are async-signal-safe: they take no lock, so they may
/// interrupt any of the others.
template <class Policy = RingPolicy> class StopGate {
  using Atomics = typename Policy::Atomics;
  using Parking = typename Policy::Parking;

 public:
  /// Opens the gate, when all that a stop closes is ready for the run.
  void open() noexcept { word_.store(is_open, Atomics::release); } // pairs with enter()

  /// Enters, and returns true, if a run goes on: leave() must follow. Else only returns false.
  bool enter() noexcept {
    std::uint32_t seen = word_.load(Atomics::relaxed);
    while (seen & is_open) {
      // Pairs with open(): who is let in sees what there is to close.
      if (word_.compare_exchange_strong(seen, (seen | entered) + one, Atomics::acquire,
                                        Atomics::relaxed)) {
        return true;
      }
    }
    return false;
  }
  void leave() noexcept {
    // Pairs with close(): what was closed stays behind the run's end.
    const std::uint32_t before = word_.fetch_sub(one, Atomics::release);
    if (!(before & is_open)) {
      Parking::wake(word_);
    }
  }

  /// Closes the gate, and blocks until nobody is inside.
  void close() noexcept {
    // Both pair with leave().
    std::uint32_t seen = word_.fetch_and(~is_open, Atomics::acquire) & ~is_open;
    while (seen >= one) {
      Parking::sleep(word_, seen);
      seen = word_.load(Atomics::acquire);
    }
  }
  /// Closes the gate if nobody entered since open(): a stop from now on is too late. Else only
  /// returns false. Never blocks.
  bool close_if_unused() noexcept {
    std::uint32_t seen = is_open;
    return word_.compare_exchange_strong(seen, 0, Atomics::relaxed, Atomics::relaxed);
  }
  /// Returns whether anybody entered since open(). Any thread.
  bool was_entered() const noexcept { return (word_.load(Atomics::relaxed) & entered) != 0; }

 private:
  // | how many are inside | somebody entered | open |
  static constexpr std::uint32_t is_open = 1, entered = 2, one = 4;

  typename Atomics::template Atomic<std::uint32_t> word_{0};
};

/// How one run ends: by itself, by a stop, or by the first error, which closes every ring in both
/// directions. Any thread; only noting an error, and beginning or ending a run, take the lock.
class RunControl {
 public:
  /// Adds a ring to close, before the run.
  template <class R> [[gnu::cold]] void watch(R& ring) {
    rings_.push_back({&ring, [](void* r, Flow flow) noexcept {
                        flow == Flow::failed ? static_cast<R*>(r)->fail()
                                             : static_cast<R*>(r)->stop();
                      }});
  }

  /// Adds, before the run, a node whose open_work() tells what work it had queued on the device
  /// when that was lost. In the order of the stages. The node must outlive the run.
  template <class N> void on_lost(const N& node) {
    asks_.push_back(
        {&node, node.side(), [](const void* n) { return static_cast<const N*>(n)->open_work(); }});
  }

  /// From now on stop() stops: to be called when all rings are reset.
  void begin() noexcept { gate_.open(); }
  /// Ends the run, when all workers rest. A stop() that is closing rings has then closed them all,
  /// and closes none of the next run.
  void end() noexcept { gate_.close(); }
  /// Stops the run, if there is one. Async-signal-safe: takes no lock, here and in the rings.
  void stop() noexcept;
  /// Returns whether the run has neither failed nor been stopped: to be called before a step that
  /// cannot be taken back. If true, a stop() from now on comes too late and does nothing, and so it
  /// stays.
  bool pass_point_of_no_return() noexcept;
  bool stopped() const noexcept { return gate_.was_entered(); }
  /// What wakes those who wait outside of the rings when they are closed.
  Interrupt& interrupt() noexcept { return interrupt_; }
  /// How long the last stage has waited in this run.
  /// @{
  WaitClock& waits() noexcept { return waits_; }
  const WaitClock& waits() const noexcept { return waits_; }
  /// @}
  /// Tells those who hold a token if the run ends early: to be called by the thread that runs the
  /// pipeline, since stop() may be called in a signal handler.
  void tell_tokens() noexcept;

  /// Ends the run by the exception in flight, inside a catch block. Later ones are dropped, but the
  /// first that lost the device is kept. When it returns, every ring is closed, whichever thread
  /// began to close them. A read that was given up at the run's end is no error.
  [[gnu::cold]] void fail(const Failure& failure) noexcept;

  /// Returns whether an error has ended the run.
  bool failed() const noexcept;

  /// Returns what the run has skipped.
  /// @{
  SkipNotes& skips() noexcept { return skips_; }
  const SkipNotes& skips() const noexcept { return skips_; }
  /// @}
  /// What names the records of the source: set while the pipeline is prepared.
  /// @{
  void name_by(const RecordNames& names) noexcept { names_ = names; }
  const RecordNames& names() const noexcept { return names_; }
  /// @}

  /// Says that nobody can be thrown the run's error any more: the next run throws it, instead of
  /// running.
  void owe() noexcept;
  /// Copies the text of the run's error: nothing if there is none, or no memory for it.
  [[gnu::cold]] void copy_error(std::string& to) const noexcept;

  /// Returns whether an error has left the device unusable: nobody may wait for it.
  bool device_lost() const noexcept;
  /// Returns the run's error; null if there was none.
  std::exception_ptr error() const noexcept;
  /// Throws it, if there was one.
  void rethrow() const;
  /// Forgets the last run, before the next. Throws the error by which the device was lost, since it
  /// cannot run any more; or, once, the error that the last run still owes.
  [[gnu::cold]] void reset();

 private:
  struct Watched {
    void* ring;
    void (*close)(void*, Flow) noexcept;
  };

  // Asked before an error is described, which takes time.
  bool is_first() noexcept;
  static bool is_sticky() noexcept;
  static bool is_given_up() noexcept;
  void close(Flow flow) noexcept;

  Vector<Watched> rings_;
  Vector<AsksOpenWork> asks_;
  mutable std::mutex mutex_;
  std::condition_variable described_; // when error_ is there
  std::exception_ptr error_;
  std::exception_ptr lost_;
  std::exception_ptr owed_;
  SkipNotes skips_;
  RecordNames names_;
  bool failed_{};
  bool passed_{}; // the point of no return
  StopGate<> gate_;
  alignas(cache_line) WaitClock waits_; // every worker reads it often
  alignas(cache_line) Interrupt interrupt_;
};

#if PENSTOCK_BODIES
PENSTOCK_INLINE void RunControl::stop() noexcept {
  if (gate_.enter()) {
    const int error = errno; // of the code that a signal handler interrupts
    close(Flow::stopped);
    errno = error;
    gate_.leave();
  }
}

PENSTOCK_INLINE bool RunControl::pass_point_of_no_return() noexcept {
  const std::scoped_lock lock{mutex_};
  passed_ = !failed_ && (passed_ || gate_.close_if_unused());
  return passed_;
}

PENSTOCK_INLINE void RunControl::tell_tokens() noexcept {
  if (stopped() || failed()) {
    interrupt_.request_stop();
  }
}

PENSTOCK_INLINE void RunControl::fail(const Failure& failure) noexcept {
  if (interrupt_.raised() && is_given_up()) {
    return;
  }
  const bool lost = is_sticky();
  const bool first = is_first();
  std::exception_ptr error;
  if (first || lost) {
    error = described(failure, asks_);
  }
  {
    std::unique_lock lock{mutex_};
    if (lost && (first || !lost_)) {
      lost_ = error;
    }
    if (first) {
      error_ = std::move(error);
      described_.notify_all();
    }
    // One of several loops asks for the error as soon as its ring is closed.
    described_.wait(lock, [this] { return error_ != nullptr; });
  }
  // The thread of the first error may not have closed them yet, and the caller drops its slot.
  close(Flow::failed);
}

PENSTOCK_INLINE bool RunControl::failed() const noexcept {
  const std::scoped_lock lock{mutex_};
  return failed_;
}

PENSTOCK_INLINE void RunControl::owe() noexcept {
  const std::scoped_lock lock{mutex_};
  owed_ = error_;
}

PENSTOCK_INLINE void RunControl::copy_error(std::string& to) const noexcept {
  to.clear();
  try {
    rethrow();
  } catch (const std::exception& e) {
    try {
      to.append(text_of(e));
    } catch (...) {
    }
  } catch (...) {
  }
}

PENSTOCK_INLINE bool RunControl::device_lost() const noexcept {
  const std::scoped_lock lock{mutex_};
  return lost_ != nullptr;
}

PENSTOCK_INLINE std::exception_ptr RunControl::error() const noexcept {
  const std::scoped_lock lock{mutex_};
  return error_;
}

PENSTOCK_INLINE void RunControl::rethrow() const {
  if (const std::exception_ptr thrown = error()) {
    std::rethrow_exception(thrown);
  }
}

PENSTOCK_INLINE void RunControl::reset() {
  const std::scoped_lock lock{mutex_};
  skips_.clear();
  interrupt_.reset();
  waits_.reset();
  failed_ = passed_ = false;
  const std::exception_ptr owed = std::exchange(owed_, nullptr);
  error_ = lost_ ? lost_ : owed;
  if (error_) {
    std::rethrow_exception(error_);
  }
}

PENSTOCK_INLINE bool RunControl::is_first() noexcept {
  const std::scoped_lock lock{mutex_};
  return !std::exchange(failed_, true);
}

PENSTOCK_INLINE bool RunControl::is_sticky() noexcept {
  try {
    throw;
  } catch (const DeviceError& e) {
    return e.sticky();
  } catch (...) {
    return false;
  }
}

PENSTOCK_INLINE bool RunControl::is_given_up() noexcept {
  try {
    throw;
  } catch (const ReadEnded&) {
    return true;
  } catch (...) {
    return false;
  }
}

PENSTOCK_INLINE void RunControl::close(Flow flow) noexcept {
  for (const Watched& watched : rings_) {
    watched.close(watched.ring, flow);
  }
  interrupt_.raise();
}
#endif

} // namespace penstock::detail
