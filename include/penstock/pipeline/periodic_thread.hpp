// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/threads.hpp>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

namespace penstock::detail {

/// Calls f again and again on a thread of its own, for as long as it lives. f does not throw.
class PeriodicThread {
 public:
  [[gnu::cold]] PeriodicThread(std::chrono::milliseconds every, Job f)
      : thread_{start_thread([this, every, f = std::move(f)] {
          std::unique_lock lock{mutex_};
          while (!changed_.wait_for(lock, every, [this] { return over_; })) {
            lock.unlock();
            f();
            lock.lock();
          }
        })} {}
  PeriodicThread(const PeriodicThread&) = delete;
  PeriodicThread& operator=(const PeriodicThread&) = delete;
  [[gnu::cold]] ~PeriodicThread() {
    {
      const std::scoped_lock lock{mutex_};
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_{};
  std::thread thread_; // last, since it uses the others
};

} // namespace penstock::detail
