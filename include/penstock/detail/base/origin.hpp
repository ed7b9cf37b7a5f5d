// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/config.hpp>

#include <new>

#include <pthread.h>
#include <sys/types.h>
#include <unistd.h>

namespace penstock::detail {

inline constinit StdAtomics::Atomic<bool> left_at_exit{false};
/// Returns whether exit() has left a pipeline as it was, since it was called inside its run.
bool was_left_at_exit() noexcept;

/// The process in which an object was made. A forked child has a copy of the object, but not its
/// threads, its page-locked pages or its device: the child must not destroy it, only leave it. It
/// would wait for a missing thread for ever, and addresses that are not mapped may be another's.
class Origin {
 public:
  /// Notes this process. Throws std::bad_alloc.
  Origin() : process_{Current::process()} {}
  /// Returns whether this is still that process. Costs a load.
  bool is_here() const noexcept { return process_ == Current::process(); }

 private:
  // getpid() is a system call: it is made once, and again in each child.
  class Current {
   public:
    static pid_t process();

   private:
    Current();
    static void ask() noexcept { process_.store(::getpid(), StdAtomics::relaxed); }

    static inline constinit StdAtomics::Atomic<pid_t> process_{0};
  };

  pid_t process_;
};

#if PENSTOCK_BODIES
PENSTOCK_INLINE bool was_left_at_exit() noexcept {
  return left_at_exit.load(StdAtomics::relaxed);
}

PENSTOCK_INLINE pid_t Origin::Current::process() {
  static const Current asked;
  return process_.load(StdAtomics::relaxed);
}

PENSTOCK_INLINE Origin::Current::Current() {
  ask();
  if (::pthread_atfork(nullptr, nullptr, ask) != 0) {
    throw std::bad_alloc{};
  }
}
#endif

} // namespace penstock::detail
