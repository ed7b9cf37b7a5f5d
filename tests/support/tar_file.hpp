// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace penstock::tests {

// A writer of tar archives by the letter of POSIX, that can also write what no program should.

/// What ends an archive.
inline const std::string tar_end(1024, '\0');

/// What a header says beside its name and size.
struct TarSays {
  char type = '0';
  std::string prefix = {};
  std::string magic = std::string{"ustar\00000", 8};
  std::string size = {}; // the field's bytes; else made of the number
  bool signed_sum = false;
};

inline std::string tar_header(const std::string& name, std::uint64_t size, const TarSays& says) {
  std::string block(512, '\0');
  const auto put = [&](std::size_t at, const std::string& text) {
    block.replace(at, text.size(), text);
  };
  const auto octal = [](std::uint64_t number, int digits) {
    char text[32];
    std::snprintf(text, sizeof text, "%0*llo", digits, static_cast<unsigned long long>(number));
    return std::string{text};
  };
  put(0, name.substr(0, 100));
  put(100, "0000644");
  put(124, says.size.empty() ? octal(size, 11) : says.size);
  put(136, octal(0, 11));
  put(148, std::string(8, ' '));
  put(156, std::string(1, says.type));
  put(257, says.magic);
  put(345, says.prefix);
  std::int64_t sum = 0;
  for (const char c : block) {
    sum += says.signed_sum ? static_cast<signed char>(c) : static_cast<unsigned char>(c);
  }
  put(148, octal(static_cast<std::uint64_t>(sum), 6) + std::string{"\0 ", 2});
  return block;
}

/// How a member is written.
enum class TarKind {
  posix,
  v7,           // by no standard, with a zero byte for a type
  gnu,          // whose prefix is no name
  in_one_piece, // type 7
  binary_size,  // base 256
  signed_sum,   // with a letter above 127, whose sum is of signed bytes
  folder,
  pax,
  long_name, // GNU's, of the next member
};

/// Returns a member as it lies in an archive.
inline std::string tar_member(const std::string& name, const std::string& bytes,
                              TarKind kind = TarKind::posix) {
  TarSays says;
  switch (kind) {
  case TarKind::posix:
    break;
  case TarKind::v7:
    says = {.type = '\0', .magic = std::string(8, '\0')};
    break;
  case TarKind::gnu:
    says = {.prefix = "14631112345", .magic = std::string{"ustar  \0", 8}};
    break;
  case TarKind::in_one_piece:
    says.type = '7';
    break;
  case TarKind::binary_size:
    says.size = '\x80' + std::string(9, '\0') + static_cast<char>(bytes.size() >> 8) +
                static_cast<char>(bytes.size());
    break;
  case TarKind::signed_sum:
    says = {.magic = std::string{"ustar  \xE9", 8}, .signed_sum = true};
    break;
  case TarKind::folder:
    says.type = '5';
    break;
  case TarKind::pax:
    says.type = 'x';
    break;
  case TarKind::long_name:
    says.type = 'L';
    break;
  }
  return tar_header(name, bytes.size(), says) + bytes +
         std::string((512 - bytes.size() % 512) % 512, '\0');
}

/// Returns a pax header with these keys and values.
inline std::string tar_pax(const std::vector<std::pair<std::string, std::string>>& records,
                           char type = 'x') {
  std::string all;
  for (const auto& [key, value] : records) {
    const std::string body = " " + key + "=" + value + "\n";
    std::size_t length = body.size() + 1;
    while (std::to_string(length).size() + body.size() != length) {
      ++length;
    }
    all += std::to_string(length) + body;
  }
  return tar_header("pax", all.size(), {.type = type}) + all +
         std::string((512 - all.size() % 512) % 512, '\0');
}

} // namespace penstock::tests
