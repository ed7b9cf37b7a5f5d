// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/config.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/threads.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/run/options.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

namespace penstock::detail {

/// Counts the files of a source while it is opened, and reports the counts. One thread opens the
/// source; any thread may call found() and opened().
class OpeningProgress {
 public:
  using Clock = std::chrono::steady_clock;

  /// `options` must outlive this.
  explicit OpeningProgress(const PrepareOptions& options) : options_{options} {}

  void found() noexcept { found_.fetch_add(1, StdAtomics::relaxed); }
  void opened() noexcept { opened_.fetch_add(1, StdAtomics::relaxed); }
  /// Reports if it is time to.
  void look();
  void tell() const;

 private:
  const PrepareOptions& options_;
  Clock::time_point told_ = Clock::now();
  StdAtomics::Atomic<std::uint64_t> found_{0};
  StdAtomics::Atomic<std::uint64_t> opened_{0};
};

/// The first call, in order, that threw, and its error.
struct FirstFailure {
  std::size_t at;
  std::exception_ptr error;

  /// Throws the error if it is that of call `number`. To be called for each number in order.
  void rethrow_at(std::size_t number) const;
};

/// Returns how many threads open files, the caller included. They may be more than the processors,
/// since they wait for disks, on a network for milliseconds. To start one costs as much as to open
/// some local files.
std::size_t opening_threads(std::size_t files) noexcept;

/// Calls f(i) once for each i below `count`, on several threads at once, and look() on this one
/// after each of its calls. After a call has thrown no more are begun, but all before it are made,
/// so that the error returned is always that of the first call in order. Throws what look() throws,
/// after all threads have ended. Blocks. Uses `threads` of them, or as many as pay for files that
/// are only opened; fewer if no more can be started.
[[gnu::cold]] FirstFailure for_all(std::size_t count, Borrowed<void(std::size_t)> f,
                                   Borrowed<void()> look, std::size_t threads = 0);

#if PENSTOCK_BODIES
PENSTOCK_INLINE void OpeningProgress::look() {
  if (options_.progress && Clock::now() - told_ >= options_.every) {
    tell();
    told_ = Clock::now();
  }
}

PENSTOCK_INLINE void OpeningProgress::tell() const {
  if (options_.progress) {
    options_.progress({opened_.load(StdAtomics::relaxed), found_.load(StdAtomics::relaxed)});
  }
}

PENSTOCK_INLINE void FirstFailure::rethrow_at(std::size_t number) const {
  if (error && number == at) {
    std::rethrow_exception(error);
  }
}

PENSTOCK_INLINE std::size_t opening_threads(std::size_t files) noexcept {
  constexpr std::size_t least_files = 16;
  constexpr std::size_t most_threads = 32;
  return std::clamp<std::size_t>(files / least_files, 1, most_threads);
}

PENSTOCK_INLINE FirstFailure for_all(std::size_t count, Borrowed<void(std::size_t)> f,
                                     Borrowed<void()> look, std::size_t threads) {
  StdAtomics::Atomic<std::size_t> next{0};
  std::mutex mutex;
  FirstFailure first{count, nullptr};
  const auto call_next = [&] {
    const std::size_t i = next.fetch_add(1, StdAtomics::relaxed);
    if (i >= count) {
      return false;
    }
    try {
      f(i);
    } catch (...) {
      next.store(count, StdAtomics::relaxed);
      const std::scoped_lock lock{mutex};
      if (i < first.at) {
        first = {i, std::current_exception()};
      }
    }
    return true;
  };
  struct Others {
    StdAtomics::Atomic<std::size_t>& next;
    const std::size_t count;
    Vector<std::thread> threads{};
    ~Others() {
      next.store(count, StdAtomics::relaxed);
      for (std::thread& thread : threads) {
        thread.join();
      }
    }
  };
  {
    Others others{next, count};
    try {
      std::size_t more = (threads != 0 ? std::min(threads, count) : opening_threads(count)) - 1;
      others.threads.reserve(more); // so that push_back() cannot throw and lose a thread
      for (; more != 0; --more) {
        others.threads.push_back(start_thread([&] {
          while (call_next()) {
          }
        }));
      }
    } catch (const std::system_error&) {
    }
    while (call_next()) {
      look();
    }
  }
  return first;
}
#endif

} // namespace penstock::detail
