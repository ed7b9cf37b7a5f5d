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

/// Says when a stage hands on what it fills before that is full.
class Flush {
 public:
  using Clock = std::chrono::steady_clock;

  /// Never.
  Flush() = default;
  /// When its oldest record was read `longest` ago; or, unless `ahead` is null, when the Reader may
  /// read no more. It must outlive this.
  Flush(std::chrono::microseconds longest, const Ahead<>* ahead)
      : longest_{std::max(longest, std::chrono::microseconds::zero())}, ahead_{ahead} {}

  /// Returns whether there is such a time.
  explicit operator bool() const noexcept { return longest_ != never; }
  /// Returns when what was read then is to be handed on; max() for never.
  Clock::time_point due(Clock::time_point read) const noexcept;
  /// Returns whether it is due.
  bool is_due(Clock::time_point read) const noexcept;

 private:
  std::chrono::microseconds longest_ = never;
  const Ahead<>* ahead_{};
};

#if PENSTOCK_BODIES
PENSTOCK_INLINE Flush::Clock::time_point Flush::due(Clock::time_point read) const noexcept {
  using std::chrono::microseconds;
  const auto most = std::chrono::duration_cast<microseconds>(Clock::time_point::max() - read);
  return longest_ < most ? read + longest_ : Clock::time_point::max();
}

PENSTOCK_INLINE bool Flush::is_due(Clock::time_point read) const noexcept {
  return *this && ((ahead_ && ahead_->is_short()) || Clock::now() >= due(read));
}
#endif

} // namespace detail
} // namespace penstock
