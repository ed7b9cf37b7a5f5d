// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>

/// Makes a program's own system calls fail: calls.cpp takes the place of the C library's functions,
/// below all policies, so that what is tested is what users run. Sanitizers may stand beside it.
namespace penstock::tests::faults {

/// Kinds of calls; a plan names several.
enum Call : std::uint32_t {
  opening = 1U << 0U,  ///< open(), also of a new file
  asking = 1U << 1U,   ///< stat(), fstat()
  reading = 1U << 2U,  ///< pread()
  writing = 1U << 3U,  ///< pwrite()
  syncing = 1U << 4U,  ///< fsync(), and the close() of a file that was written to
  naming = 1U << 5U,   ///< rename(), link(), unlink()
  starting = 1U << 6U, ///< pthread_create()
  mapping = 1U << 7U,  ///< mmap()
  waiting = 1U << 8U,  ///< a futex's wait
  ringing = 1U << 9U,  ///< io_uring's submissions
  timing = 1U << 10U,  ///< clock_gettime(), but for processor time
  pausing = 1U << 11U, ///< nanosleep(): pauses take no time, and are not counted
};

enum class Does : std::uint8_t {
  fails,    ///< with Plan::error, without doing anything; close() does all the same
  shortens, ///< reads or writes a third of what was asked for
  jumps,    ///< the clocks are off by Plan::jump
};

/// What goes wrong in which calls.
struct Plan {
  std::uint32_t calls = 0;
  Does does = Does::fails;
  int error = 0;
  bool persistent = false;  ///< All calls from the one on that is to fail.
  bool every_other = false; ///< Each second call.
  std::int64_t jump = 0;    ///< Seconds.
};

/// From now on the `k`-th such call goes wrong, by whichever thread; 1 is the next. To be called
/// while no other thread makes such calls.
void arm(const Plan& plan, std::uint64_t k) noexcept;
void disarm() noexcept;
/// Returns how many calls went wrong since the last arm().
std::uint64_t hits() noexcept;

} // namespace penstock::tests::faults
