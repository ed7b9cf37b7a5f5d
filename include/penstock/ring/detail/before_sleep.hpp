// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#include <utility>

namespace penstock::detail {

/// What a thread calls before it falls asleep for a slot: nothing, but for one that tells others
/// when it waits. A wait that ends while the thread still spins is too short to be told of.
struct BeforeSleep {
  void (*call)(void* with) noexcept {};
  void* with{};
};
inline constinit thread_local BeforeSleep before_sleep{};

/// While it lives, this thread calls that and nothing else.
class [[nodiscard]] CallsBeforeSleep {
 public:
  explicit CallsBeforeSleep(const BeforeSleep& call) noexcept
      : outside_{std::exchange(before_sleep, call)} {}
  CallsBeforeSleep(const CallsBeforeSleep&) = delete;
  CallsBeforeSleep& operator=(const CallsBeforeSleep&) = delete;
  ~CallsBeforeSleep() { before_sleep = outside_; }

 private:
  const BeforeSleep outside_;
};

} // namespace penstock::detail
