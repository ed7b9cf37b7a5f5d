// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Watches a program for `17_doctor --run`: a library that CUDA's driver loads into the program when
// it initialises, from the path in CUDA_INJECTION64_PATH. It writes what it saw to files in the
// folder that PENSTOCK_WATCH names, PID.json and PID.txt, and nothing anywhere else. It takes no
// signal, makes no call of CUDA, and ends its watch in children that the program forks.
//
// A program that ends by _exit() or by a signal, or becomes another by exec(), runs no exit
// handlers. The files are written while it runs too: two seconds or a twentieth of the run are lost
// at most.

#include "doctor/watch_print.hpp"
#include "support/watch_files.hpp"

#include <penstock/diagnose/gpu_watch_summary.hpp>
#include <penstock/diagnose/watch.hpp>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <mutex>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>

#include <pthread.h>
#include <unistd.h>

namespace {

namespace ps = penstock;
using ps::detail::WatchLog;

/// Writes the files, while the program runs and at its end.
class Watcher {
 public:
  /// It is never destroyed: a thread uses it.
  static Watcher& only() {
    static Watcher& watcher = *new Watcher;
    return watcher;
  }

  void begin(const std::string& folder) {
    files_ = {folder, getpid()};
    try {
      WatchLog::only().start(ps::detail::ActivityRecords::any_device);
    } catch (const std::exception& error) {
      files_.write_error(program(), error.what());
      return;
    }
    files_.write_begun(program());
    watching_ = true;
    std::atexit([] { only().end(); });
    std::at_quick_exit([] { only().end(); });
    pthread_atfork(nullptr, nullptr, [] { only().forget(); });
    start_thread();
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds least_pause{2};

  void end() noexcept {
    if (!watching_) {
      return;
    }
    watching_ = false;
    try {
      {
        const std::lock_guard lock{mutex_};
        ending_ = true;
      }
      wake_.notify_one();
      if (thread_.joinable()) {
        thread_.join();
      }
      write(WatchLog::only().stop(), true);
    } catch (const std::exception&) { // what was written last must do
    }
  }
  /// In a child, whose only thread is the one that forked: hears nothing, and writes nothing.
  void forget() noexcept {
    watching_ = false;
    ps::detail::CallSubscription::only().ignore();
  }
  void start_thread() {
    // The program's signals are for its own threads.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      thread_ = std::thread{[this] { write_now_and_then(); }};
    } catch (const std::system_error&) { // it writes at the end alone
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  void write_now_and_then() noexcept {
    Clock::duration pause = least_pause;
    std::unique_lock lock{mutex_};
    while (!wake_.wait_for(lock, pause, [this] { return ending_; })) {
      const auto start = Clock::now();
      try {
        write(WatchLog::only().so_far(), false);
      } catch (const std::exception&) { // the next time
      }
      pause = std::max<Clock::duration>(least_pause, 20 * (Clock::now() - start));
    }
  }
  void write(const ps::WatchSummary& summary, bool ended) {
    std::ostringstream text;
    doctor::print(text, summary);
    files_.write(program(), ended, doctor::json_with_findings(summary), text.str());
  }
  static std::string program() {
    std::error_code failed;
    return std::filesystem::read_symlink("/proc/self/exe", failed).string();
  }

  doctor::WatchFiles files_;
  bool watching_{};
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ending_{};
  std::thread thread_;
};

} // namespace

extern "C" {

/// CUDA's driver calls it once, before the program's first call of CUDA has done anything.
[[gnu::visibility("default")]] int InitializeInjection() {
  try {
    if (const char* const folder = std::getenv(doctor::WatchFiles::variable)) {
      Watcher::only().begin(folder);
    }
  } catch (const std::exception&) { // the program goes on unwatched
  }
  return 1;
}
}
