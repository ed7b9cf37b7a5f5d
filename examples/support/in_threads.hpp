// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <exception>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

/// Calls `f(0, stop)` to `f(count - 1, stop)`, each on a thread of its own, but for the first one,
/// and returns when all are done. The first that throws has the others' token ask them to stop, and
/// its exception is thrown here.
template <class F> void in_threads(std::size_t count, F f) {
  std::stop_source stop;
  std::mutex mutex;
  std::exception_ptr first;
  const auto failed = [&] {
    const std::lock_guard lock{mutex};
    if (!first) {
      first = std::current_exception();
      stop.request_stop();
    }
  };
  const auto call = [&](std::size_t i) {
    try {
      f(i, stop.get_token());
    } catch (...) {
      failed();
    }
  };
  {
    std::vector<std::jthread> threads;
    try {
      for (std::size_t i = 1; i < count; ++i) {
        threads.emplace_back(call, i);
      }
    } catch (...) { // no thread could be started
      failed();
    }
    call(0);
  }
  if (first) {
    std::rethrow_exception(first);
  }
}
