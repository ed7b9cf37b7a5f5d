// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

/// The arguments of a small example: a device, and all or none of the files that it names.
struct Arguments {
  /// Reads the arguments: `names` is what the usage calls the files, `most` their number. Throws
  /// std::invalid_argument with the usage for anything else.
  Arguments(int argc, char** argv, std::size_t most = 0, const std::string& names = "") {
    for (int i = 1; i < argc; ++i) {
      const std::string arg = argv[i];
      if (arg == "--device" && i + 1 < argc) {
        device = argv[++i];
      } else if (!arg.starts_with("-") && !arg.empty()) {
        files.push_back(arg);
      } else {
        throw std::invalid_argument{"what is \"" + arg + "\"? " + usage(names)};
      }
    }
    if (!files.empty() && files.size() != most) {
      throw std::invalid_argument{std::to_string(files.size()) + " files were given. " +
                                  usage(names)};
    }
  }

  std::string device = "auto";
  std::vector<std::string> files;

 private:
  static std::string usage(const std::string& names) {
    return "Usage: [--device auto|cuda|host]" + (names.empty() ? names : " [" + names + ']');
  }
};
