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

/// In which process something was made. A forked child has a copy of it, but not its threads, its
/// page-locked pages or its device: there it must not be taken apart, only left. A thread that is
/// not there would be waited for without end, and addresses that are not mapped may be another's.
class Origin {
 public:
  /// This process. Throws std::bad_alloc.
  Origin() : process_{Current::process()} {}
  /// Whether this is still that process. Costs a load.
  bool is_here() const noexcept { return process_ == Current::process(); }

 private:
  // getpid() is a system call. So it is made once, and again in each child.
  class Current {
   public:
    static pid_t process() {
      static const Current asked;
      return process_.load(StdAtomics::relaxed);
    }

   private:
    Current() {
      ask();
      if (::pthread_atfork(nullptr, nullptr, ask) != 0) {
        throw std::bad_alloc{};
      }
    }
    static void ask() noexcept { process_.store(::getpid(), StdAtomics::relaxed); }

    static inline constinit StdAtomics::Atomic<pid_t> process_{0};
  };

  pid_t process_;
};

} // namespace penstock::detail
