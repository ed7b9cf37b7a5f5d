// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/text.hpp>
#include <penstock/sources/detail/foreign_kind.hpp>
#include <penstock/sources/detail/header_file.hpp>
#include <penstock/sources/detail/utf8.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace penstock::detail {

/// What a member is that is no regular file, and what helps if its bytes are wanted.
struct TarKind {
  std::string is;
  const char* cure;
};

/// Returns the kind of a header's type.
[[gnu::cold]] inline TarKind tar_kind(char type) {
  struct {
    std::string_view types;
    const char* is;
    const char* cure;
  } const kinds[]{
      {"1", "a hard link", "write the archive with --hard-dereference"},
      {"2", "a symbolic link", "write the archive with --dereference"},
      {"346", "a device or a pipe", "write the archive without it"},
      {"5", "a directory", "write the archive without it"},
      {"M", "the rest of a file that another volume begins", "join the volumes"},
      {"S", "a sparse file", "write the archive without --sparse"},
      {"V", "a volume label", "write the archive without --label"},
  };
  const auto* const kind = std::find_if(std::begin(kinds), std::end(kinds), [&](const auto& one) {
    return one.types.find(type) != std::string_view::npos;
  });
  if (kind != std::end(kinds)) {
    return {kind->is, kind->cure};
  }
  return {joined({"of the type \"", shown(std::string_view{&type, 1}), "\""}),
          "write the archive without it"};
}

/// A member's name, cut as WebDataset cuts it: at the first dot behind the last slash.
struct TarName {
  std::string_view key;    // none: the member belongs to no sample
  std::string_view ending; // without its dot

  explicit TarName(std::string_view name) noexcept {
    const std::size_t base = name.rfind('/') + 1; // 0 if there is no slash
    const std::size_t dot = name.find('.', base);
    const std::string_view outermost = name.substr(0, name.find('/'));
    const bool of_the_format =
        outermost.size() > 4 && outermost.starts_with("__") && outermost.ends_with("__");
    if (dot != std::string_view::npos && dot != base && !of_the_format) {
      key = name.substr(0, dot);
      ending = name.substr(dot + 1);
    }
  }
};

// A tar archive is a row of blocks of 512 bytes: a header, the bytes of its member, zeros up to the
// next block, and so on; two blocks of zeros end it. See POSIX.1-2017, pax, and GNU tar's manual.
inline constexpr std::uint64_t tar_block = 512;

/// A header of a tar archive: one block.
class TarHeader {
 public:
  /// Takes the block at byte `at`. Throws SourceError if its checksum is wrong.
  TarHeader(const HeaderFile& file, std::uint64_t at, std::span<const std::byte> block)
      : file_{file}, at_{at}, block_{block} {
    // Some old programs added up signed bytes.
    std::uint64_t sum = 0;
    std::int64_t signed_sum = 0;
    for (std::size_t i = 0; i != tar_block; ++i) {
      const bool of_sum = i >= sum_at && i < sum_at + sum_bytes;
      const unsigned char byte = of_sum ? ' ' : std::to_integer<unsigned char>(block[i]);
      sum += byte;
      signed_sum += static_cast<signed char>(byte);
    }
    const std::optional<std::uint64_t> said = octal(sum_at, sum_bytes);
    if (!said || (*said != sum && static_cast<std::int64_t>(*said) != signed_sum)) {
      refuse_sum();
    }
  }

  /// Returns what the member is, as a letter: '0' for a regular file, 'x' for a pax header.
  char type() const noexcept {
    const char type = letter(156);
    // '7' was meant for files that lie in one piece, and is read as '0'.
    return type == '7' || (type == '\0' && !name().ends_with('/')) ? '0'
           : type == '\0'                                          ? '5'
           : type == 'X'                                           ? 'x' // Solaris's
                                                                   : type;
  }
  /// Returns how many bytes it has, as the header says. Throws SourceError.
  std::uint64_t bytes() const {
    constexpr std::size_t at = 124;
    constexpr std::size_t count = 12;
    const auto first = static_cast<unsigned char>(letter(at));
    std::optional<std::uint64_t> bytes;
    if ((first & 0x80U) == 0) {
      bytes = octal(at, count);
    } else if ((first & 0x40U) == 0) { // GNU: in binary, most significant byte first
      std::uint64_t value = first & 0x3fU;
      bool fits = true;
      for (std::size_t i = at + 1; i != at + count; ++i) {
        fits = fits && value >> 55 == 0;
        value = value << 8 | static_cast<unsigned char>(letter(i));
      }
      bytes = fits ? std::optional{value} : std::nullopt;
    }
    if (!bytes) {
      file_.refuse(at_ + at, {"has no number of bytes, or a negative one, for the member ",
                              shown(name()), ": write the archive again."});
    }
    return *bytes;
  }
  /// Returns the member's name, as far as the header has it.
  std::string name() const {
    const std::string_view name = text(0, 100);
    const std::string_view magic = raw(257, 8);
    // GNU's own format has times there, and star's a shorter prefix with times behind it.
    const bool posix = magic.substr(0, 6) == std::string_view{"ustar\0", 6};
    const bool star = raw(508, 4) == std::string_view{"tar\0", 4};
    const std::string_view prefix = posix ? text(345, star ? 131 : 155) : std::string_view{};
    return prefix.empty() ? std::string{name} : joined({prefix, "/", name});
  }
  /// Returns whether its format is GNU's, whose sparse files may have more blocks of header.
  bool is_gnu() const noexcept { return raw(257, 8) == std::string_view{"ustar  \0", 8}; }
  bool has_more_of_sparse() const noexcept { return letter(482) != '\0'; }

