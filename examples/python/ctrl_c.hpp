// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>

#include <csignal>

#include <signal.h>

namespace nb = nanobind;

/// Lets Ctrl-C end a wait without the GIL, in which Python's handler only notes the signal: while
/// the object lives the handler also calls `stop(of)`. One at a time, on the main thread.
class CtrlC {
 public:
  /// Returns whether Ctrl-C raises KeyboardInterrupt in this thread. With the GIL.
  static bool raises_here() {
    const nb::module_ threading = nb::module_::import_("threading");
    const nb::module_ signals = nb::module_::import_("signal");
    return threading.attr("current_thread")().is(threading.attr("main_thread")()) &&
           signals.attr("getsignal")(signals.attr("SIGINT"))
               .is(signals.attr("default_int_handler"));
  }

  CtrlC(void (*stop)(void*), void* of) {
    stop_ = stop;
    of_ = of;
    came_ = 0;
    struct sigaction mine = {};
    sigaction(SIGINT, nullptr, &python_);
    mine = python_;
    mine.sa_handler = [](int signal) {
      came_ = 1;
      stop_(of_);
      python_.sa_handler(signal);
    };
    sigaction(SIGINT, &mine, nullptr);
  }
  CtrlC(const CtrlC&) = delete;
  CtrlC& operator=(const CtrlC&) = delete;
  ~CtrlC() { sigaction(SIGINT, &python_, nullptr); }

  /// Returns whether the signal came.
  bool came() const { return came_ != 0; }

 private:
  // The handler has no argument of its own. It may run on any thread, and reads what the main
  // thread wrote before the system call that set it.
  inline static void (*stop_)(void*);
  inline static void* of_;
  inline static struct sigaction python_;
  inline static volatile std::sig_atomic_t came_;
};
