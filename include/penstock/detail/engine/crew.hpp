// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/processor_set.hpp>
#include <penstock/detail/base/threads.hpp>
#include <penstock/detail/base/throwing.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/detail/engine/node.hpp>
#include <penstock/error.hpp>

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

  /// Ends all threads, which must be asleep, and blocks until they have ended.
  [[gnu::cold]] void dismiss() noexcept {
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

  /// Has the threads that are started from now on run on these processors; on any if there are
  /// none.
  void stay_on(const ProcessorSet& processors) noexcept { processors_ = processors; }

  /// Starts the thread of a node's worker, which works once in each run. If the worker makes what
  /// it calls, blocks until it has. Throws Error if the thread cannot be started, StageError if the
  /// worker fails.
  [[gnu::cold]] void add(Node& node, unsigned worker) {
    std::exception_ptr error;
    const Job make{[&] {
      try {
        node.make_for(worker);
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
  /// Starts a thread for worker `worker` of `workers`, which does `job` in each run. Blocks until
  /// it has done `first`, if that is not null. Throws Error if it cannot be started.
  [[gnu::cold]] void add(const std::string& stage, unsigned worker, unsigned workers, Job job,
                         const Job* first) {
    bool begun = !first;
    threads_.reserve(threads_.size() + 1);
    try {
      threads_.push_back(start_thread([this, first, &begun, todo = std::move(job)] {
        processors_.hold_this_thread();
        if (first) {
          (*first)();
          const std::scoped_lock lock{mutex_};
          begun = true;
          changed_.notify_all();
        }
        serve(todo);
      }));
    } catch (const std::system_error& e) {
      throw_error<Error>({"penstock: ", stage, ": no thread could be started for worker ",
                          worker + 1, " of ", workers, ": ", e.what(),
                          ": ask for fewer workers or raise the limit on threads (ulimit -u, the "
                          "container's)."});
    }
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [&] { return begun; });
  }

  /// Has every thread work once.
  void go() {
    {
      const std::scoped_lock lock{mutex_};
      ++run_;
      working_ = threads_.size();
    }
    changed_.notify_all();
  }
  /// Blocks until all threads are done.
  void wait() {
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [this] { return working_ == 0; });
  }

 private:
  void serve(const Job& job) {
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
      job();
      const std::scoped_lock lock{mutex_};
      if (--working_ == 0) {
        changed_.notify_all();
      }
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t run_{};
  std::size_t working_{};
  bool over_{};
  ProcessorSet processors_;
  Vector<std::thread> threads_;
};

} // namespace penstock::detail
