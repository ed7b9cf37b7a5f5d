// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

namespace weights {

/// The arguments of 18_load_weights. Throws std::invalid_argument with the usage for any other.
struct Options {
  Options(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) {
      const std::string arg = argv[i];
      const auto value = [&](const char* what) {
        if (++i == argc) {
          throw std::invalid_argument{arg + " has nothing behind it: give " + what};
        }
        return std::string{argv[i]};
      };
      if (arg == "--json") {
        json = true;
      } else if (arg == "--check") {
        check = true;
      } else if (arg == "--device") {
        device = value("auto, cuda or host");
      } else if (arg == "--gpus") {
        gpus = number(arg, value("how many"), most_gpus);
      } else if (arg == "--piece") {
        piece = number(arg, value("a number of bytes"), std::uint64_t{1} << 40);
      } else if (arg.starts_with("-") || arg.empty()) {
        throw std::invalid_argument{"what is \"" + arg +
                                    "\"? Usage: 18_load_weights [--json] [--check] [--device "
                                    "auto|cuda|host] [--gpus N] [--piece BYTES] [FILE...]"};
      } else {
        files.push_back(arg);
      }
    }
  }

  std::string device = "auto";
  std::size_t gpus = 0; // 0: not given
  std::uint64_t piece = std::uint64_t{32} << 20;
  std::vector<std::string> files;
  bool json = false;
  bool check = false;

 private:
  static constexpr std::uint64_t most_gpus = 64;

  static std::uint64_t number(const std::string& name, const std::string& text,
                              std::uint64_t most) {
    std::uint64_t number = 0;
    for (const char c : text) {
      const bool digit = c >= '0' && c <= '9';
      number = digit && number <= most ? number * 10 + static_cast<std::uint64_t>(c - '0')
                                       : std::numeric_limits<std::uint64_t>::max();
    }
    if (number == 0 || number > most) {
      throw std::invalid_argument{name + " takes a number from 1 to " + std::to_string(most) +
                                  ", and \"" + text + "\" is none."};
    }
    return number;
  }
};

} // namespace weights
