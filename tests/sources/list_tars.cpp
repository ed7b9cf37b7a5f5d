// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Prints the regular members of tar archives, for compare_tars.py: for each path a line with where
// each begins, its bytes and its name in hexadecimal; or "refused:" and why.

#include <penstock/error.hpp>
#include <penstock/io/file.hpp>
#include <penstock/io/posix.hpp>
#include <penstock/sources/detail/tar_walk.hpp>

#include <cstddef>
#include <cstdint>
#include <iostream>
#include <span>
#include <string>

int main(int argc, char** argv) {
  namespace ps = penstock;
  for (int i = 1; i < argc; ++i) {
    try {
      const ps::File<> archive{ps::PosixIo{}, argv[i]};
      const auto read = [&](std::uint64_t at, std::span<std::byte> into) {
        ps::read_full(archive, at, into);
      };
      const ps::detail::HeaderFile file{archive.path(), archive.size(), read};
      ps::detail::TarWalk walk{file};
      std::string line;
      for (ps::detail::TarMember member; walk.next(member);) {
        line += std::to_string(member.data) + ":" + std::to_string(member.bytes) + ":";
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
