// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Takes the place of the C library's syscall(), by which threads wake each other.

#include "random/late_threads.hpp"

#include <penstock/detail/base/splitmix.hpp>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdarg>
#include <dlfcn.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <thread>

namespace penstock::tests {

std::atomic<std::uint64_t> late_one_in{0};

namespace {

std::atomic<std::uint64_t> wakes{0};

void hold_up() {
  const std::uint64_t one_in = late_one_in.load(std::memory_order_relaxed);
  const std::uint64_t h = detail::splitmix(wakes.fetch_add(1, std::memory_order_relaxed), 1);
  if (one_in != 0 && h % one_in == 0) {
    std::this_thread::sleep_for(std::chrono::nanoseconds{(h >> 8U) % 200'000});
  }
}

} // namespace
} // namespace penstock::tests

extern "C" long syscall(long number, ...) {
  static const auto next = reinterpret_cast<long (*)(long, ...)>(dlsym(RTLD_NEXT, "syscall"));
  std::array<long, 6> a{};
  std::va_list list;
  va_start(list, number);
  for (long& argument : a) {
    argument = va_arg(list, long);
  }
  va_end(list);
  const long result = next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
  if (number == SYS_futex && (a[1] & FUTEX_CMD_MASK) == FUTEX_WAKE) {
    const int error = errno;
    penstock::tests::hold_up();
    errno = error;
  }
  return result;
}
