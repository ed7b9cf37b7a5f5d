// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace doctor {

inline constexpr double most_kernel_ms = 1000;

inline constexpr std::string_view usage =
    "Usage: 17_doctor [FILE_OR_FOLDER] [--batch BYTES] [--kernel-ms T] [--json]\n"
    "                 [--device auto|cuda|host]\n"
    "       17_doctor [--json] --run PROGRAM ARGS...\n"
    "\n"
    "Measures in less than a minute what this machine allows, runs a pipeline over your data, and\n"
    "says whether it is worth it and which settings to take. docs/doctor.md explains the figures.\n"
    "\n"
    "  FILE_OR_FOLDER         your data, which are only read. Default: a file of noise in TMPDIR "
    "or\n"
    "                         /tmp, which is gone afterwards\n"
    "  --batch BYTES          the bytes that your kernels take at a time; KiB, MiB or GiB may "
    "stand\n"
    "                         behind the number. Default: 4MiB\n"
    "  --kernel-ms T          the milliseconds that your kernels take for a batch, from 0 to "
    "1000.\n"
    "                         Default: 0, which shows how fast the data come\n"
    "  --json                 prints one JSON object and nothing else\n"
    "  --device WHICH         auto, cuda or host. Default: auto, a GPU if there is one\n"
    "  --run PROGRAM ARGS...  watches another program, and tells what keeps its GPU waiting\n"
    "  --help, -h             prints this text\n";

/// The arguments of 17_doctor. Throws std::invalid_argument, which names the argument and
/// says what would be right.
class Arguments {
 public:
  Arguments(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) {
      const std::string_view arg = argv[i];
      const std::string_view name = arg.substr(0, arg.find('='));
      const auto value = [&]() -> std::string_view {
        if (name.size() != arg.size()) {
          return arg.substr(name.size() + 1);
        }
        if (i + 1 == argc) {
          fail(std::string{arg} + " has no value: give one behind it");
        }
        return argv[++i];
      };
      if (arg == "--run") {
        program = {argv + i + 1, argv + argc};
        if (program.empty()) {
          fail("--run has no program: give one behind it");
        }
        return;
      }
      if (arg == "--help" || arg == "-h") {
        help = true;
      } else if (arg == "--json") {
        json = true;
      } else if (name == "--batch") {
        batch_bytes = bytes_in(value());
      } else if (name == "--kernel-ms") {
        kernel_ms = milliseconds_in(value());
      } else if (name == "--device") {
        device = device_in(value());
      } else if (name == "--json" || name == "--help") {
        fail(std::string{arg} + " gives a value to " + std::string{name} + ", which takes none");
      } else if (arg.starts_with("-")) {
        fail("there is no option " + std::string{arg});
      } else if (arg.empty()) {
        fail("FILE_OR_FOLDER is empty: name a file or a folder, or leave it out");
      } else if (!path.empty()) {
        fail("\"" + std::string{arg} + "\" is one path too many: name one file or one folder");
      } else {
        path = arg;
      }
    }
  }

  std::string path;                       ///< Empty: make a file.
  std::optional<std::size_t> batch_bytes; ///< None: what penstock takes by default.
  double kernel_ms = 0;
  bool json = false;
  bool help = false;
  std::string device = "auto";
  std::span<char* const> program; ///< What --run has behind it.

 private:
  [[noreturn]] static void fail(const std::string& what) {
    throw std::invalid_argument{what + " (17_doctor --help lists all options)"};
  }

  static std::string device_in(std::string_view text) {
    if (text != "auto" && text != "cuda" && text != "host") {
      fail("--device is \"" + std::string{text} + "\": give auto, cuda or host");
    }
    return std::string{text};
  }

  static std::size_t bytes_in(std::string_view text) {
    static constexpr std::array<std::pair<std::string_view, unsigned>, 4> units{
        {{"", 0}, {"KiB", 10}, {"MiB", 20}, {"GiB", 30}}};
    std::uint64_t number = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, number);
    for (const auto& [unit, shift] : units) {
      if (error == std::errc{} && std::string_view{rest, end} == unit && number != 0 &&
          number <= std::numeric_limits<std::size_t>::max() >> shift) {
        return number << shift;
      }
    }
    fail("--batch is \"" + std::string{text} +
         "\": give the bytes of a batch, 1 or more, such as 4MiB");
  }

  static double milliseconds_in(std::string_view text) {
    double number = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc{} || rest != end || !std::isfinite(number) || number < 0 ||
        number > most_kernel_ms) {
      fail("--kernel-ms is \"" + std::string{text} +
           "\": give the milliseconds that your kernels take for a batch, from 0 to 1000");
    }
    return number;
  }
};

} // namespace doctor
