// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock::detail {

/// A document of XML, element by element: what servers send, and no more. It knows no document
/// types, so that no text grows by itself.
class XmlReader {
 public:
  enum class Token : std::uint8_t { begin, end, text, done, bad };

  explicit XmlReader(std::string_view text) : left_{text} {}

  /// Goes on to the next token. Behind `bad`, all are.
  Token next() {
    const Token token = bad_ ? Token::bad : found();
    bad_ = token == Token::bad;
    return token;
  }
  std::string_view name() const noexcept { return name_; }   ///< Of what begins or ends.
  const std::string& text() const noexcept { return text_; } ///< With what entities stand for.

 private:
  static constexpr std::size_t deepest = 16;
  static constexpr std::string_view spaces = " \t\r\n";

  Token found() {
    if (std::exchange(ends_at_once_, false)) {
      open_.pop_back();
      return Token::end; // of an element without content
    }
    while (left_.starts_with("<?") || left_.starts_with("<!--")) {
      const std::string_view end = left_[1] == '?' ? "?>" : "-->";
      const std::size_t at = left_.find(end, 2);
      if (at == std::string_view::npos) {
        return Token::bad;
      }
      left_.remove_prefix(at + end.size());
      skip_spaces_outside();
    }
    if (left_.empty()) {
      return open_.empty() && began_ ? Token::done : Token::bad;
    }
    return left_.front() == '<' ? tag() : content();
  }

  void skip_spaces_outside() {
    if (open_.empty()) {
      left_.remove_prefix(std::min(left_.find_first_not_of(spaces), left_.size()));
    }
  }

  Token tag() {
    const bool ends = left_.starts_with("</");
    left_.remove_prefix(ends ? 2 : 1);
    const std::size_t length = std::min(left_.find_first_of(" \t\r\n/>"), left_.size());
    name_ = left_.substr(0, length);
    left_.remove_prefix(length);
    const bool plain = !name_.empty() && name_.find_first_of("<!&?\"'=") == std::string_view::npos;
    if (!plain || !skip_attributes()) {
      return Token::bad;
    }
    if (ends) {
      const bool right = !open_.empty() && open_.back() == name_ && left_.starts_with('>');
      left_.remove_prefix(right ? 1 : 0);
      if (right) {
        open_.pop_back();
        skip_spaces_outside();
      }
      return right ? Token::end : Token::bad;
    }
    ends_at_once_ = left_.starts_with('/');
    left_.remove_prefix(ends_at_once_ ? 1 : 0);
    const bool right =
        left_.starts_with('>') && open_.size() != deepest && (!open_.empty() || !began_);
    left_.remove_prefix(right ? 1 : 0);
    began_ = true;
    open_.push_back(name_);
    return right ? Token::begin : Token::bad;
  }

  // No attribute has a meaning here.
  bool skip_attributes() {
    for (;;) {
      left_.remove_prefix(std::min(left_.find_first_not_of(spaces), left_.size()));
      if (left_.empty() || left_.front() == '>' || left_.front() == '/') {
        return !left_.empty();
      }
      const std::size_t equals = left_.find_first_of("=<>");
      if (equals == std::string_view::npos || left_[equals] != '=') {
        return false;
      }
      left_.remove_prefix(equals + 1);
      const char quote = left_.empty() ? '\0' : left_.front();
      const std::size_t end = left_.find(quote, 1);
      if ((quote != '"' && quote != '\'') || end == std::string_view::npos) {
        return false;
      }
      left_.remove_prefix(end + 1);
    }
  }

  Token content() {
    text_.clear();
    const std::size_t end = left_.find('<');
    if (open_.empty() || end == std::string_view::npos) {
      return Token::bad;
    }
    std::string_view part = left_.substr(0, end);
    left_.remove_prefix(end);
    while (!part.empty()) {
      const std::size_t plain = std::min(part.find('&'), part.size());
      text_ += part.substr(0, plain);
      part.remove_prefix(plain);
      if (!part.empty() && !entity(part)) {
        return Token::bad;
      }
    }
    return Token::text;
  }

