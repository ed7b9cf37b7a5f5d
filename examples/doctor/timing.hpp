// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <latch>
#include <mutex>
#include <thread>
#include <vector>

#include <unistd.h>

namespace doctor {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Returns the median of what `once()` returns. The first call is a warm-up. At least three calls
/// follow it, and no more begin when all of them have taken `limit` seconds.
template <class F> double median_of(F once, double limit) {
  const auto begin = Clock::now();
  once();
  std::vector<double> values;
  while (values.size() < 3 || (values.size() < 9 && seconds_since(begin) < limit)) {
    values.push_back(once());
  }
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Returns the median of the seconds that `once()` takes.
template <class F> double median_seconds(F once, double limit) {
  return median_of(
      [&] {
        const auto begin = Clock::now();
        once();
        return seconds_since(begin);
      },
      limit);
}

/// Calls work(i) on each of `count` threads at once. Returns the seconds until the last is done,
/// without the starts of the threads. Throws what one of them threw.
template <class F> double on_threads(unsigned count, F work) {
  std::mutex mutex;
  std::exception_ptr failure;
  std::latch start{1};
  Clock::time_point begin;
  {
    std::vector<std::jthread> threads;
    struct Starts {
      std::latch& start;
      ~Starts() { start.count_down(); }
    } const starts{start}; // before the threads are joined, also if one cannot be made
    for (unsigned i = 0; i < count; ++i) {
      threads.emplace_back([&, i] {
        start.wait();
        try {
          work(i);
        } catch (...) {
          const std::scoped_lock lock{mutex};
          failure = std::current_exception();
        }
      });
    }
    begin = Clock::now();
  }
  if (failure) {
    std::rethrow_exception(failure);
  }
  return seconds_since(begin);
}

/// A line on the terminal that says what is measured now; nothing where stderr is no terminal.
class Progress {
 public:
  Progress() = default;
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() { show(""); }

  void show(const char* what) const {
    if (on_) {
      std::fprintf(stderr, "\r\033[K%s%s", what, *what != '\0' ? " ..." : "");
    }
  }

 private:
  const bool on_ = ::isatty(STDERR_FILENO) == 1;
};

} // namespace doctor
