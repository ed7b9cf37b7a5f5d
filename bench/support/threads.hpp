// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace penstock_bench {

/// Calls work(i), for i below `count`, each on a thread of its own and on its own copy of the
/// callable, whose state lies apart from what other threads write. Blocks until all are done, and
/// throws what one of them threw.
template <class F> void on_threads(std::size_t count, F work) {
  std::mutex mutex;
  std::exception_ptr failure;
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < count; ++i) {
      threads.emplace_back([&mutex, &failure, work, i] {
        try {
          work(i);
        } catch (...) {
          const std::lock_guard lock{mutex};
          failure = std::current_exception();
        }
      });
    }
  }
  if (failure) {
    std::rethrow_exception(failure);
  }
}

} // namespace penstock_bench
