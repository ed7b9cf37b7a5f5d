// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The functions of the C library that are counted. The dynamic linker prefers a program's own
// definition to a library's, for calls from libraries too: what libstdc++ and CUDA allocate and
// lock comes through here. This file must therefore use neither <mutex> nor <thread>.

#include "support/interposed.hpp"

#include <atomic>

#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <dlfcn.h>
#include <execinfo.h>
#include <malloc.h>
#include <pthread.h>
#include <unistd.h>

namespace penstock::tests::interposed {
namespace {

using Atomics = std::array<std::atomic<std::uint64_t>, Counts::names.size()>;

constinit std::atomic<bool> armed{false};
constinit Atomics count_of_ours{};
constinit Atomics count_of_devices{};

// Threads outside devices that do not wait for a condition variable; main()'s is the first.
constinit std::atomic<int> awake{1};

constinit std::atomic<bool> first_taken{false};
constinit std::atomic<int> first_frames{0};
constinit std::array<void*, 48> first{};

Counts now(const Atomics& atomics) noexcept {
  Counts counts;
  for (std::size_t i = 0; i < atomics.size(); ++i) {
    counts[static_cast<Kind>(i)] = atomics[i].load(std::memory_order_relaxed);
  }
  return counts;
}

} // namespace

void arm() noexcept {
  // The first call of backtrace() allocates.
  std::array<void*, 1> frame{};
  backtrace(frame.data(), 1);
  for (std::size_t i = 0; i < count_of_ours.size(); ++i) {
    count_of_ours[i] = count_of_devices[i] = 0;
  }
  first_frames = 0;
  first_taken = false;
  armed = true;
}
void disarm() noexcept {
  armed = false;
}
bool is_armed() noexcept {
  return armed.load(std::memory_order_relaxed);
}

Counts ours() noexcept {
  return now(count_of_ours);
}
Counts devices() noexcept {
  return now(count_of_devices);
}
void print_first_of_ours() noexcept {
  if (const int frames = first_frames; frames != 0) {
    backtrace_symbols_fd(first.data(), frames, STDERR_FILENO);
  }
}

void await_rest() noexcept {
  for (int ms = 0; counts && awake != 1 && ms < 1000; ++ms) {
    usleep(1000);
  }
}

void count(Kind kind) noexcept {
  if (!counts || !is_armed()) {
    return;
  }
  const auto i = static_cast<std::size_t>(kind);
  if (Inside::here()) {
    count_of_devices[i].fetch_add(1, std::memory_order_relaxed);
    return;
  }
  count_of_ours[i].fetch_add(1, std::memory_order_relaxed);
  if (!first_taken.exchange(true)) {
    const Inside looking; // dlsym() may lock
    first_frames = backtrace(first.data(), static_cast<int>(first.size()));
  }
}

} // namespace penstock::tests::interposed

#if defined(PENSTOCK_TESTS_INTERPOSES)

extern "C" {
// The C library's own names of these four, for programs that replace them: dlsym() may need memory
// itself.
void* __libc_malloc(std::size_t) noexcept;
void* __libc_calloc(std::size_t, std::size_t) noexcept;
void* __libc_realloc(void*, std::size_t) noexcept;
void __libc_free(void*) noexcept;
}

namespace {

using penstock::tests::interposed::awake;
using penstock::tests::interposed::count;
using penstock::tests::interposed::Inside;
using penstock::tests::interposed::Kind;

// Returns the C library's own function. Those of condition variables exist twice: dlsym() may find
// the older ones, for programs from before 2003.
void* own(const char* name) noexcept {
  const Inside looking; // dlvsym() may allocate
  void* const newer = dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2");
  return newer != nullptr ? newer : dlsym(RTLD_NEXT, name);
}

template <auto* Function, class... A>
auto forward(const char* name, A... arguments) noexcept(noexcept(Function(arguments...))) {
  static const auto function = reinterpret_cast<decltype(Function)>(own(name));
  return function(arguments...);
}
template <auto* Function, class... A>
auto counted(Kind kind, const char* name,
             A... arguments) noexcept(noexcept(Function(arguments...))) {
  count(kind);
  return forward<Function>(name, arguments...);
}

// What a thread runs, and whether it is a device's, as the thread is that started it.
struct Start {
  void* (*run)(void*);
  void* argument;
  bool inside;
};

void* run(void* at) {
  const Start start = *static_cast<Start*>(at);
  __libc_free(at);
  if (start.inside) {
    const Inside for_good;
    return start.run(start.argument);
  }
  void* const result = start.run(start.argument);
  --awake;
  return result;
}

} // namespace