  bool entity(std::string_view& part) {
    constexpr std::array<std::pair<std::string_view, char>, 5> named{
        {{"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}}};
    for (const auto& [name, character] : named) {
      if (part.starts_with(name)) {
        text_ += character;
        part.remove_prefix(name.size());
        return true;
      }
    }
    const bool hex = part.starts_with("&#x");
    part.remove_prefix(hex ? 3 : std::min<std::size_t>(part.size(), 2));
    std::uint32_t code = 0;
    const auto [end, error] =
        std::from_chars(part.data(), part.data() + part.size(), code, hex ? 16 : 10);
    part.remove_prefix(static_cast<std::size_t>(end - part.data()));
    if (error != std::errc{} || !part.starts_with(';') || code == 0 || code > 0x10FFFF ||
        (code >= 0xD800 && code < 0xE000)) {
      return false;
    }
    part.remove_prefix(1);
    append_utf8(code);
    return true;
  }

  void append_utf8(std::uint32_t code) {
    const auto six = [&](unsigned shift) {
      return static_cast<char>(0x80 | (code >> shift & 0x3F));
    };
    if (code < 0x80) {
      text_ += static_cast<char>(code);
    } else if (code < 0x800) {
      text_ += {static_cast<char>(0xC0 | code >> 6), six(0)};
    } else if (code < 0x1'0000) {
      text_ += {static_cast<char>(0xE0 | code >> 12), six(6), six(0)};
    } else {
      text_ += {static_cast<char>(0xF0 | code >> 18), six(12), six(6), six(0)};
    }
  }

  std::string_view left_;
  std::string_view name_;
  std::string text_;
  std::vector<std::string_view> open_;
  bool began_{};
  bool ends_at_once_{};
  bool bad_{};
};

/// An object of a listing.
struct S3Listed {
  std::string key;
  std::uint64_t size{};
  std::string etag;         // with its quotes
  std::uint64_t modified{}; // seconds since 1970
};

/// A page of what ListObjectsV2 answers.
struct S3Page {
  std::vector<S3Listed> objects;
  std::vector<std::string> prefixes; // of keys that go on behind a '/'
  std::string next;                  // asks for the next page; empty: there is none

  bool empty() const noexcept { return objects.empty() && prefixes.empty(); }
};

/// Reads "2009-10-12T17:50:30.000Z" as seconds since 1970, which is what the head of an answer has;
/// nothing if it is anything else.
inline std::optional<std::uint64_t> seconds_in(std::string_view text) {
  std::array<int, 6> parts{};
  constexpr std::string_view between = "--T::";
  for (std::size_t i = 0; i != parts.size(); ++i) {
    const std::size_t digits = i == 0 ? 4 : 2;
    const std::string_view number = text.substr(0, digits);
    const auto [end, error] =
        std::from_chars(number.data(), number.data() + number.size(), parts[i]);
    if (error != std::errc{} || end != number.data() + digits || parts[i] < 0) {
      return {};
    }
    text.remove_prefix(digits);
    if (i != between.size()) {
      if (!text.starts_with(between[i])) {
        return {};
      }
      text.remove_prefix(1);
    }
  }
  const std::chrono::year_month_day day{std::chrono::year{parts[0]},
                                        std::chrono::month{static_cast<unsigned>(parts[1])},
                                        std::chrono::day{static_cast<unsigned>(parts[2])}};
  if (!day.ok() || !text.ends_with('Z') || parts[3] > 23 || parts[4] > 59 || parts[5] > 60) {
    return {};
  }
  const std::int64_t days = std::chrono::sys_days{day}.time_since_epoch().count();
  const std::int64_t seconds = ((days * 24 + parts[3]) * 60 + parts[4]) * 60 + parts[5];
  return seconds < 0 ? std::nullopt : std::optional{static_cast<std::uint64_t>(seconds)};
}

/// Reads a page. Nothing if it is not whole and right; what it does not know it passes over.
inline std::optional<S3Page> s3_page_in(std::string_view document) {
  using Token = XmlReader::Token;
  XmlReader xml{document};
  S3Page found;
  std::vector<std::string> path; // of elements
  std::string text;
  bool truncated = false;
  bool right = true;
  std::size_t has = 0; // of an object, what it needs
  const auto is = [&](std::string_view parent, std::string_view name) {
    return path.size() == (parent.empty() ? 2U : 3U) && (parent.empty() || path[1] == parent) &&
           path.back() == name;
  };
  for (;;) {
    switch (xml.next()) {
    case Token::bad:
      return {};
    case Token::done:
      return right && truncated != found.next.empty() ? std::optional{std::move(found)}
                                                      : std::nullopt;
    case Token::text:
      text += xml.text();
      break;
    case Token::begin:
      path.emplace_back(xml.name());
      text.clear();
      right = right && path.front() == "ListBucketResult";
      if (is("", "Contents")) {
        found.objects.emplace_back();
        has = 0;
      }
      break;
    case Token::end:
      if (is("Contents", "Key")) {
        found.objects.back().key = text;
        has |= 1;
      } else if (is("Contents", "Size")) {
        std::uint64_t& size = found.objects.back().size;
        const auto read = std::from_chars(text.data(), text.data() + text.size(), size);
        right = right && read.ec == std::errc{} && read.ptr == text.data() + text.size();
        has |= 2;
      } else if (is("Contents", "ETag")) {
        found.objects.back().etag = text;
      } else if (is("Contents", "LastModified")) {
        const auto seconds = seconds_in(text);
        right = right && seconds;
        found.objects.back().modified = seconds.value_or(0);
      } else if (is("", "Contents")) {
        right = right && has == 3;
      } else if (is("CommonPrefixes", "Prefix")) {
        found.prefixes.push_back(text);
      } else if (is("", "IsTruncated")) {
        right = right && (text == "true" || text == "false");
        truncated = text == "true";
      } else if (is("", "NextContinuationToken")) {
        found.next = text;
      }
      path.pop_back();
      text.clear();
      break;
    }
  }
}

} // namespace penstock::detail
