// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <charconv>
#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

namespace transformer {

/// What a training must know to go on, besides its arrays: a text of key=value lines.
struct CheckpointState {
  std::uint64_t steps{};  ///< Steps that are done.
  std::uint64_t passes{}; ///< Forward passes that are done, which dropout counts by.
  std::uint64_t seed{};   ///< Of order and dropout.
  float dropout{};        ///< The share of values left out.
  std::string position{}; ///< Which of the data comes next: a penstock::Position as text.
  std::string
      characters{}; ///< The character of each token, one byte each; empty: tokens of a file.
  /// Options that the training goes on with, by their names: {"--batch", "64"}.
  std::map<std::string, std::string> options{};
  bool operator==(const CheckpointState&) const = default;

  std::string text() const {
    std::string text;
    const auto line = [&](std::string_view key, std::string_view value) {
      text.append(key).append("=").append(escaped(value)).append("\n");
    };
    line("steps", std::to_string(steps));
    line("passes", std::to_string(passes));
    line("seed", std::to_string(seed));
    std::array<char, 32> number;
    line("dropout",
         {number.data(), std::to_chars(number.data(), number.data() + number.size(), dropout).ptr});
    line("position", position);
    line("characters", characters);
    for (const auto& [name, value] : options) {
      line("option " + name, value);
    }
    return text;
  }

  /// Reads such a text. Throws std::invalid_argument with the number of a line that is none of it.
  static CheckpointState of(std::string_view text) {
    CheckpointState state;
    for (std::size_t number = 1; !text.empty(); ++number) {
      const std::size_t end = text.find('\n');
      const std::string_view line = text.substr(0, end);
      const std::size_t equals = line.find('=');
      const bool whole = end != text.npos && equals != text.npos;
      const std::optional<std::string> value =
          whole ? unescaped(line.substr(equals + 1)) : std::nullopt;
      if (!value || !state.take(line.substr(0, equals), *value)) {
        throw std::invalid_argument{"line " + std::to_string(number)};
      }
      text.remove_prefix(end + 1);
    }
    return state;
  }

 private:
  bool take(std::string_view key, const std::string& value) {
    constexpr std::string_view option = "option ";
    if (key.starts_with(option)) {
      return options.emplace(key.substr(option.size()), value).second;
    }
    if (key == "characters" || key == "position") {
      (key == "position" ? position : characters) = value;
      return true;
    }
    return key == "steps"     ? read(value, steps)
           : key == "passes"  ? read(value, passes)
           : key == "seed"    ? read(value, seed)
           : key == "dropout" ? read(value, dropout)
                              : false;
  }
  static bool read(std::string_view text, auto& to) {
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), to);
    return error == std::errc{} && rest == text.data() + text.size();
  }

  /// A line's end within a value, and what escapes it.
  static std::string escaped(std::string_view value) {
    std::string text;
    for (const char c : value) {
      text += c == '\n' ? "\\n" : c == '\\' ? "\\\\" : std::string(1, c);
    }
    return text;
  }
  static std::optional<std::string> unescaped(std::string_view text) {
    std::string value;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '\\') {
        value += text[i];
      } else if (++i < text.size() && (text[i] == 'n' || text[i] == '\\')) {
        value += text[i] == 'n' ? '\n' : '\\';
      } else {
        return {};
      }
    }
    return value;
  }
};

} // namespace transformer
