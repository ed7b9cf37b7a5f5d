// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// What examples/gpt/ writes with a trained model: prompts, choices, and logits from a checkpoint.

#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/temp_dir.hpp"

#include "../../examples/gpt/checkpoint.hpp"
#include "../../examples/gpt/generator.hpp"
#include "../../examples/gpt/host_ops.hpp"
#include "../../examples/gpt/prompt.hpp"
#include "../../examples/gpt/sampler.hpp"
#include "../../examples/gpt/training.hpp"

#include <penstock/host/device.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace ps = penstock;
using namespace transformer;
using ps::tests::caught;
using ps::tests::TempDir;

namespace {

using Tokens = std::vector<std::int32_t>;

std::vector<std::size_t> drawn(const SamplerOptions& options, const std::vector<float>& logits,
                               std::size_t times) {
  Sampler sampler{options};
  std::vector<std::size_t> counts(logits.size());
  for (std::size_t i = 0; i < times; ++i) {
    ++counts.at(sampler(logits));
  }
  return counts;
}

bool has(const std::string& text, std::string_view part) {
  INFO(text);
  return text.find(part) != text.npos;
}

} // namespace

TEST_CASE("tokens are chosen as often as their logits say") {
  const std::vector<float> logits{std::log(1.0F), std::log(5.0F), std::log(2.0F), std::log(2.0F)};
  const auto near = [](std::size_t count, double share) {
    return std::abs(static_cast<double>(count) - 10'000 * share) < 200; // four deviations
  };
  const auto all = drawn({}, logits, 10'000);
  CHECK(near(all[0], 0.1));
  CHECK(near(all[1], 0.5));
  CHECK(near(all[2], 0.2));
  CHECK(near(all[3], 0.2));
  const auto bold = drawn({.temperature = 0.5F}, logits, 10'000); // shares are squared
  CHECK(near(bold[1], 25.0 / 34));
  CHECK(near(bold[0], 1.0 / 34));
  const auto few = drawn({.top_k = 2}, logits, 10'000); // of two equal ones the first stays
  CHECK(few[0] == 0);
  CHECK(near(few[1], 5.0 / 7));
  CHECK(near(few[2], 2.0 / 7));
  CHECK(few[3] == 0);
}

TEST_CASE("a choice follows from the seed, and without boldness from the logits alone") {
  const std::vector<float> logits{0.5F, 2, 2, -1};
  const auto sequence = [&](const SamplerOptions& options) {
    Sampler sampler{options};
    std::vector<std::size_t> chosen;
    for (int i = 0; i < 50; ++i) {
      chosen.push_back(sampler(logits));
    }
    return chosen;
  };
  CHECK(sequence({.seed = 3}) == sequence({.seed = 3}));
  CHECK(sequence({.seed = 3}) != sequence({.seed = 4}));
  CHECK(sequence({.temperature = 0}) == std::vector<std::size_t>(50, 1));
  CHECK(sequence({.top_k = 1}) == std::vector<std::size_t>(50, 1));
  Sampler sampler{{}};
  CHECK(sampler(std::array{1e30F, -1e30F}) == 0);
  CHECK(has(caught<std::runtime_error>([&] {
              sampler(std::array{1.0F, std::numeric_limits<float>::quiet_NaN()});
            }).what(),
            "diverged"));
}

TEST_CASE("a prompt is made of what the model knows") {
  const PromptText text{Vocabulary{std::string_view{"\n abc"}}, 5};
  CHECK(text.tokens_of("cab a") == Tokens{4, 2, 3, 1, 2});
  CHECK(text.tokens_of("") == Tokens{0});
  CHECK(text.shown(0) == "\n");
  CHECK(text.shown(4) == "c");
  CHECK(text.shown(5).empty()); // a row of the padded vocabulary
  CHECK(has(caught<std::invalid_argument>([&] { text.tokens_of("abd"); }).what(),
            "byte 2 of --prompt has the value 100"));
  CHECK(PromptText{Vocabulary{std::string_view{"ab"}}, 2}.tokens_of("") == Tokens{0});

  const PromptText numbers{{}, 50257};
  CHECK(numbers.tokens_of("7, 50256\n0") == Tokens{7, 50256, 0});
  CHECK(numbers.tokens_of("") == Tokens{50256});
  CHECK(numbers.tokens_of(" ,") == Tokens{50256});
  CHECK(numbers.shown(12) == "12 ");
  for (const char* bad : {"50257", "-1", "x", "1.5", "99999999999999999999999"}) {
    CHECK(has(caught<std::invalid_argument>([&] { numbers.tokens_of(bad); }).what(),
              "--prompt has \"" + std::string{bad} + "\""));
  }
}

TEST_CASE("a generator's logits are those that the training's loss was made of") {
  constexpr Config config{.layers = 2, .width = 12, .heads = 3, .context = 6, .vocabulary = 11};
  ps::HostDevice device;
  Training<HostOps<float>> training{device, config, {.batch = 1, .seed = 4}};
  const Tokens inputs{3, 1, 4, 1, 5, 9};
  const Tokens targets{1, 4, 1, 5, 9, 2};
  std::ranges::copy(inputs, training.inputs().data());
  std::ranges::copy(targets, training.targets().data());
  training.evaluate();
  device.sync(training.stream());

  const TempDir dir;
  const float* const masters = training.adamw().master(); // a host device's memory
  write_checkpoint(dir / "c", config, {},
                   [&](StateArray, std::size_t first, std::span<float> into) {
                     std::copy_n(masters + first, into.size(), into.begin());
                   });
  const Checkpoint<> checkpoint{dir / "c"};
  Generator<HostOps<float>> generator{device, checkpoint, 100};
  double loss = 0;
  for (std::size_t n = 1; n <= inputs.size(); ++n) {
    const std::span<const float> logits = generator(std::span{inputs}.first(n));
    REQUIRE(logits.size() == config.vocabulary);
    double sum = 0;
    for (const float logit : logits) {
      sum += std::exp(static_cast<double>(logit));
    }
    loss += std::log(sum) - static_cast<double>(logits[static_cast<std::size_t>(targets[n - 1])]);
  }
  CHECK(std::abs(loss / 6 - static_cast<double>(*training.loss())) < 1e-5);

  // Of more tokens than the model's context, the last count.
  Tokens longer{7, 7, 7};
  longer.insert(longer.end(), inputs.begin(), inputs.end());
  const std::span<const float> logits = generator(longer);
  const std::vector<float> of_longer{logits.begin(), logits.end()};
  CHECK(std::ranges::equal(of_longer, generator(inputs)));
}
