// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace penstock {

/// How a ring's threads wait: a short spin, then asleep on the slot's 32-bit word (a Linux futex).
struct SpinThenFutex {
  using Word = std::atomic<std::uint32_t>; ///< What a thread sleeps on.
  static_assert(sizeof(Word) == sizeof(std::uint32_t) && Word::is_always_lock_free,
                "the kernel compares the word itself");

  /// Whether sleep() may be called. Without it, waiters spin and no thread pays for waking them.
  static constexpr bool sleeps = true;
  /// How often to look at the word before sleeping: some microseconds, less than a wake-up costs.
  static constexpr int spins = 200;

  /// Pauses between two looks.
  static void pause() noexcept;
  /// Blocks while `word` holds `seen`, until woken; may return early. `limit` < 0 means for ever.
  static void sleep(Word& word, std::uint32_t seen,
                    std::chrono::nanoseconds limit = std::chrono::nanoseconds{-1}) noexcept;
  /// Wakes every thread that sleeps on `word`.
  static void wake(Word& word) noexcept;
};

#if PENSTOCK_BODIES
PENSTOCK_INLINE void SpinThenFutex::pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  // As long as x86's pause; "yield" does nothing on most Arm processors.
  asm volatile("isb" ::: "memory");
#endif
}

PENSTOCK_INLINE void SpinThenFutex::sleep(Word& word, std::uint32_t seen,
                                          std::chrono::nanoseconds limit) noexcept {
  timespec time{};
  time.tv_sec = limit.count() / 1'000'000'000;
  time.tv_nsec = limit.count() % 1'000'000'000;
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, seen, limit.count() < 0 ? nullptr : &time, nullptr,
          0);
}

PENSTOCK_INLINE void SpinThenFutex::wake(Word& word) noexcept {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}
#endif

} // namespace penstock
