// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#include <cerrno>
#include <concepts>
#include <csignal>
#include <ctime>
#include <thread>
#include <utility>

#include <pthread.h>

namespace penstock::detail {

/// What a thread runs: a callable without arguments, of one type for all, since std::thread is
/// compiled anew for each type. A std::function must be copyable too, and compiles a dozen
/// functions for each callable; this compiles two.
class Job {
 public:
  template <class F>
    requires(!std::same_as<F, Job>)
  Job(F f)
      : callable_{new F{std::move(f)}}, use_{[](void* callable, bool call) {
          F* const kept = static_cast<F*>(callable);
          if (call) {
            (*kept)();
          } else {
            delete kept;
          }
        }} {}
  Job(Job&& other) noexcept
      : callable_{std::exchange(other.callable_, nullptr)}, use_{other.use_} {}
  Job& operator=(Job&&) = delete;
  ~Job();

  void operator()() const { use_(callable_, true); }

 private:
  void* callable_;
  void (*use_)(void* callable, bool call); // else it deletes it
};

/// While it lives, the calling thread and each thread that it starts get no signals but those of
/// their own faults, and a profiler's.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept;
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

/// While it lives, a write of the calling thread beyond the limit on files' sizes (ulimit -f) fails
/// with EFBIG, as one beyond a full disk fails, and sends the thread no SIGXFSZ. A signal that was
/// there before stays.
class NoSizeSignal {
 public:
  NoSizeSignal() noexcept;
  NoSizeSignal(const NoSizeSignal&) = delete;
  NoSizeSignal& operator=(const NoSizeSignal&) = delete;
  ~NoSizeSignal();

 private:
  sigset_t only_;
  sigset_t before_;
  bool was_pending_{};
};

/// Starts a thread of the library. The program's signal handlers run on the program's own threads.
/// Throws std::system_error.
template <class Thread = std::thread> Thread start_thread(Job job) {
  const SignalsBlocked quiet;
  return Thread{std::move(job)};
}

#if PENSTOCK_BODIES
PENSTOCK_INLINE Job::~Job() {
  if (callable_) {
    use_(callable_, false);
  }
}

PENSTOCK_INLINE SignalsBlocked::SignalsBlocked() noexcept {
  sigset_t blocked;
  ::sigfillset(&blocked);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS, SIGPROF}) {
    ::sigdelset(&blocked, fault);
  }
  ::pthread_sigmask(SIG_BLOCK, &blocked, &before_);
}

PENSTOCK_INLINE NoSizeSignal::NoSizeSignal() noexcept {
  ::sigemptyset(&only_);
  ::sigaddset(&only_, SIGXFSZ);
  ::pthread_sigmask(SIG_BLOCK, &only_, &before_);
  if (sigismember(&before_, SIGXFSZ) != 0) { // else it is not pending
    sigset_t pending;
    ::sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGXFSZ) != 0;
  }
}

PENSTOCK_INLINE NoSizeSignal::~NoSizeSignal() {
  const int error = errno;
  if (error == EFBIG && !was_pending_) {
    const timespec now{};
    ::sigtimedwait(&only_, nullptr, &now);
  }
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  errno = error;
}
#endif

} // namespace penstock::detail
