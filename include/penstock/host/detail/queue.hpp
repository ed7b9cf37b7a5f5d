// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/base/origin.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/detail/base/threads.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/host/detail/call_gate.hpp>
#include <penstock/host/detail/machine.hpp>

#include <concepts>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <type_traits>
#include <utility>

#include <sys/prctl.h>

namespace penstock::detail {

/// Work in order on a thread of its own: a bounded ring of entries that store callables. Each piece
/// of work has a number, from 1. A number is also a point of the stream: it is reached when that
/// work and all before it is done. Numbers go on over restarts, so a point stays valid.
class HostQueue {
 public:
  static constexpr std::size_t capacity = 128;
  /// The size of an entry, six cache lines, less its pointer.
  static constexpr std::size_t work_bytes = 6 * cache_line - sizeof(void*);

  HostQueue(CallGate& gate, Machine* machine);

  /// Starts the thread, which must not be running. Throws std::system_error.
  [[gnu::cold]] void start();
  /// Returns whether the calling thread is its own: exit() was called in the work.
  bool is_inside() const noexcept { return thread_.get_id() == std::this_thread::get_id(); }
  /// Blocks until all work is done and the thread has ended.
  [[gnu::cold]] void finish() noexcept;

  /// Stores `f` for the thread, which calls f(pace). Blocks while all entries are taken: do not
  /// call it from the queue's own thread. Returns whether one was free at once.
  template <class F> bool push(F f) {
    static_assert(std::invocable<F&, Pace&>);
    static_assert(sizeof(F) <= work_bytes && alignof(F) <= cache_line,
                  "penstock: work is stored in place, in 376 bytes aligned to 64 at most: let it "
                  "hold a pointer to what is larger.");
    static_assert(std::is_nothrow_move_constructible_v<F>,
                  "penstock: moving work into its place must not throw.");
    std::unique_lock lock{mutex_};
    const auto has_room = [this] { return pushed_ - done_ < capacity; };
    const bool at_once = has_room();
    changed_.wait(lock, has_room);
    Entry& entry = ring_[pushed_ % capacity];
    ::new (static_cast<void*>(entry.bytes)) F(std::move(f));
    entry.run = [](void* at, Pace* pace) {
      F& work = *std::launder(static_cast<F*>(at));
      const Destroy<F> destroy{work};
      if (pace) {
        work(*pace);
      }
    };
    if (pace_.keeps_time()) {
      pushed_at_[pushed_ % capacity] = Pace::Clock::now();
    }
    ++pushed_;
    changed_.notify_all();
    return at_once;
  }

  /// Returns the point after everything that was pushed.
  std::uint64_t end() const;
  bool is_reached(std::uint64_t point) const;
  /// Blocks until the point is reached. Returns a time on the pretended machine, from the time at
  /// which it was reached there to now; any past time if the machine keeps none.
  Pace::Clock::time_point await(std::uint64_t point) const;
  /// Blocks until the work that runs now, if any, is done.
  void await_rest() const;

 private:
  struct alignas(cache_line) Entry {
    std::byte bytes[work_bytes];
    void (*run)(void* at, Pace* pace); // with null it only destroys the work
  };
  static_assert(sizeof(Entry) == 6 * cache_line);
  template <class F> struct Destroy {
    F& work;
    ~Destroy() { work.~F(); }
  };

  void work() noexcept;
  // On a broken device nothing runs any more, but points are still reached, so no thread hangs. The
  // gate is asked after running_ was set under the lock: a thread that saw the device broken, and
  // then under this lock that nothing runs, knows that nothing will.
  void run(Entry& entry) noexcept;

  CallGate& gate_;
  Vector<Entry> ring_;
  Pace pace_;                                 // the thread's own
  Vector<Pace::Clock::time_point> pushed_at_; // each entry, if pace_ keeps time
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::uint64_t pushed_{0};
  std::uint64_t done_{0};
  Pace::Clock::time_point reached_at_{}; // what pace_ said when done_ was
  bool running_{false};
  bool closed_{false};
  std::thread thread_;
};

/// A device's queues. They stay until it dies, for the events that mark points in them, and are
/// used again. Any thread.
class HostQueues {
 public:
  HostQueues() = default;
  HostQueues(const HostQueues&) = delete;
  HostQueues& operator=(const HostQueues&) = delete;
  ~HostQueues();

