// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/row.hpp>
#include <penstock/detail/base/threads.hpp>

#include <condition_variable>
#include <cstdint>
#include <mutex>
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

  /// Starts one more thread, which does `job` in each run. Throws std::system_error if it cannot be
  /// started.
  [[gnu::cold]] void add(Job job) {
    threads_.reserve(threads_.size() + 1);
    threads_.push_back(start_thread([this, todo = std::move(job)] { serve(todo); }));
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
  Row<std::thread> threads_;
};

} // namespace penstock::detail
