// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/base/url.hpp>
#include <penstock/error.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

namespace penstock::detail {

/// Returns the text of an exception, which may be the user's and have none.
const char* text_of(const std::exception& e) noexcept;

/// A piece of a text: characters, which must stay while it lives, or a whole number.
class TextPart {
 public:
  /// Are the characters.
  /// @{
  TextPart(const char* text) noexcept : TextPart{std::string_view{text}} {}
  TextPart(const std::string& text) noexcept : text_{text.data()}, value_{text.size()} {}
  TextPart(std::string_view text) noexcept
      : text_{text.empty() ? "" : text.data()}, value_{text.size()} {}
  /// @}
  /// Are the number, in decimal.
  /// @{
  TextPart(unsigned long long number) noexcept : value_{number} {}
  TextPart(unsigned long number) noexcept : value_{number} {}
  TextPart(unsigned number) noexcept : value_{number} {}
  /// @}

 private:
  friend std::string joined(std::initializer_list<TextPart> pieces);

  const char* text_{};       // null: a number
  unsigned long long value_; // or how many characters
};

/// Returns one text of all the pieces. This is compiled once, where a chain of std::string's + is
/// compiled at each place, and most places are errors that nobody meets.
[[gnu::cold]] std::string joined(std::initializer_list<TextPart> pieces);

// Code that throws by these functions compiles to one call, without the code that makes a text and
// an exception.

/// Throws an E (Error or OptionError) with the text of all the pieces.
template <class E>
[[noreturn, gnu::cold, gnu::noinline]] void throw_error(std::initializer_list<TextPart> what) {
  throw E{joined(what)};
}

/// Throws a SourceError with the text of all the pieces, on one line: names of files may have any
/// characters, also such as steer a terminal. A '?' stands for each of those. URLs are shown
/// without what may be secret in them.
template <class E = SourceError>
[[noreturn, gnu::cold, gnu::noinline]] void
throw_source_error(std::initializer_list<TextPart> what, std::string_view file,
                   std::uint64_t offset, std::optional<std::uint64_t> record = {}) {
  std::string text = joined(what);
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < ' ' || c == '\x7f'; }, '?');
  hide_credentials(text);
  std::string shown_file{file};
  hide_credentials(shown_file);
  throw E{text, shown_file, offset, record};
}

/// Throws `e`, which has no record or another one, as an error about a record, at `offset` of its
/// file.
[[noreturn, gnu::cold]] void throw_of_record(const SourceError& e, std::uint64_t offset,
                                             std::uint64_t record);

#if PENSTOCK_BODIES
PENSTOCK_INLINE const char* text_of(const std::exception& e) noexcept {
  const char* const text = e.what();
  return text ? text : "an exception was thrown whose what() is null";
}

PENSTOCK_INLINE std::string joined(std::initializer_list<TextPart> pieces) {
  std::string text;
  for (const TextPart& piece : pieces) {
    if (piece.text_) {
      text.append(piece.text_, static_cast<std::size_t>(piece.value_));
      continue;
    }
    char digits[20];
    char* first = digits + sizeof digits;
    unsigned long long left = piece.value_;
    do {
      *--first = static_cast<char>('0' + left % 10);
      left /= 10;
    } while (left != 0);
    text.append(first, static_cast<std::size_t>(digits + sizeof digits - first));
  }
  return text;
}

PENSTOCK_NOINLINE void throw_of_record(const SourceError& e, std::uint64_t offset,
                                       std::uint64_t record) {
  throw_source_error({text_of(e), " This was record ", record, "."}, e.file(), offset, record);
}
#endif

} // namespace penstock::detail
