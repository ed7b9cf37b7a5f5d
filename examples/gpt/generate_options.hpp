// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "command_line.hpp"

#include <cstdint>
#include <string>

namespace transformer {

/// The options of `generate`, with what they are if they are not given.
struct GenerateOptions {
  std::string checkpoint;
  std::string prompt;
  std::uint64_t tokens = 500;
  float temperature = 1;   ///< 0: always the likeliest.
  std::uint64_t top_k = 0; ///< 0: any token may come.
  std::uint64_t seed = 1;
  std::string device = "auto";
  bool help = false;

  /// Reads the arguments. Throws std::invalid_argument, whose text is one line.
  GenerateOptions(int argc, char** argv) {
    CommandLine line = command_line();
    help = !line.parse(argc, argv);
    if (!help && checkpoint.empty()) {
      line.fail("there is no model: give --checkpoint a file that train has written");
    }
  }

  /// Returns a line for each option.
  std::string usage() { return command_line().usage(); }

 private:
  CommandLine command_line() {
    CommandLine line{"generate",
                     "generate --checkpoint FILE [OPTION...]: writes as a trained GPT would."};
    line.text("--checkpoint", checkpoint, "FILE", "a model, by train or by llm.c");
    line.text("--prompt", prompt, "TEXT",
              "what to go on from; for a model without characters, numbers of tokens");
    line.number("--tokens", tokens, Range<std::uint64_t>{1, 1'000'000}, "how many to write; 500");
    line.number("--temperature", temperature, Range<float>{0, 100},
                "how boldly to choose; 1; 0: always the likeliest");
    line.number("--top-k", top_k, Range<std::uint64_t>{0, 1'000'000},
                "choose among so many likeliest; 0: among all");
    line.number("--seed", seed, Range<std::uint64_t>{0, ~std::uint64_t{0}},
                "equal seeds, equal texts; 1");
    line.choice("--device", device, {"auto", "cuda", "host"}, "where to compute; auto");
    return line;
  }
};

} // namespace transformer
