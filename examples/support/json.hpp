// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// A value of JSON (RFC 8259), which is built from the inside to the outside and holds its text:
/// `Json::object({{"bytes", 5}, {"of_link", nullptr}, {"files", Json::array({"a", "b"})}})`.
class Json {
 public:
  /// A member of an object.
  using Member = std::pair<std::string, Json>;

  Json(std::nullptr_t) : text_{"null"} {}
  Json(bool value) : text_{value ? "true" : "false"} {}
  Json(std::integral auto value) : text_{written(value)} {}
  /// JSON has no infinities: null stands for what is not finite.
  Json(double value) : text_{std::isfinite(value) ? written(value) : "null"} {}
  /// A string, in UTF-8.
  /// @{
  Json(std::string_view text) : text_{quoted(text)} {}
  Json(const std::string& text) : text_{quoted(text)} {}
  Json(const char* text) : text_{quoted(text)} {}
  /// @}

  static Json array(const std::vector<Json>& values) {
    std::string text;
    for (const Json& value : values) {
      text += (text.empty() ? "" : ", ") + value.text_;
    }
    return Json{Text{'[' + text + ']'}};
  }
  static Json object(const std::vector<Member>& members) {
    std::string text;
    for (const auto& [name, value] : members) {
      text += (text.empty() ? "" : ", ") + quoted(name) + ": " + value.text_;
    }
    return Json{Text{'{' + text + '}'}};
  }

  const std::string& text() const noexcept { return text_; }

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
  static std::string quoted(std::string_view text) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string json = "\"";
    for (const char c : text) {
      if (const auto code = static_cast<unsigned char>(c); code < 0x20) {
        json += std::string{"\\u00"} + digits[code / 16] + digits[code % 16];
      } else {
        json += c == '"' || c == '\\' ? std::string{'\\', c} : std::string{c};
      }
    }
    return json + '"';
  }

  std::string text_;
};
