// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include <fcntl.h>
#include <malloc.h>
#include <time.h>
#include <unistd.h>

/// What this process has, at the moment.
namespace penstock::tests {

/// Returns how many descriptors below 512 are open.
inline int descriptors_open() {
  int open = 0;
  for (int fd = 0; fd != 512; ++fd) {
    open += ::fcntl(fd, F_GETFD) != -1 ? 1 : 0;
  }
  return open;
}
/// Returns how many threads there are; 0 if the system does not say.
inline std::ptrdiff_t threads_alive() {
  std::error_code failed;
  const std::filesystem::directory_iterator tasks{"/proc/self/task", failed};
  return failed ? 0 : std::distance(begin(tasks), end(tasks));
}

/// Waits, for some seconds at most, until there are no more threads than so many: the system lists
/// one for a moment after it was joined. Returns whether there are exactly so many.
inline bool threads_come_to(std::ptrdiff_t wanted) {
  for (int ms = 0; threads_alive() > wanted && ms != 5000; ++ms) {
    ::usleep(1000);
  }
  return threads_alive() == wanted;
}
/// Returns the bytes of memory that lie in RAM; 0 if the system does not say.
inline std::size_t resident_bytes() {
  std::size_t all = 0;
  std::size_t resident = 0;
  std::ifstream{"/proc/self/statm"} >> all >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}
/// Returns the bytes of the heap that are in use.
inline std::size_t heap_bytes() {
  const struct mallinfo2 heap = ::mallinfo2();
  return heap.uordblks + heap.hblkhd;
}
/// Returns the processor time of all threads so far.
inline std::chrono::nanoseconds processor_time() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return std::chrono::seconds{time.tv_sec} + std::chrono::nanoseconds{time.tv_nsec};
}

} // namespace penstock::tests
