// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "text.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace transformer {

/// Turns what a person writes into tokens, and tokens into what a person reads: characters if the
/// model has a vocabulary of them, else the tokens' numbers.
class PromptText {
 public:
  /// `tokens` is how many the model knows.
  PromptText(const Vocabulary& characters, std::size_t tokens)
      : characters_{characters}, tokens_{tokens} {}

  /// Returns a prompt's tokens. An empty one stands for what comes between texts: the end of a
  /// line, GPT-2's own mark, or token 0. Throws std::invalid_argument, whose text is one line, for
  /// what the model does not know.
  std::vector<std::int32_t> tokens_of(std::string_view prompt) const {
    if (prompt.empty()) {
      return {beginning()};
    }
    return characters_.size() != 0 ? of_characters(prompt) : of_numbers(prompt);
  }

  /// Returns how a token is shown.
  std::string shown(std::int32_t token) const {
    return characters_.size() == 0 ? std::to_string(token) + ' '
           : static_cast<std::size_t>(token) < characters_.size()
               ? std::string(1,
                             static_cast<char>(characters_.byte(static_cast<std::size_t>(token))))
               : std::string{};
  }

 private:
  std::int32_t beginning() const {
    constexpr std::size_t gpt2 = 50257;
    return characters_.has('\n')                        ? characters_.id('\n')
           : characters_.size() == 0 && tokens_ == gpt2 ? std::int32_t{gpt2 - 1}
                                                        : 0;
  }
  std::vector<std::int32_t> of_characters(std::string_view prompt) const {
    std::vector<std::int32_t> tokens;
    for (std::size_t i = 0; i < prompt.size(); ++i) {
      const auto byte = static_cast<std::uint8_t>(prompt[i]);
      if (!characters_.has(byte)) {
        throw std::invalid_argument{"byte " + std::to_string(i) + " of --prompt has the value " +
                                    std::to_string(byte) +
                                    ", which was nowhere in the text that the model has learnt: "
                                    "leave it out"};
      }
      tokens.push_back(characters_.id(byte));
    }
    return tokens;
  }
  std::vector<std::int32_t> of_numbers(std::string_view prompt) const {
    std::vector<std::int32_t> tokens;
    constexpr std::string_view between = " ,\n\t";
    for (std::size_t at = prompt.find_first_not_of(between); at != prompt.npos;
         at = prompt.find_first_not_of(between, at)) {
      const std::size_t end = std::min(prompt.find_first_of(between, at), prompt.size());
      const std::string_view word = prompt.substr(at, end - at);
      std::size_t number = 0;
      const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), number);
      if (error != std::errc{} || rest != word.data() + word.size() || number >= tokens_) {
        throw std::invalid_argument{"--prompt has \"" + std::string{word} +
                                    "\": this model was trained on tokens, so give their numbers, "
                                    "from 0 to " +
                                    std::to_string(tokens_ - 1)};
      }
      tokens.push_back(static_cast<std::int32_t>(number));
      at = end;
    }
    return tokens.empty() ? std::vector<std::int32_t>{beginning()} : tokens;
  }

  Vocabulary characters_;
  std::size_t tokens_;
};

} // namespace transformer
