// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace penstock::tests {

/// Ends the program with a message if no progress is reported for `limit`: a hang is then a failed
/// test with a name, and not one that never returns.
class Watchdog {
  using Clock = std::chrono::steady_clock;

 public:
  explicit Watchdog(const char* what, Clock::duration limit = std::chrono::seconds{30})
      : what_{what}, limit_{limit}, due_{Clock::now() + limit}, thread_{[this] { watch(); }} {}
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  ~Watchdog() {
    over_ = true;
    thread_.join();
  }

  /// Reports progress at `step`, which the message would name.
  void progress(std::uint64_t step) noexcept {
    step_ = step;
    due_ = Clock::now() + limit_;
  }

 private:
  // Looks at atomics and sleeps: a condition variable would order threads, and so hide from
  // ThreadSanitizer an order that the tested code forgot.
  void watch() const noexcept {
    while (!over_) {
      if (Clock::now() > due_.load()) {
        std::fprintf(stderr, "watchdog: no progress in: %s, step %llu\n", what_,
                     static_cast<unsigned long long>(step_));
        std::abort();
      }
      std::this_thread::sleep_for(std::chrono::milliseconds{10});
    }
  }

  const char* const what_;
  const Clock::duration limit_;
  std::atomic<Clock::time_point> due_;
  std::atomic<std::uint64_t> step_{0};
  std::atomic<bool> over_{false};
  std::thread thread_;
};

} // namespace penstock::tests
