// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/error.hpp>

#include <cxxabi.h>
#include <pthread.h>

namespace penstock::detail {

/// What pthread_exit() and pthread_cancel() unwind a thread's stack by. Who catches it must throw
/// it on, and a catch (...) that does not ends the process. libc++ has no name for it, so that
/// there each such end is the process's.
#if defined(_LIBCPP_VERSION)
struct ThreadEnd {};
#else
using ThreadEnd = abi::__forced_unwind;
#endif

/// Ends a run whose callable has ended its thread.
class [[gnu::visibility("default")]] ThreadEnded : public Error {
 public:
  ThreadEnded();
};

/// Calls failed() inside a catch block of its own, with a ThreadEnded in flight, or what the lack
/// of memory for one throws.
template <class Failed> [[gnu::cold]] void fail_of_thread_end(Failed failed) {
  try {
    throw ThreadEnded{};
  } catch (...) {
    failed();
  }
}

/// Calls f. If it throws, calls failed() inside the catch block and returns false. If it ends its
/// thread, calls failed() too, and lets the thread end.
template <class F, class Failed> bool caught(F& f, Failed failed) {
  try {
    f();
    return true;
  } catch (const ThreadEnd&) {
    fail_of_thread_end(failed);
    throw;
  } catch (...) {
    failed();
    return false;
  }
}

/// While it lives, pthread_cancel() waits: the calling thread would else be ended in the middle of
/// what must not be left half done.
class NoCancellation {
 public:
  NoCancellation() noexcept { ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  NoCancellation(const NoCancellation&) = delete;
  NoCancellation& operator=(const NoCancellation&) = delete;
  ~NoCancellation() { ::pthread_setcancelstate(before_, nullptr); }

  /// While it lives, the thread is as it was before.
  class Lifted {
   public:
    explicit Lifted(const NoCancellation& by) noexcept;
    Lifted(const Lifted&) = delete;
    Lifted& operator=(const Lifted&) = delete;
    ~Lifted() { ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr); }
  };

 private:
  int before_{};
};

#if PENSTOCK_BODIES
PENSTOCK_INLINE ThreadEnded::ThreadEnded()
    : Error{"penstock: a callable ended its thread, by pthread_exit(), or pthread_cancel() did: "
            "let it return, or stop the run."} {}

PENSTOCK_INLINE NoCancellation::Lifted::Lifted(const NoCancellation& by) noexcept {
  ::pthread_setcancelstate(by.before_, nullptr);
}
#endif

} // namespace penstock::detail
