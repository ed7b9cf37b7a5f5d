// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/config.hpp>
#include <penstock/detail/ranks/socket.hpp>
#include <penstock/order/order.hpp>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <utility>

namespace penstock::detail {

/// What the watch over a rank goes by.
struct WatchTerms {
  Ranks ranks;
  std::chrono::nanoseconds stall{}; // 0: for ever
  std::chrono::nanoseconds start{}; // how long ranks may take to come
  std::function<void(const std::string&)> on_failure;

  /// How often ranks say that they are there.
  std::chrono::nanoseconds beat() const {
    using namespace std::chrono_literals;
    return stall == 0s ? 500ms : std::clamp<std::chrono::nanoseconds>(stall / 8, 10ms, 500ms);
  }
};

/// Time as a watch counts it: while its own thread does not run (the process is stopped, or the
/// machine is busy or asleep), next to none passes. Whoever was late was then not heard, not
/// silent.
class WatchClock {
 public:
  using Duration = std::chrono::nanoseconds;

  explicit WatchClock(Duration beat) : most_{2 * beat} {}

  Duration now() const noexcept { return now_; }
  /// Counts the time since the last call, or since it was made.
  void advance() noexcept {
    const auto at = std::chrono::steady_clock::now();
    now_ += std::min<Duration>(at - std::exchange(last_, at), most_);
  }

 private:
  Duration most_;
  Duration now_{};
  std::chrono::steady_clock::time_point last_{std::chrono::steady_clock::now()};
};

/// Tells how long a count has stood still.
class StandstillClock {
 public:
  /// Returns for how long it has, at `now`.
  WatchClock::Duration of(std::uint64_t count, WatchClock::Duration now) noexcept {
    if (count != count_) {
      since_ = now;
    }
    count_ = count;
    return now - since_;
  }
  void restart(WatchClock::Duration now) noexcept { since_ = now; }

 private:
  std::uint64_t count_{};
  WatchClock::Duration since_{};
};

/// What the program's threads and the watch's thread tell each other. No lock is held while the
/// user's code runs.
struct RankBoard {
  static constexpr std::size_t most_shared = 64; // that have come, and nobody has asked for yet

  std::mutex mutex;
  std::condition_variable changed;
  // To the watch's thread, which `waker` wakes.
  std::string failure;
  bool failed = false;
  bool leaving = false;
  std::deque<std::string> to_share;
  // From it.
  bool begun = false;
  bool over = false;
  std::string verdict; // why the job has failed; else empty
  std::deque<std::string> shared;

  Waker waker;
  alignas(cache_line) StdAtomics::Atomic<std::uint64_t> steps{0};

  /// Changes what is shared, under the lock.
  template <class F> void change(const F& f) {
    {
      const std::scoped_lock lock{mutex};
      f();
    }
    changed.notify_all();
  }
  /// Ends the watch, with what it has found.
  [[gnu::cold]] void conclude(const std::string& found, const WatchTerms& terms) {
    const bool was_begun = [&] {
      const std::scoped_lock lock{mutex};
      verdict = found;
      return begun;
    }();
    if (was_begun && !found.empty()) { // before it, the constructor throws
      terms.on_failure(found);
    }
    change([this] { over = true; });
  }
};

} // namespace penstock::detail
