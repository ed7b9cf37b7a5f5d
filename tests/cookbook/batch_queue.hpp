// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/penstock.hpp>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

namespace ps = penstock;

/// The batches of one loop for any number of threads. The pipeline's places bound it.
template <class B> class BatchQueue {
 public:
  /// Runs the loop on this thread. Blocks until the last batch is in the queue; throws what it
  /// does.
  template <class P> void fill_from(P& data) {
    try {
      for (auto batch : data.batches({.lease_wait = std::chrono::hours{1}})) {
        put(batch.share());
      }
    } catch (...) {
      put({});
      throw;
    }
    put({});
  }
  /// Returns the next batch; an empty one at the end. Any thread; blocks until there is one.
  ps::SharedLease<B> take() {
    std::unique_lock lock{mutex_};
    filled_.wait(lock, [this] { return !batches_.empty(); });
    ps::SharedLease<B> batch = batches_.front();
    if (batch) { // else it stays, for the other threads
      batches_.pop_front();
    }
    return batch;
  }

 private:
  void put(ps::SharedLease<B> batch) {
    const std::scoped_lock lock{mutex_};
    batches_.push_back(std::move(batch));
    filled_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable filled_;
  std::deque<ps::SharedLease<B>> batches_;
};
