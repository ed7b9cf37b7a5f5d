// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/turns/ahead.hpp>

#include <algorithm>
#include <chrono>

namespace penstock {

/// For options that are a time: never.
inline constexpr std::chrono::microseconds never = std::chrono::microseconds::max();

namespace detail {

/// Says when a stage hands on what it fills before that is full: when its oldest record has waited
/// long enough, and the stage that takes it is idle. A batch that would only queue behind another
/// one helps nobody: it may grow meanwhile.
class Flush {
 public:
  using Clock = std::chrono::steady_clock;

  /// Never.
  Flush() = default;
  /// When its oldest record was read `longest` ago; or at once, unless `ahead` is null, when the
  /// Reader may read no more. It must outlive this.
  Flush(std::chrono::microseconds longest, const Ahead<>* ahead)
      : longest_{std::max(longest, std::chrono::microseconds::zero())}, ahead_{ahead} {}

  /// Returns whether there is such a time.
  explicit operator bool() const noexcept { return longest_ != never; }
  /// Returns whether what was read then is to be handed on. `idle()`: whether all that was handed
  /// on before is used up.
  template <class Idle> bool is_due(Clock::time_point read, Idle idle) const noexcept {
    const Clock::duration late = *this ? Clock::now() - due(read) : Clock::duration{-1};
    return (*this && ahead_ && ahead_->is_short()) ||
           (late >= late.zero() && (late >= longest_busy || idle()));
  }
  /// Returns when to ask that again; max() for never.
  Clock::time_point look_again(Clock::time_point read) const noexcept;

 private:
  // Leases that a loop keeps are never used up.
  static constexpr std::chrono::milliseconds longest_busy{100};

  Clock::time_point due(Clock::time_point read) const noexcept;

  std::chrono::microseconds longest_ = never;
  const Ahead<>* ahead_{};
};

#if PENSTOCK_BODIES
PENSTOCK_INLINE Flush::Clock::time_point Flush::due(Clock::time_point read) const noexcept {
  using std::chrono::microseconds;
  const auto most = std::chrono::duration_cast<microseconds>(Clock::time_point::max() - read);
  return longest_ < most ? read + longest_ : Clock::time_point::max();
}

PENSTOCK_INLINE Flush::Clock::time_point Flush::look_again(Clock::time_point read) const noexcept {
  using namespace std::chrono_literals;
  const Clock::time_point now = Clock::now();
  // So late that it adds little to the record's age.
  const auto soon = std::clamp<Clock::duration>((now - read) / 16, 20us, 1ms);
  return std::max(due(read), now + soon);
}
#endif

} // namespace detail
} // namespace penstock
