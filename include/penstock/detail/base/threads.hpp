// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/base/job.hpp>

#include <csignal>
#include <thread>
#include <utility>

#include <pthread.h>

namespace penstock::detail {

/// While it lives, the calling thread and each thread that it starts get no signals but those of
/// their own faults, and a profiler's.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept {
    sigset_t blocked;
    ::sigfillset(&blocked);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS, SIGPROF}) {
      ::sigdelset(&blocked, fault);
    }
    ::pthread_sigmask(SIG_BLOCK, &blocked, &before_);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

/// Starts a thread of the library. The program's signal handlers run on the program's own threads.
/// Throws std::system_error.
template <class Thread = std::thread> Thread start_thread(Job job) {
  const SignalsBlocked quiet;
  return Thread{std::move(job)};
}

} // namespace penstock::detail
