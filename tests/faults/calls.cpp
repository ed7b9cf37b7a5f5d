// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The functions of the C library that are made to fail. The linker prefers a program's own, and so
// do libraries: what libstdc++ asks for comes through here. Each asks the kernel by itself, so that
// it needs nothing of what it replaces.

#include "faults/calls.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstring>
#include <ctime>

#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

namespace penstock::tests::faults {
namespace {

constinit Plan plan{};
constinit std::atomic<std::uint32_t> armed{0};
constinit std::atomic<std::uint64_t> made{0}, went_wrong{0};
constinit std::uint64_t first{0};

bool goes_wrong(Call call) noexcept {
  if ((armed.load(std::memory_order_acquire) & call) == 0) {
    return false;
  }
  const std::uint64_t number = made.fetch_add(1, std::memory_order_relaxed) + 1;
  const bool hit = plan.every_other  ? number % 2 == first % 2
                   : plan.persistent ? number >= first
                                     : number == first;
  went_wrong.fetch_add(hit ? 1 : 0, std::memory_order_relaxed);
  return hit;
}
// For calls that cannot be shortened: returns whether it fails, with errno set.
bool fails(Call call) noexcept {
  const bool hit = goes_wrong(call) && plan.does == Does::fails;
  errno = hit ? plan.error : errno;
  return hit;
}

long kernel(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0,
            long f = 0) noexcept {
  static const auto next = reinterpret_cast<long (*)(long, ...)>(dlsym(RTLD_NEXT, "syscall"));
  return next(number, a, b, c, d, e, f);
}
long address(const void* at) noexcept {
  return reinterpret_cast<long>(at);
}

std::size_t shorter(std::size_t bytes) noexcept {
  return (bytes + 2) / 3;
}

} // namespace

void arm(const Plan& p, std::uint64_t k) noexcept {
  disarm();
  plan = p;
  first = k;
  made = went_wrong = 0;
  armed.store(plan.calls, std::memory_order_release);
}
void disarm() noexcept {
  armed = 0;
}
std::uint64_t hits() noexcept {
  return went_wrong;
}

} // namespace penstock::tests::faults

using namespace penstock::tests::faults;

extern "C" {

int open(const char* path, int flags, ...) {
  std::va_list list;
  va_start(list, flags);
  const unsigned mode = (flags & O_CREAT) != 0 ? va_arg(list, unsigned) : 0;
  va_end(list);
  return fails(opening)
             ? -1
             : static_cast<int>(kernel(SYS_openat, AT_FDCWD, address(path), flags, mode));
}
int stat(const char* path, struct stat* to) noexcept {
  return fails(asking) ? -1 : fstatat(AT_FDCWD, path, to, 0);
}
int fstat(int fd, struct stat* to) noexcept {
  return fails(asking) ? -1 : fstatat(fd, "", to, AT_EMPTY_PATH);
}
ssize_t pread(int fd, void* into, std::size_t bytes, off_t offset) {
  const bool wrong = goes_wrong(reading);
  if (wrong && plan.does == Does::fails) {
    errno = plan.error;
    return -1;
  }
  const long got =
      kernel(SYS_pread64, fd, reinterpret_cast<long>(into), static_cast<long>(bytes), offset);
  if (!wrong || got <= 0) {
    return got;
  }
  // The kernel is asked for all of it: a direct read of a part would not be aligned.
  const std::size_t some = shorter(static_cast<std::size_t>(got));
  std::memset(static_cast<char*>(into) + some, 0xDD, static_cast<std::size_t>(got) - some);
  return static_cast<ssize_t>(some);
}
ssize_t pwrite(int fd, const void* from, std::size_t bytes, off_t offset) {
  const bool wrong = goes_wrong(writing);
  if (wrong && plan.does == Does::fails) {
    errno = plan.error;
    return -1;
  }
  return kernel(SYS_pwrite64, fd, address(from), static_cast<long>(wrong ? shorter(bytes) : bytes),
                offset);
}
int fsync(int fd) {
  return fails(syncing) ? -1 : static_cast<int>(kernel(SYS_fsync, fd));
}
int close(int fd) {
  const long flags = kernel(SYS_fcntl, fd, F_GETFL);
  const long result = kernel(SYS_close, fd);
  return flags > 0 && (flags & O_ACCMODE) == O_WRONLY && fails(syncing) ? -1
                                                                        : static_cast<int>(result);
}
int rename(const char* from, const char* to) noexcept {
  return fails(naming) ? -1
                       : static_cast<int>(
                             kernel(SYS_renameat2, AT_FDCWD, address(from), AT_FDCWD, address(to)));
}
int link(const char* from, const char* to) noexcept {
  return fails(naming)
             ? -1
             : static_cast<int>(kernel(SYS_linkat, AT_FDCWD, address(from), AT_FDCWD, address(to)));
}
int unlink(const char* path) noexcept {
  return fails(naming) ? -1 : static_cast<int>(kernel(SYS_unlinkat, AT_FDCWD, address(path)));
}
void* mmap(void* at, std::size_t bytes, int protection, int flags, int fd, off_t offset) noexcept {
  return fails(mapping)
             ? MAP_FAILED
             : reinterpret_cast<void*>(kernel(SYS_mmap, address(at), static_cast<long>(bytes),
                                              protection, flags, fd, offset));
}
int clock_gettime(clockid_t clock, timespec* now) noexcept {
  const int result = static_cast<int>(kernel(SYS_clock_gettime, clock, address(now)));
  if ((clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC) && goes_wrong(timing)) {
    now->tv_sec += plan.jump;
  }
  return result;
}
int nanosleep(const timespec* time, timespec* left) {
  return (armed & pausing) != 0
             ? 0
             : static_cast<int>(kernel(SYS_nanosleep, address(time), address(left)));
}

// Sanitizers have their own, under this name.
[[gnu::weak]] int __interceptor_pthread_create(pthread_t*, const pthread_attr_t*, void* (*)(void*),
                                               void*);
int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                   void* argument) noexcept {
  if (goes_wrong(starting)) {
    return plan.error;
  }
  static const auto next = __interceptor_pthread_create
                               ? &__interceptor_pthread_create
                               : reinterpret_cast<decltype(&__interceptor_pthread_create)>(
                                     dlsym(RTLD_NEXT, "pthread_create"));
  return next(thread, attributes, start, argument);
}

long syscall(long number, ...) noexcept {
  std::array<long, 6> a{};
  std::va_list list;
  va_start(list, number);
  for (long& argument : a) {
    argument = va_arg(list, long);
  }
  va_end(list);
  if ((number == SYS_futex && (a[1] & FUTEX_CMD_MASK) == FUTEX_WAIT && fails(waiting)) ||
      (number == SYS_io_uring_enter && fails(ringing))) {
    return -1;
  }
  return kernel(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

} // extern "C"
