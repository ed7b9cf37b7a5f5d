// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/error.hpp>
#include <penstock/lease.hpp>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <stop_token>

namespace penstock::detail {

/// The loops that take part in each run of one engine, perhaps on threads of their own. The first
/// that enters begins the run, and the last that leaves ends it.
class Loops {
 public:
  [[gnu::cold]] explicit Loops(std::size_t count);

  /// Lets a loop into the run, and calls begin() if there is none. If begin() throws, this loop
  /// stays outside, and each other loop throws the same error once. A loop that begins a run later
  /// clears it: that run would wait for loops that gave up. Blocks while the loop has left a run
  /// which others have not, and returns false, with the loop in no run, if `stop` says so
  /// meanwhile. Throws Error if it is in the run. Without `loops`, each run has one.
  template <class F>
  static bool enter(Loops* loops, const void* loop, const std::stop_token& stop, F begin) {
    std::unique_lock<std::mutex> lock;
    if (!loops) {
      begin();
      return true;
    }
    if (!loops->await_turn(lock, loop, stop)) {
      return false;
    }
    if (loops->entered_.empty()) {
      loops->tell_refusal(loop);
      try {
        begin();
      } catch (...) {
        loops->refusal_ = std::current_exception();
        loops->told_.clear();
        loops->told_.push_back(loop);
        throw;
      }
      loops->refusal_ = nullptr;
    }
    loops->entered_.push_back({loop});
    return true;
  }
  /// Lets a loop leave the run, which it does not enter again, and calls end() if it is the last.
  template <class F> static void leave(Loops* loops, const void* loop, F end) noexcept {
    std::unique_lock<std::mutex> lock;
    if (!loops) {
      end();
    } else if (loops->is_last(lock, loop)) {
      end();
      loops->entered_.clear();
      loops->over_.notify_all();
    }
  }

 private:
  struct Entered {
    const void* loop;
    bool left = false;
  };

  // Returns whether the loop may enter: false if it was stopped while it had to wait.
  [[gnu::cold]] bool await_turn(std::unique_lock<std::mutex>& lock, const void* loop,
                                const std::stop_token& stop);
  [[gnu::cold]] void tell_refusal(const void* loop);
  [[gnu::cold]] bool is_last(std::unique_lock<std::mutex>& lock, const void* loop) noexcept;
  [[gnu::cold]] Entered* find(const void* loop) noexcept;

  const std::size_t count_;
  std::mutex mutex_;
  std::condition_variable_any over_; // for a std::stop_token
  Vector<Entered> entered_;
  std::exception_ptr refusal_; // why the last run did not begin
  Vector<const void*> told_;   // the loops that have thrown it
};

/// Gives the application's own loop its batches. Only the loop's thread calls it.
template <class B> class BatchSource {
 public:
  virtual ~BatchSource() = default;
  /// Returns the loops with which it shares a run; null if it has the run for itself.
  virtual Loops* loops() noexcept { return nullptr; }
  /// Begins the loop, before the first batch; `stream` is for batches on a device. Waits so long
  /// for shared leases.
  virtual void enter(StreamHandle stream, std::chrono::milliseconds lease_wait) noexcept = 0;
  /// Blocks for the next batch; returns an empty lease if there are no more, or the run has failed.
  virtual Lease<B> next() noexcept = 0;
  /// Ends the loop, after the last lease that the loop itself holds was released. May wait for the
  /// device. `early`: nobody will be thrown the run's error.
  virtual void leave(bool early) noexcept = 0;
};

#if PENSTOCK_BODIES
PENSTOCK_INLINE Loops::Loops(std::size_t count) : count_{count} {
  entered_.reserve(count);
  told_.reserve(count);
}

PENSTOCK_INLINE bool Loops::await_turn(std::unique_lock<std::mutex>& lock, const void* loop,
                                       const std::stop_token& stop) {
  lock = std::unique_lock{mutex_};
  const auto has_left = [&] {
    const Entered* const mine = find(loop);
    return mine && mine->left;
  };
  if (!over_.wait(lock, stop, [&] { return !has_left(); })) {
    return false;
  }
  if (find(loop)) {
    throw Error{"penstock: this device has a loop in the run already: leave that before "
                "another begins."};
  }
  return true;
}

PENSTOCK_INLINE void Loops::tell_refusal(const void* loop) {
  if (refusal_ && std::find(told_.begin(), told_.end(), loop) == told_.end()) {
    told_.push_back(loop);
    std::rethrow_exception(refusal_);
  }
}

PENSTOCK_INLINE bool Loops::is_last(std::unique_lock<std::mutex>& lock, const void* loop) noexcept {
  lock = std::unique_lock{mutex_};
  find(loop)->left = true;
  return entered_.size() == count_ &&
         std::all_of(entered_.begin(), entered_.end(), [](const Entered& e) { return e.left; });
}

PENSTOCK_INLINE Loops::Entered* Loops::find(const void* loop) noexcept {
  Entered* const found = std::find_if(entered_.begin(), entered_.end(),
                                      [&](const Entered& e) { return e.loop == loop; });
  return found == entered_.end() ? nullptr : found;
}
#endif

} // namespace penstock::detail
