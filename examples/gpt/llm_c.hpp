// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "config.hpp"
#include "model_layout.hpp"
#include "shape.hpp"

#include <penstock/error.hpp>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace transformer {

static_assert(std::endian::native == std::endian::little, "files of llm.c are little-endian");

/// Returns how many values a model's tensors have, without what lies between them in memory.
inline std::uint64_t weights_of(const Config& config) {
  const std::uint64_t width = config.width;
  return (config.padded_vocabulary() + config.context) * width +
         config.layers * (12 * width * width + 13 * width) + 2 * width;
}

/// Returns a model's tensors in the order of llm.c's files: each tensor of a block for all blocks,
/// one block after the other.
inline std::vector<Place> llm_c_order(const Config& config) {
  const std::vector<Place> memory = ModelLayout{config}.places();
  std::vector<Place> order{memory[0], memory[1]}; // the embeddings
  for (std::size_t tensor = 0; tensor < tensors; ++tensor) {
    for (std::size_t block = 0; block < config.layers; ++block) {
      order.push_back(memory[2 + block * tensors + tensor]);
    }
  }
  order.insert(order.end(), memory.end() - 2, memory.end()); // the last norm
  return order;
}

/// The first 1024 bytes of a GPT-2 model's file, as llm.c writes and reads them.
struct LlmCHeader {
  std::array<std::int32_t, 256> at{};

  static constexpr std::int32_t magic = 20240326;
  static constexpr std::int32_t float32 = 3;
  static constexpr std::int32_t bfloat16 = 5;

  /// Makes the header of a file of floats.
  static LlmCHeader of(const Config& config) {
    LlmCHeader header;
    const auto number = [](std::size_t value) { return static_cast<std::int32_t>(value); };
    header.at[0] = magic;
    header.at[1] = float32;
    header.at[2] = number(config.context);
    header.at[3] = number(config.vocabulary);
    header.at[4] = number(config.layers);
    header.at[5] = number(config.heads);
    header.at[6] = number(config.width);
    header.at[7] = number(config.padded_vocabulary());
    return header;
  }

  /// Returns the bytes of a value in the file.
  std::size_t value_bytes() const noexcept { return at[1] == float32 ? 4 : 2; }

  /// Returns the model that `path` begins with. Throws SourceError for one that cannot be: no
  /// number here is trusted further than that their product does not overflow.
  Config config(const std::string& path) const {
    if (at[0] != magic) {
      refuse(path, 0, "it does not begin with llm.c's number " + std::to_string(magic),
             "Give a checkpoint that train has written, or a model that llm.c has.");
    }
    if (at[1] != float32 && at[1] != bfloat16) {
      refuse(path, 1, "its version is " + std::to_string(at[1]),
             "Write it anew as version 3 (float32) or 5 (bfloat16).");
    }
    Config config;
    config.context = size(path, 2, "the context", 1 << 20);
    config.vocabulary = size(path, 3, "the vocabulary", 1 << 22);
    config.layers = size(path, 4, "the number of layers", 1 << 10);
    config.heads = size(path, 5, "the number of heads", 1 << 10);
    config.width = size(path, 6, "the width", 1 << 16);
    if (config.width % config.heads != 0) {
      refuse(path, 6,
             "its width of " + std::to_string(config.width) + " is no multiple of its " +
                 std::to_string(config.heads) + " heads");
    }
    if (static_cast<std::size_t>(at[7]) != config.padded_vocabulary()) {
      refuse(path, 7,
             "its vocabulary of " + std::to_string(config.vocabulary) + " is padded to " +
                 std::to_string(at[7]) + ", not to " + std::to_string(config.padded_vocabulary()));
    }
    return config;
  }

 private:
  [[noreturn]] static void
  refuse(const std::string& path, std::size_t number, const std::string& what,
         std::string_view cure = "The file is damaged: take an earlier one, or make it anew.") {
    throw penstock::SourceError{path + ", byte " + std::to_string(4 * number) + ": " + what + ". " +
                                    std::string{cure},
                                path, 4 * number};
  }
  std::size_t size(const std::string& path, std::size_t number, const char* what,
                   std::int32_t most) const {
    if (at[number] < 1 || at[number] > most) {
      refuse(path, number,
             std::string{what} + " is " + std::to_string(at[number]) + ", not from 1 to " +
                 std::to_string(most));
    }
    return static_cast<std::size_t>(at[number]);
  }
};
static_assert(sizeof(LlmCHeader) == 1024);

} // namespace transformer
