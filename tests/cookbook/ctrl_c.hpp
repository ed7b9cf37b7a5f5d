// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/penstock.hpp>

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <stop_token>
#include <string>
#include <thread>

#include <pthread.h>

namespace ps = penstock;

/// Asked to stop by Ctrl-C. Call it in main(), before any thread starts: threads take over which
/// signals are blocked.
inline std::stop_token stop_by_ctrl_c() {
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);

  std::stop_source stop;
  std::thread{[ends, stop] {
    int signal = 0;
    sigwait(&ends, &signal);
    stop.request_stop();
    sigwait(&ends, &signal); // a second Ctrl-C is for a read that never returns
    std::_Exit(128 + signal);
  }}.detach();
  return stop.get_token();
}

/// Writes the square of each number to the file `to`. Returns what main() is to return.
int write_squares(const auto& source, const std::string& to) {
  const std::stop_token stop = stop_by_ctrl_c();
  auto pipeline =
      ps::Reader{source} |
      ps::Decoder{[](const float& number, float& square) { square = number * number; }} |
      ps::Writer{to};
  const ps::Report& report = pipeline.run({.stop = stop});
  std::cout << report << std::flush;
  return report.stopped ? EXIT_FAILURE : EXIT_SUCCESS;
}
