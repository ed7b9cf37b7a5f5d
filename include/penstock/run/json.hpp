// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock {

/// A value of JSON (RFC 8259), to be written and not read, which is built from the inside to the
/// outside and holds its text: `Json::object({{"bytes", 5}, {"files", Json::array({"a", "b"})}})`.
/// A value type; throws nothing but std::bad_alloc.
class Json {
 public:
  /// A member of an object.
  using Member = std::pair<std::string, Json>;

  /// null, true or false, or a whole number.
  /// @{
  Json(std::nullptr_t) : text_{"null"} {}
  Json(bool value) : text_{value ? "true" : "false"} {}
  Json(std::integral auto value) : text_{written(value)} {}
  /// @}
  /// JSON has no infinities: null stands for what is not finite.
  Json(double value) : text_{std::isfinite(value) ? written(value) : "null"} {}
  /// A string, in UTF-8: U+FFFD stands for each byte that is none, as in names of files.
  /// @{
  Json(std::string_view text) : text_{quoted(text)} {}
  Json(const std::string& text) : text_{quoted(text)} {}
  Json(const char* text) : text_{quoted(text)} {}
  /// @}

  /// Returns an array of these values.
  static Json array(const std::vector<Json>& values);
  /// Returns an object of these members, in this order. Names should differ.
  static Json object(const std::vector<Member>& members);

  /// Returns its text, which is one line.
  const std::string& text() const noexcept { return text_; }

  /// Prints text(), without a line's end.
  friend std::ostream& operator<<(std::ostream& os, const Json& json) { return os << json.text_; }

 private:
  struct Text {
    std::string text;
  };
  explicit Json(Text text) : text_{std::move(text.text)} {}

  /// The shortest text that is read back as the same number.
  static std::string written(auto value) {
    char text[32];
    return {text, std::to_chars(text, text + sizeof text, value).ptr};
  }
  static std::string quoted(std::string_view text);
  /// Returns the bytes of the first character; 0 if it is not UTF-8's only way to write one.
  static std::size_t character(std::string_view text);

  std::string text_;
};

#if PENSTOCK_BODIES
PENSTOCK_INLINE Json Json::array(const std::vector<Json>& values) {
  std::string text;
  for (const Json& value : values) {
    text += (text.empty() ? "" : ", ") + value.text_;
  }
  return Json{Text{'[' + text + ']'}};
}

PENSTOCK_INLINE Json Json::object(const std::vector<Member>& members) {
  std::string text;
  for (const auto& [name, value] : members) {
    text += (text.empty() ? "" : ", ") + quoted(name) + ": " + value.text_;
  }
  return Json{Text{'{' + text + '}'}};
}

PENSTOCK_INLINE std::string Json::quoted(std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string json = "\"";
  while (!text.empty()) {
    const std::size_t bytes = character(text);
    const std::string_view first = text.substr(0, std::max<std::size_t>(bytes, 1));
    text.remove_prefix(first.size());
    if (const auto code = static_cast<unsigned char>(first[0]); code < 0x20) {
      json += std::string{"\\u00"} + digits[code / 16] + digits[code % 16];
    } else {
      json += first == "\"" || first == "\\" ? "\\" : "";
      json += bytes == 0 ? "\\ufffd" : first;
    }
  }
  return json + '"';
}

PENSTOCK_INLINE std::size_t Json::character(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return std::uint32_t{static_cast<unsigned char>(text[i])};
  };
  const std::size_t bytes = byte(0) < 0x80 ? 1 : byte(0) < 0xe0 ? 2 : byte(0) < 0xf0 ? 3 : 4;
  // Without the bits that say how many bytes there are.
  std::uint32_t code = bytes == 1 ? byte(0) : byte(0) - (0xf00U >> bytes & 0xffU);
  for (std::size_t i = 1; i < bytes; ++i) {
    if (i == text.size() || byte(i) >> 6U != 2) {
      return 0;
    }
    code = code << 6U | (byte(i) & 0x3fU);
  }
  constexpr std::uint32_t least[]{0, 0, 0x80, 0x800, 0x10000};
  return code >= least[bytes] && code < 0x110000 && code >> 11U != 0x1b ? bytes : 0;
}
#endif

} // namespace penstock
