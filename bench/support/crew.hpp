// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <barrier>
#include <cstddef>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

namespace penstock_bench {

/// Threads that stay, and do one job after the other together. One thread gives them jobs.
class Crew {
 public:
  explicit Crew(unsigned threads)
      : start_{static_cast<std::ptrdiff_t>(threads) + 1},
        done_{static_cast<std::ptrdiff_t>(threads) + 1} {
    for (unsigned i = 0; i < threads; ++i) {
      threads_.emplace_back([this] {
        for (;;) {
          start_.arrive_and_wait();
          if (!job_) {
            return;
          }
          job_();
          done_.arrive_and_wait();
        }
      });
    }
  }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;
  ~Crew() {
    if (busy_) {
      wait();
    }
    start({});
  }

  /// Has every thread call `job`, which must not throw. The job before must have been waited for.
  void start(std::function<void()> job) {
    job_ = std::move(job);
    busy_ = true;
    start_.arrive_and_wait();
  }
  /// Blocks until all have done the job.
  void wait() {
    done_.arrive_and_wait();
    busy_ = false;
  }

 private:
  std::barrier<> start_;
  std::barrier<> done_;
  std::function<void()> job_;
  bool busy_{};
  std::vector<std::jthread> threads_;
};

} // namespace penstock_bench
