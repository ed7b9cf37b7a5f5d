// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shape.hpp"

#include <penstock/error.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace transformer {

/// How large a model is.
struct Config {
  std::size_t layers = 12;
  std::size_t width = 768;
  std::size_t heads = 12;
  std::size_t context = 1024;     ///< Tokens of a sequence.
  std::size_t vocabulary = 50257; ///< Tokens are numbers below it.

  /// Returns the rows of the token embedding: products are fastest at a multiple of 128.
  std::size_t padded_vocabulary() const noexcept { return (vocabulary + 127) / 128 * 128; }
  /// Returns the shape of the blocks, with so many sequences at once.
  Shape shape(std::size_t batch) const noexcept { return {layers, width, heads, context, batch}; }
  bool operator==(const Config&) const = default;
};

namespace presets {

/// Trains on a CPU in seconds. Its tokens are bytes.
inline constexpr Config tiny{
    .layers = 3, .width = 64, .heads = 4, .context = 64, .vocabulary = 256};
/// nanoGPT's model for characters, with bytes for tokens.
inline constexpr Config small{
    .layers = 6, .width = 384, .heads = 6, .context = 256, .vocabulary = 256};
/// GPT-2's smallest.
inline constexpr Config gpt2_124M{};

/// Returns the one with this name: "tiny", "small" or "124M". Throws OptionError if there is none.
inline Config named(std::string_view name) {
  if (name == "tiny") {
    return tiny;
  }
  if (name == "small") {
    return small;
  }
  if (name == "124M") {
    return gpt2_124M;
  }
  throw penstock::OptionError{"there is no model \"" + std::string{name} +
                              "\": take tiny, small or 124M"};
}

} // namespace presets
} // namespace transformer
