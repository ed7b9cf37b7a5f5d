// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/text.hpp>
#include <penstock/sources/detail/utf8.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace penstock::detail {

/// Reads a JSON text (RFC 8259) that lies in memory, from left to right: strings, whole numbers,
/// and the signs between them. Who calls says what must come next, so nothing nests deeper than the
/// caller's own functions, and nothing that was not asked for is taken. Each error is a SourceError
/// with the file, the offset in it, and what was found.
class JsonText {
 public:
  /// Reads `text`, which begins at byte `offset` of the file `path`. The messages speak of it as
  /// `what`, and say `damaged` of one that is wrong. All must outlive this.
  JsonText(std::string_view text, const std::string& path, std::uint64_t offset, const char* what,
           std::string_view damaged)
      : text_{text}, path_{path}, offset_{offset}, what_{what}, damaged_{damaged} {}

  /// Returns how many bytes were read.
  std::size_t at() const noexcept { return at_; }
  /// Returns whether `sign` comes next; blanks before it count for nothing.
  bool is_next(char sign) noexcept {
    skip_blanks();
    return at_ != text_.size() && text_[at_] == sign;
  }
  /// Returns whether `sign` comes next, and reads it if so.
  bool take(char sign) noexcept {
    const bool next = is_next(sign);
    at_ += next ? 1 : 0;
    return next;
  }
  /// Returns whether this word comes next, and reads it if so.
  bool take(std::string_view word) noexcept {
    skip_blanks();
    const bool next = text_.substr(at_).starts_with(word);
    at_ += next ? word.size() : 0;
    return next;
  }
  /// Reads what stands behind a member or an element: a comma, and returns true, or `end`.
  bool next_of(char end) {
    if (take(',')) {
      return true;
    }
    expect(end);
    return false;
  }
  /// Reads blanks and the end. Throws if something else comes next.
  void expect_end() {
    skip_blanks();
    if (at_ != text_.size()) {
      fail(at_, {"something other than blanks behind the object"});
    }
  }
  /// Reads `sign`. Throws if something else comes next.
  void expect(char sign) {
    if (!take(sign)) {
      const char text[]{'\'', sign, '\'', '\0'};
      fail_here(text);
    }
  }
  /// Reads a string, and returns its characters in UTF-8.
  std::string string() {
    std::string characters;
    string(characters);
    return characters;
  }
  /// Reads a string into `characters`, so that one piece of memory serves for many.
  void string(std::string& characters) {
    characters.clear();
    expect('"');
    while (next("the string's end") != '"') {
      const auto first = static_cast<unsigned char>(text_[at_]);
      if (first < 0x20) {
        fail(at_, {"a control character in a string"});
      } else if (first == '\\') {
        escaped(characters);
      } else {
        const std::size_t bytes = encoded_bytes();
        characters.append(text_.substr(at_, bytes));
        at_ += bytes;
      }
    }
    ++at_;
  }
  /// Reads a whole number of at most 64 bits, not negative, as JSON writes it: without zeros before
  /// it, a fraction or an exponent.
  std::uint64_t number() {
    skip_blanks();
    const std::size_t begin = at_;
    std::uint64_t value = 0;
    for (; is_digit(); ++at_) {
      const auto digit = static_cast<std::uint64_t>(text_[at_] - '0');
      if (value > (~std::uint64_t{0} - digit) / 10) {
        fail(begin, {"a number of more than 64 bits"});
      }
      value = 10 * value + digit;
    }
    if (at_ == begin) {
      fail_here("a whole number");
    }
    const char after = at_ == text_.size() ? ' ' : text_[at_];
    if ((text_[begin] == '0' && at_ != begin + 1) || after == '.' || after == 'e' || after == 'E') {
      fail(begin, {"a number that is not written as a plain whole number"});
    }
    return value;
  }

  /// Reads a number of any kind, and keeps nothing of it.
  void any_number() {
    take('-');
    const std::size_t begin = at_;
    digits();
    if (text_[begin] == '0' && at_ != begin + 1) {
      fail(begin, {"a number that begins with a zero"});
    }
    if (text_.substr(at_).starts_with('.')) {
      ++at_;
      digits();
    }
    if (at_ != text_.size() && (text_[at_] == 'e' || text_[at_] == 'E')) {
      ++at_;
      at_ += at_ != text_.size() && (text_[at_] == '+' || text_[at_] == '-') ? 1U : 0U;
      digits();
    }
  }

