// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

namespace penstock::detail {

/// Returns by how much the calling thread's sleeps were too long so far, in sum.
inline std::chrono::nanoseconds& slept_too_long() noexcept {
  thread_local constinit std::chrono::nanoseconds sum{};
  return sum;
}
/// Has the sleeps that follow in this thread make up for so much more. What is more than 10
/// milliseconds in all is not made up for.
inline void make_up_for(std::chrono::nanoseconds time) noexcept {
  constexpr std::chrono::nanoseconds most{10'000'000};
  slept_too_long() = std::min(most, slept_too_long() + time);
}
/// Sleeps `time`, less what the sleeps before it in this thread took too long. Linux adds some 70
/// microseconds to each sleep, and a busy machine milliseconds: short ones would add up to far too
/// long.
inline void sleep_on_average(std::chrono::nanoseconds time) {
  using Clock = std::chrono::steady_clock;
  std::chrono::nanoseconds& too_long = slept_too_long();
  if (time <= too_long) {
    too_long -= time;
    return;
  }
  const Clock::time_point due = Clock::now() + time - too_long;
  std::this_thread::sleep_until(due);
  too_long = {};
  make_up_for(Clock::now() - due);
}

} // namespace penstock::detail
