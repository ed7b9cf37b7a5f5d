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

/// The arguments of 17_doctor. Throws std::invalid_argument, which says what is wrong and what
/// would be right.
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
          fail(std::string{arg} + " has nothing behind it");
        }
        return argv[++i];
      };
      if (arg == "--run") {
        program = {argv + i + 1, argv + argc};
        if (program.empty()) {
          fail("--run has no program behind it");
        }
        return;
      }
      if (arg == "--json") {
        json = true;
      } else if (name == "--batch") {
        batch_bytes = bytes_in(value());
      } else if (name == "--kernel-ms") {
        kernel_ms = milliseconds_in(value());
      } else if (name == "--device") {
        device = value();
      } else if (arg.empty() || arg.starts_with("-")) {
        fail("what is \"" + std::string{arg} + "\"?");
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
  std::string device = "auto";
  std::span<char* const> program; ///< What --run has behind it.

 private:
  [[noreturn]] static void fail(const std::string& what) {
    throw std::invalid_argument{
        what + "\nUsage: 17_doctor [FILE_OR_FOLDER] [--batch BYTES] [--kernel-ms T] [--json] "
               "[--device auto|cuda|host]\n       17_doctor [--json] --run PROGRAM ARGS...\n"
               "BYTES is a number, perhaps with KiB, MiB or GiB behind it."};
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
         "\": give the bytes of a batch, 1 or more, such as "
         "4MiB");
  }

  static double milliseconds_in(std::string_view text) {
    double number = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc{} || rest != end || !std::isfinite(number) || number < 0 ||
        number > most_kernel_ms) {
      fail("--kernel-ms is \"" + std::string{text} +
           "\": give the milliseconds that your kernels "
           "take for a batch, from 0 to 1000");
    }
    return number;
  }
};

} // namespace doctor