  /// Throws that there is something at byte `at` of the text which must not be there. `cure` is for
  /// what is no damage.
  [[noreturn, gnu::cold]] void fail(std::size_t at, std::initializer_list<TextPart> found,
                                    std::string_view cure = {}) const {
    const std::string text = joined(found);
    throw_source_error({"penstock: ", path_, " at byte ", offset_ + at, " has ", text, " in ",
                        what_, ": ", cure.empty() ? damaged_ : cure},
                       path_, offset_ + at);
  }
  /// Throws that something else comes next than what `wanted` names.
  [[noreturn, gnu::cold]] void fail_here(const char* wanted) {
    skip_blanks();
    if (at_ == text_.size()) {
      fail(at_, {"its end where ", wanted, " should be"});
    }
    const auto byte = static_cast<unsigned char>(text_[at_]);
    if (byte > 0x20 && byte < 0x7f) {
      fail(at_, {"'", text_.substr(at_, 1), "' where ", wanted, " should be"});
    }
    fail(at_, {"byte ", unsigned{byte}, " where ", wanted, " should be"});
  }

 private:
  void skip_blanks() noexcept {
    while (at_ != text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t')) {
      ++at_;
    }
  }
  bool is_digit() const noexcept {
    return at_ != text_.size() && text_[at_] >= '0' && text_[at_] <= '9';
  }
  void digits() {
    if (!is_digit()) {
      fail_here("a value");
    }
    while (is_digit()) {
      ++at_;
    }
  }
  char next(const char* wanted) {
    if (at_ == text_.size()) {
      fail_here(wanted);
    }
    return text_[at_];
  }

  std::size_t encoded_bytes() const {
    const std::size_t bytes = utf8_bytes(text_.substr(at_));
    if (bytes == 0) {
      fail(at_, {"bytes that are not UTF-8"});
    }
    return bytes;
  }

  void escaped(std::string& characters) {
    const std::size_t begin = at_++;
    constexpr std::string_view signs = "\"\\/bfnrt";
    constexpr std::string_view meant = "\"\\/\b\f\n\r\t";
    const char sign = next("the string's end");
    if (const std::size_t i = signs.find(sign); i != std::string_view::npos) {
      characters += meant[i];
      ++at_;
    } else if (sign == 'u') {
      append_utf8(characters, code_point(begin));
    } else {
      fail(begin, {"an escape that JSON does not have"});
    }
  }
  // Reads from the u of an escape on.
  std::uint32_t code_point(std::size_t begin) {
    const std::uint32_t first = hex(begin);
    if (first < 0xd800 || first > 0xdfff) {
      return first;
    }
    if (first < 0xdc00 && text_.substr(at_, 2) == "\\u") {
      ++at_;
      const std::uint32_t second = hex(begin);
      if (second >= 0xdc00 && second <= 0xdfff) {
        return 0x10000 + ((first - 0xd800) << 10U) + (second - 0xdc00);
      }
    }
    fail(begin, {"half of a surrogate pair"});
  }
  std::uint32_t hex(std::size_t begin) {
    ++at_; // the u
    std::uint32_t value = 0;
    for (int i = 0; i != 4; ++i, ++at_) {
      constexpr std::string_view digits = "0123456789abcdef";
      const char sign = next("the string's end");
      const char low = sign >= 'A' && sign <= 'F' ? static_cast<char>(sign - 'A' + 'a') : sign;
      const std::size_t digit = digits.find(low);
      if (digit == std::string_view::npos) {
        fail(begin, {"\\u without four hexadecimal digits"});
      }
      value = value << 4U | static_cast<std::uint32_t>(digit);
    }
    return value;
  }
  std::string_view text_;
  const std::string& path_;
  std::uint64_t offset_;
  const char* what_;
  std::string_view damaged_;
  std::size_t at_{};
};

/// Reads an object, and has `f(name, at)` read each of its members' values. The name, at byte `at`,
/// is good until then.
template <class F> void each_json_member(JsonText& json, F f) {
  json.expect('{');
  std::string name;
  for (bool more = !json.take('}'); more; more = json.next_of('}')) {
    const std::size_t at = json.at();
    json.string(name);
    json.expect(':');
    f(name, at);
  }
}

/// Reads a value of any kind, and keeps nothing of it. Arrays and objects may nest `depth` deep: as
/// many as the format's own reader of safetensors takes. Throws SourceError.
[[gnu::cold]] inline void skip_json(JsonText& json, unsigned depth = 125) {
  const bool nests = json.is_next('{') || json.is_next('[');
  if (nests && depth == 0) {
    json.fail(json.at(), {"values that nest more than 125 deep"});
  }
  if (json.is_next('"')) {
    json.string();
  } else if (json.is_next('{')) {
    each_json_member(json, [&](const std::string&, std::size_t) { skip_json(json, depth - 1); });
  } else if (json.take('[')) {
    for (bool more = !json.take(']'); more; more = json.next_of(']')) {
      skip_json(json, depth - 1);
    }
  } else if (!json.take("null") && !json.take("true") && !json.take("false")) {
    json.any_number();
  }
}

} // namespace penstock::detail
