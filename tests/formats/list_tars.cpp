// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Prints the regular members of tar archives, for compare_tars.py: for each path a line with where
// each begins, its bytes and its name in hexadecimal; or "refused:" and why.

#include <penstock/error.hpp>
#include <penstock/formats/tar.hpp>

#include <iostream>
#include <string>

int main(int argc, char** argv) {
  namespace ps = penstock;
  for (int i = 1; i < argc; ++i) {
    try {
      std::string line;
      for (const ps::TarMember& member : ps::tar_members(argv[i])) {
        line += std::to_string(member.offset) + ":" + std::to_string(member.bytes) + ":";
        for (const char c : member.name) {
          constexpr const char* digits = "0123456789abcdef";
          const auto byte = static_cast<unsigned char>(c);
          line += {digits[byte / 16], digits[byte % 16]};
        }
        line += ' ';
      }
      std::cout << line << '\n';
    } catch (const ps::SourceError& e) {
      std::cout << "refused: " << e.what() << '\n';
    }
  }
}
