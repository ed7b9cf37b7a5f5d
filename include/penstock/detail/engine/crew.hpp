// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/config.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/detail/base/thread_end.hpp>
#include <penstock/detail/base/threads.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/detail/engine/node.hpp>
#include <penstock/error.hpp>
#include <penstock/machine/detail/processor_set.hpp>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace penstock::detail {

/// The threads of a pipeline: started once, and asleep between runs, so that a run starts none. One
/// thread drives it.
class Crew {
 public:
  Crew() = default;
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;
  ~Crew() { dismiss(); }

  /// Calls part(), the calling thread's part of a run, and then finish(), also if a callable ends
  /// the thread.
  template <class Part, class Finish> void drive(Part part, Finish finish) {
    struct Driving {
      ~Driving() {
        finish();
        crew.driver_.store({}, StdAtomics::relaxed);
      }
      Crew& crew;
      Finish& finish;
    } const driving{*this, finish};
    driver_.store(std::this_thread::get_id(), StdAtomics::relaxed);
    part();
  }
  /// Returns whether the calling thread is one of the crew's. Any thread.
  bool is_one() const noexcept;
  /// Returns whether the calling thread is one of the crew's, or a thread drives a run. Nobody but
  /// exit() destroys a pipeline then.
  bool is_in_use() const noexcept { return is_one() || driver() != std::thread::id{}; }
  /// Blocks until all threads but the calling one have come to rest, or for a second: one of them
  /// may wait for what the calling thread has.
  [[gnu::cold]] void await_others();
  /// Returns whether a callable has ended one of the threads.
  bool lacks_threads() const;

  /// Ends all threads, which must be asleep, and blocks until they have ended.
  [[gnu::cold]] void dismiss() noexcept;

  /// Has the threads that are started from now on run on these processors; on any if there are
  /// none.
  void stay_on(const ProcessorSet& processors) noexcept { processors_ = processors; }

  /// Starts the thread of a node's worker, which works once in each run. If the worker makes what
  /// it calls, blocks until it has. Throws Error if the thread cannot be started, StageError if the
  /// worker fails.
  [[gnu::cold]] void add(Node& node, unsigned worker);
  /// Starts a thread for worker `worker` of `workers`, which does `job` in each run. Blocks until
  /// it has done `first`, if that is not null. Throws Error if it cannot be started.
  [[gnu::cold]] void add(const std::string& stage, unsigned worker, unsigned workers, Job job,
                         const Job* first);

  /// Has every thread work once.
  void go();
  /// Blocks until all threads are done.
  void wait();

 private:
  std::thread::id driver() const noexcept { return driver_.load(StdAtomics::relaxed); }
  void serve(const Job& job);
  // A callable may end its thread.
  struct Begins {
    ~Begins();
    Crew& crew;
    bool& begun;
  };
  struct Working {
    ~Working();
    Crew& crew;
    bool ended = true;
  };

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t run_{};
  std::size_t working_{};
  bool over_{};
  bool waits_{}; // who drives the run, for the others
  bool ended_{}; // a callable has ended a thread
  StdAtomics::Atomic<std::thread::id> driver_{};
  ProcessorSet processors_;
  Vector<std::thread> threads_;
};

#if PENSTOCK_BODIES
PENSTOCK_INLINE bool Crew::is_one() const noexcept {
  return std::any_of(threads_.begin(), threads_.end(), [](const std::thread& thread) {
    return thread.get_id() == std::this_thread::get_id();
  });
}

PENSTOCK_INLINE void Crew::await_others() {
  const std::size_t mine = is_one() ? 1 : 0;
  const bool drives = driver() == std::this_thread::get_id();
  std::unique_lock lock{mutex_};
  changed_.wait_for(lock, std::chrono::seconds{1}, [&] {
    return working_ <= mine && (drives || waits_ || driver() == std::thread::id{});
  });
}

PENSTOCK_INLINE bool Crew::lacks_threads() const {
  const std::scoped_lock lock{mutex_};
  return ended_;
}

PENSTOCK_INLINE void Crew::dismiss() noexcept {
  {
    const std::scoped_lock lock{mutex_};
    over_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) {
    thread.join();
  }
  threads_.clear();
}

PENSTOCK_INLINE void Crew::add(Node& node, unsigned worker) {
  std::exception_ptr error;
  const Job make{[&] {
    try {
      node.make_for(worker);
    } catch (const ThreadEnd&) {
      fail_of_thread_end([&] { error = std::current_exception(); });
      throw;
    } catch (...) {
      error = std::current_exception();
    }
  }};
  add(
      node.name(), worker, node.workers(), [&node, worker] { node.run(worker); },
      node.makes() ? &make : nullptr);
  if (error) {
    std::rethrow_exception(error);
  }
}

PENSTOCK_INLINE void Crew::add(const std::string& stage, unsigned worker, unsigned workers, Job job,
                               const Job* first) {
  bool begun = !first;
  threads_.reserve(threads_.size() + 1);
  try {
    threads_.push_back(start_thread([this, first, &begun, todo = std::move(job)] {
      processors_.hold_this_thread();
      if (first) {
        const Begins begins{*this, begun};
        (*first)();
      }
      serve(todo);
    }));
  } catch (const std::system_error& e) {
    throw_error<Error>({"penstock: ", stage, ": no thread could be started for worker ", worker + 1,
                        " of ", workers, ": ", e.what(),
                        ": ask for fewer workers or raise the limit on threads (ulimit -u, the "
                        "container's)."});
  }
  std::unique_lock lock{mutex_};
  changed_.wait(lock, [&] { return begun; });
}

PENSTOCK_INLINE void Crew::go() {
  {
    const std::scoped_lock lock{mutex_};
    ++run_;
    working_ = threads_.size();
    waits_ = false;
  }
  changed_.notify_all();
}

PENSTOCK_INLINE void Crew::wait() {
  std::unique_lock lock{mutex_};
  waits_ = true;
  changed_.notify_all();
  changed_.wait(lock, [this] { return working_ == 0; });
}

PENSTOCK_INLINE void Crew::serve(const Job& job) {
  std::uint64_t served = 0;
  for (;;) {
    {
      std::unique_lock lock{mutex_};
      changed_.wait(lock, [&] { return over_ || run_ != served; });
      if (over_) {
        return;
      }
      served = run_;
    }
    Working working{*this};
    job();
    working.ended = false;
  }
}

PENSTOCK_INLINE Crew::Begins::~Begins() {
  const std::scoped_lock lock{crew.mutex_};
  begun = true;
  crew.changed_.notify_all();
}

PENSTOCK_INLINE Crew::Working::~Working() {
  const std::scoped_lock lock{crew.mutex_};
  crew.ended_ = crew.ended_ || ended;
  if (--crew.working_ <= 1) {
    crew.changed_.notify_all();
  }
}
#endif

} // namespace penstock::detail