  /// Returns whether its threads are this process's.
  bool is_here() const noexcept { return origin_.is_here(); }
  /// Returns a running queue. Throws std::system_error, std::bad_alloc.
  [[gnu::cold]] HostQueue& start(CallGate& gate, Machine* machine);
  /// Blocks until all work of the queue is done; not in a forked child, where no thread would do
  /// it.
  [[gnu::cold]] void finish(HostQueue& queue) noexcept;
  /// Blocks until no work runs, on a device that has broken down: none will run again.
  [[gnu::cold]] void await_rest() const noexcept;

 private:
  struct Kept {
    Kept(CallGate& gate, Machine* machine, Kept* other) : queue{gate, machine}, next{other} {}
    HostQueue queue;
    Kept* const next;
    bool used{false};
  };
  const Origin origin_;
  mutable std::mutex mutex_;
  Kept* first_{};
};

#if PENSTOCK_BODIES
PENSTOCK_INLINE HostQueue::HostQueue(CallGate& gate, Machine* machine)
    : gate_{gate}, ring_(capacity), pace_{machine, gate},
      pushed_at_(pace_.keeps_time() ? capacity : 0) {}

PENSTOCK_INLINE void HostQueue::start() {
  closed_ = false;
  thread_ = start_thread([this] { work(); });
}

PENSTOCK_INLINE void HostQueue::finish() noexcept {
  {
    const std::lock_guard lock{mutex_};
    closed_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

PENSTOCK_INLINE std::uint64_t HostQueue::end() const {
  const std::lock_guard lock{mutex_};
  return pushed_;
}

PENSTOCK_INLINE bool HostQueue::is_reached(std::uint64_t point) const {
  const std::lock_guard lock{mutex_};
  return done_ >= point;
}

PENSTOCK_INLINE Pace::Clock::time_point HostQueue::await(std::uint64_t point) const {
  std::unique_lock lock{mutex_};
  changed_.wait(lock, [&] { return done_ >= point; });
  return reached_at_;
}

PENSTOCK_INLINE void HostQueue::await_rest() const {
  std::unique_lock lock{mutex_};
  const std::uint64_t done = done_;
  changed_.wait(lock, [&] { return !running_ || done_ != done; });
}

PENSTOCK_INLINE void HostQueue::work() noexcept {
  if (pace_.keeps_time()) {
    // The kernel rounds short sleeps up by 50 us unless a thread asks for less.
    prctl(PR_SET_TIMERSLACK, 1UL);
  }
  std::unique_lock lock{mutex_};
  for (;;) {
    changed_.wait(lock, [this] { return done_ != pushed_ || closed_; });
    if (done_ == pushed_) {
      return;
    }
    running_ = true;
    if (pace_.keeps_time()) {
      pace_.not_before(pushed_at_[done_ % capacity]);
    }
    lock.unlock();
    run(ring_[done_ % capacity]);
    lock.lock();
    running_ = false;
    ++done_;
    reached_at_ = pace_.at();
    changed_.notify_all();
  }
}

PENSTOCK_INLINE void HostQueue::run(Entry& entry) noexcept {
  try {
    entry.run(entry.bytes, gate_.is_broken() ? nullptr : &pace_);
  } catch (const std::exception& e) {
    gate_.break_down(text_of(e), CallGate::trapped);
  } catch (...) {
    gate_.break_down("work on a stream threw", CallGate::trapped);
  }
}

PENSTOCK_INLINE HostQueues::~HostQueues() {
  // In a forked child they stay as they are, and so does one that exit() leaves at work.
  while (first_ && is_here()) {
    Kept* const kept = std::exchange(first_, first_->next);
    if (!kept->used) {
      delete kept;
    }
  }
}

PENSTOCK_INLINE HostQueue& HostQueues::start(CallGate& gate, Machine* machine) {
  const std::lock_guard lock{mutex_};
  Kept* kept = first_;
  while (kept && kept->used) {
    kept = kept->next;
  }
  if (!kept) {
    kept = first_ = new Kept{gate, machine, first_};
  }
  kept->queue.start();
  kept->used = true;
  return kept->queue;
}

PENSTOCK_INLINE void HostQueues::finish(HostQueue& queue) noexcept {
  if (!is_here() || queue.is_inside()) {
    return;
  }
  queue.finish();
  const std::lock_guard lock{mutex_};
  for (Kept* kept = first_; kept; kept = kept->next) {
    kept->used = kept->used && &kept->queue != &queue;
  }
}

PENSTOCK_INLINE void HostQueues::await_rest() const noexcept {
  const std::lock_guard lock{mutex_};
  for (const Kept* kept = first_; kept; kept = kept->next) {
    kept->queue.await_rest();
  }
}
#endif

} // namespace penstock::detail