extern "C" {

void* malloc(std::size_t bytes) noexcept {
  count(Kind::heap);
  return __libc_malloc(bytes);
}
void* calloc(std::size_t n, std::size_t bytes) noexcept {
  count(Kind::heap);
  return __libc_calloc(n, bytes);
}
void* realloc(void* at, std::size_t bytes) noexcept {
  count(Kind::heap);
  return __libc_realloc(at, bytes);
}
void free(void* at) noexcept {
  if (at != nullptr) {
    count(Kind::heap);
  }
  __libc_free(at);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  return counted<aligned_alloc>(Kind::heap, "aligned_alloc", alignment, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) noexcept {
  return counted<memalign>(Kind::heap, "memalign", alignment, bytes);
}
int posix_memalign(void** at, std::size_t alignment, std::size_t bytes) noexcept {
  return counted<posix_memalign>(Kind::heap, "posix_memalign", at, alignment, bytes);
}

int pthread_mutex_lock(pthread_mutex_t* m) noexcept {
  return counted<pthread_mutex_lock>(Kind::lock, "pthread_mutex_lock", m);
}
int pthread_mutex_trylock(pthread_mutex_t* m) noexcept {
  return counted<pthread_mutex_trylock>(Kind::lock, "pthread_mutex_trylock", m);
}
int pthread_mutex_timedlock(pthread_mutex_t* m, const timespec* until) noexcept {
  return counted<pthread_mutex_timedlock>(Kind::lock, "pthread_mutex_timedlock", m, until);
}
int pthread_mutex_clocklock(pthread_mutex_t* m, clockid_t clock, const timespec* until) noexcept {
  return counted<pthread_mutex_clocklock>(Kind::lock, "pthread_mutex_clocklock", m, clock, until);
}
int pthread_rwlock_rdlock(pthread_rwlock_t* l) noexcept {
  return counted<pthread_rwlock_rdlock>(Kind::lock, "pthread_rwlock_rdlock", l);
}
int pthread_rwlock_tryrdlock(pthread_rwlock_t* l) noexcept {
  return counted<pthread_rwlock_tryrdlock>(Kind::lock, "pthread_rwlock_tryrdlock", l);
}
int pthread_rwlock_timedrdlock(pthread_rwlock_t* l, const timespec* until) noexcept {
  return counted<pthread_rwlock_timedrdlock>(Kind::lock, "pthread_rwlock_timedrdlock", l, until);
}
int pthread_rwlock_wrlock(pthread_rwlock_t* l) noexcept {
  return counted<pthread_rwlock_wrlock>(Kind::lock, "pthread_rwlock_wrlock", l);
}
int pthread_rwlock_trywrlock(pthread_rwlock_t* l) noexcept {
  return counted<pthread_rwlock_trywrlock>(Kind::lock, "pthread_rwlock_trywrlock", l);
}
int pthread_rwlock_timedwrlock(pthread_rwlock_t* l, const timespec* until) noexcept {
  return counted<pthread_rwlock_timedwrlock>(Kind::lock, "pthread_rwlock_timedwrlock", l, until);
}
int pthread_cond_wait(pthread_cond_t* c, pthread_mutex_t* m) {
  const int change = Inside::here() ? 0 : 1;
  count(Kind::lock);
  awake -= change;
  const int error = forward<pthread_cond_wait>("pthread_cond_wait", c, m);
  awake += change;
  return error;
}
int pthread_cond_timedwait(pthread_cond_t* c, pthread_mutex_t* m, const timespec* until) {
  return counted<pthread_cond_timedwait>(Kind::lock, "pthread_cond_timedwait", c, m, until);
}
int pthread_cond_clockwait(pthread_cond_t* c, pthread_mutex_t* m, clockid_t clock,
                           const timespec* until) {
  return counted<pthread_cond_clockwait>(Kind::lock, "pthread_cond_clockwait", c, m, clock, until);
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*f)(void*),
                   void* argument) noexcept {
  auto* const start = static_cast<Start*>(__libc_malloc(sizeof(Start)));
  if (start == nullptr) {
    return EAGAIN;
  }
  const bool inside = Inside::here();
  *start = {f, argument, inside};
  awake += inside ? 0 : 1;
  const int error = counted<pthread_create>(Kind::thread, "pthread_create", thread, attributes, run,
                                            static_cast<void*>(start));
  if (error != 0) {
    awake -= inside ? 0 : 1;
    __libc_free(start);
  }
  return error;
}

} // extern "C"

#endif
