// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace penstock::detail {

/// What "Content-Range: bytes 5-9/100" says: bytes 5 to before 10 of 100. "bytes */100" has none.
struct ContentRange {
  std::uint64_t first{};
  std::uint64_t end{}; // 0: no bytes
  std::uint64_t size{};
  bool operator==(const ContentRange&) const = default;
};

/// Reads that; nothing if it is anything else, or does not say the size.
inline std::optional<ContentRange> content_range_in(std::string_view text) {
  const auto take = [&text](std::string_view what) {
    const bool there = text.starts_with(what);
    text.remove_prefix(there ? what.size() : 0);
    return there;
  };
  const auto number = [&text](std::uint64_t& value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return error == std::errc{};
  };
  ContentRange range;
  if (!take("bytes ")) {
    return {};
  }
  if (!take("*")) {
    const bool whole = number(range.first) && take("-") && number(range.end) &&
                       range.end >= range.first &&
                       range.end != std::numeric_limits<std::uint64_t>::max();
    if (!whole) {
      return {};
    }
    ++range.end;
  }
  const bool whole = take("/") && number(range.size) && text.empty() && range.end <= range.size;
  return whole ? std::optional{range} : std::nullopt;
}

/// What an answer's head says. Lines come one by one, of several answers if there are redirects: a
/// status line begins the next.
class HttpAnswer {
 public:
  /// Takes a line with its end. Returns whether the head ends here.
  bool take(std::string_view line) {
    while (line.ends_with('\n') || line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    if (line.starts_with("HTTP/")) {
      *this = {};
      const std::size_t at = line.find(' ');
      if (at != std::string_view::npos) {
        std::from_chars(line.data() + at + 1, line.data() + line.size(), status);
      }
      return false;
    }
    const std::size_t colon = line.find(':');
    if (colon != std::string_view::npos) {
      std::string_view value = line.substr(colon + 1);
      value.remove_prefix(std::min(value.find_first_not_of(" \t"), value.size()));
      note(line.substr(0, colon), value);
    }
    return line.empty();
  }

  int status{};
  std::string etag;     // as it came, with its quotes
  std::string modified; // Last-Modified
  std::optional<ContentRange> range;
  std::optional<std::uint64_t> length;

 private:
  static bool is(std::string_view name, std::string_view in_small_letters) {
    return std::equal(name.begin(), name.end(), in_small_letters.begin(), in_small_letters.end(),
                      [](char a, char b) {
                        return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
                      });
  }
  void note(std::string_view name, std::string_view value) {
    constexpr std::size_t longest = 1024; // no server's own is longer
    if (is(name, "etag") && value.size() <= longest) {
      etag = value;
    } else if (is(name, "last-modified") && value.size() <= longest) {
      modified = value;
    } else if (is(name, "content-range")) {
      range = content_range_in(value);
    } else if (is(name, "content-length")) {
      std::uint64_t bytes = 0;
      const auto read = std::from_chars(value.data(), value.data() + value.size(), bytes);
      length = read.ec == std::errc{} ? std::optional{bytes} : std::nullopt;
    }
  }
};

} // namespace penstock::detail
