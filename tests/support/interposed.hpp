// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <ostream>

// Not beside a sanitizer, which defines the same functions.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#if !defined(__has_feature)
#define PENSTOCK_TESTS_INTERPOSES
#elif !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer)
#define PENSTOCK_TESTS_INTERPOSES
#endif
#endif

/// Counts what a program does behind its own back: support/interposed.cpp defines malloc, the locks
/// of pthreads and their like anew, and support/interposed_cuda.cpp stands, with the linker's
/// --wrap, before CUDA's functions. All count and then do what they were called for.
///
/// What a device does inside its own functions is counted apart: on any thread within an `Inside`,
/// and on the threads that were started there.
namespace penstock::tests::interposed {

/// Whether anything is counted in this build.
#if defined(PENSTOCK_TESTS_INTERPOSES)
inline constexpr bool counts = true;
#else
inline constexpr bool counts = false;
#endif

enum class Kind : std::uint8_t {
  heap,     ///< malloc and its like (operator new too), and free
  lock,     ///< a mutex or rwlock locked or tried, a wait for a condition variable
  thread,   ///< a thread started
  creation, ///< a stream, an event or memory of a device made or given back
  blocking, ///< a wait for the device
  callback, ///< a host function queued on a stream
};

/// How often each Kind was seen.
class Counts {
 public:
  static constexpr std::array names{"heap", "lock", "thread", "creation", "blocking", "callback"};

  std::uint64_t& operator[](Kind kind) { return counts_[static_cast<std::size_t>(kind)]; }
  friend bool operator==(const Counts&, const Counts&) = default;
  friend std::ostream& operator<<(std::ostream& os, const Counts& c) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      os << names[i] << ' ' << c.counts_[i] << (i + 1 < names.size() ? ", " : "");
    }
    return os;
  }

 private:
  std::array<std::uint64_t, names.size()> counts_{};
};

/// Clears the counts and begins to count, on all threads.
void arm() noexcept;
/// Ends counting. The counts stay.
void disarm() noexcept;
bool is_armed() noexcept;

/// Returns what was counted outside all devices.
Counts ours() noexcept;
/// Returns what was counted inside devices.
Counts devices() noexcept;
/// Writes the stack of the first call that ours() counted to stderr, if there is one.
void print_first_of_ours() noexcept;

/// Blocks until every other thread, devices' aside, waits for a condition variable: the first
/// things that it does would else be counted late. For a second at most, and not if nothing is
/// counted.
void await_rest() noexcept;

/// Counts one call, if armed. Any thread.
void count(Kind kind) noexcept;

/// While it lives, its thread is inside a device. May be nested.
class Inside {
 public:
  Inside() noexcept { ++depth_; }
  /// For a call that is one of `kind` itself: it counts where it came from.
  explicit Inside(Kind kind) noexcept {
    count(kind);
    ++depth_;
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  ~Inside() { --depth_; }

  static bool here() noexcept { return depth_ != 0; }

 private:
  // constinit: it is used inside malloc, where nothing may be initialised first.
  static constinit inline thread_local int depth_ = 0;
};

} // namespace penstock::tests::interposed