 private:
  static constexpr std::size_t sum_at = 148;
  static constexpr std::size_t sum_bytes = 8;

  char letter(std::size_t at) const noexcept { return static_cast<char>(block_[at]); }
  std::string_view raw(std::size_t at, std::size_t bytes) const noexcept {
    return {reinterpret_cast<const char*>(block_.data()) + at, bytes};
  }
  std::string_view text(std::size_t at, std::size_t bytes) const noexcept {
    const std::string_view all = raw(at, bytes);
    return all.substr(0, std::min(all.find('\0'), bytes));
  }
  // Spaces, digits, and behind them nothing, a space or a zero byte; no digits are 0.
  std::optional<std::uint64_t> octal(std::size_t at, std::size_t bytes) const noexcept {
    const std::string_view all = text(at, bytes);
    const std::size_t begin = std::min(all.find_first_not_of(' '), all.size());
    std::uint64_t value = 0;
    std::size_t i = begin;
    for (; i != all.size() && all[i] >= '0' && all[i] <= '7'; ++i) {
      value = value << 3 | static_cast<std::uint64_t>(all[i] - '0');
    }
    return i == all.size() || all[i] == ' ' ? std::optional{value} : std::nullopt;
  }
  [[noreturn, gnu::cold]] void refuse_sum() const {
    const bool first = at_ == 0;
    if (first) {
      refuse_foreign(file_, {}, !raw(257, 5).starts_with("ustar"));
    }
    file_.refuse(at_, {first ? "has no header of a tar archive, or a damaged one: its checksum is "
                               "wrong. Check the path."
                             : "should have the header of a member, and its checksum is wrong: the "
                               "archive is damaged. Copy or download it again."});
  }

  const HeaderFile& file_;
  std::uint64_t at_;
  std::span<const std::byte> block_;
};

/// What a pax header says of the member behind it.
struct PaxRecords {
  std::string path{};
  std::optional<std::uint64_t> bytes{};
  bool sparse{};
  std::string sparse_name{};
};

/// Reads the records of a pax header, "LENGTH KEY=VALUE\n" each, which begin at byte `at`. Throws
/// SourceError.
[[gnu::cold]] inline PaxRecords read_pax(const HeaderFile& file, std::uint64_t at,
                                         std::string_view text) {
  PaxRecords said;
  const auto digits = [](std::string_view number) -> std::optional<std::uint64_t> {
    std::uint64_t value = 0;
    const bool all = std::all_of(number.begin(), number.end(), [&](char c) {
      value = value * 10 + static_cast<std::uint64_t>(c - '0');
      return c >= '0' && c <= '9';
    });
    return all && !number.empty() && number.size() <= 18 ? std::optional{value} : std::nullopt;
  };
  while (!text.empty()) {
    const std::size_t space = std::min(text.find(' '), text.size());
    const std::uint64_t length = digits(text.substr(0, space)).value_or(0);
    const auto bad = [&](const char* why) {
      file.refuse(at, {"has a record of a pax header ", why,
                       ": the archive is damaged. Write or download it again."});
    };
    if (length <= space || length > text.size() || text[length - 1] != '\n') {
      bad("whose length is wrong");
    }
    const std::string_view record = text.substr(space + 1, length - space - 2);
    const std::size_t equals = record.find('=');
    const std::string_view key = record.substr(0, equals);
    if (equals == std::string_view::npos || key.empty() || key.find('\0') != key.npos) {
      bad("without a key");
    }
    const std::string_view value = record.substr(equals + 1);
    const bool of_sparse = key.starts_with("GNU.sparse.");
    said.sparse = said.sparse || of_sparse;
    if (key == "path" || key == "GNU.sparse.name") {
      if (value.find('\0') != value.npos) {
        bad("whose path has a zero byte");
      }
      (of_sparse ? said.sparse_name : said.path) = value;
    } else if (key == "size") {
      said.bytes = digits(value);
      if (!said.bytes) {
        bad("whose size is no number of bytes");
      }
    }
    text.remove_prefix(length);
    at += length;
  }
  return said;
}

} // namespace penstock::detail
