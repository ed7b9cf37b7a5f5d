// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>

/// The arguments of 02_histogram. Throws std::invalid_argument with the usage for any other.
struct CommandLine {
  CommandLine(int argc, char** argv) {
    bool options = true;
    for (int i = 1; i < argc; ++i) {
      const std::string arg = argv[i];
      if (options && arg == "--") {
        options = false;
      } else if (options && arg == "--json") {
        json = true;
      } else if (options && arg == "--sequential") {
        sequential = true;
      } else if (options && arg == "--device" && i + 1 < argc) {
        device = argv[++i];
      } else if (options && arg.starts_with("--device=")) {
        device = arg.substr(std::string{"--device="}.size());
      } else if ((options && arg.starts_with("-")) || arg.empty() || !path.empty()) {
        throw std::invalid_argument{"what is \"" + arg +
                                    "\"? Usage: 02_histogram [--device auto|cuda|host] [--json] "
                                    "[--sequential] [FILE]"};
      } else {
        path = arg;
      }
    }
  }

  std::string device = "auto";
  std::string path; // empty: make one
  bool json = false;
  bool sequential = false;
};
