// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"

#include <penstock/formats/packed/detail/rans_encoder.hpp>
#include <penstock/host/detail/lanes.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

using namespace penstock::detail;

namespace {

/// Symbols whose frequencies fit, each as often as `of` says.
std::array<RansSymbol, 256> symbols_of(const RansFrequencies& frequencies) {
  std::array<RansSymbol, 256> symbols{};
  std::uint32_t first = 0;
  for (std::size_t i = 0; i != symbols.size(); ++i) {
    symbols[i] = RansSymbol::of(frequencies.of[i], first);
    first += frequencies.of[i];
  }
  return symbols;
}
/// Frequencies of one symbol, of two very unequal ones, of 256 equal ones and of any.
std::vector<RansFrequencies> some_frequencies() {
  std::vector<RansFrequencies> all(4);
  all[0].of[7] = 4096;
  all[1].of[0] = 1;
  all[1].of[255] = 4095;
  all[2].of.fill(16);
  std::mt19937 random{1};
  std::array<std::uint64_t, 256> counts{};
  for (std::uint64_t& count : counts) {
    count = random() % 3 == 0 ? 0 : random() % 1000 * (random() % 1000);
  }
  all[3] = RansFrequencies::of_counts(counts);
  return all;
}
/// Returns symbols that have a frequency.
std::vector<std::uint16_t> drawn(const RansFrequencies& frequencies, std::size_t count) {
  std::vector<std::uint16_t> known;
  for (std::uint16_t symbol = 0; symbol != 256; ++symbol) {
    if (frequencies.of[symbol] != 0) {
      known.push_back(symbol);
    }
  }
  std::mt19937 random{2};
  std::vector<std::uint16_t> symbols(count);
  for (std::uint16_t& symbol : symbols) {
    symbol = known[random() % known.size()];
  }
  return symbols;
}

} // namespace

TEST_CASE("lanes by AVX2 put the same words as lanes one by one") {
  if (!RansEightLanes::has_avx2()) {
    WARN("this processor has no AVX2");
  }
  const RansEightLanes vector;
  const RansEightLanes scalar{false};
  for (const RansFrequencies& frequencies : some_frequencies()) {
    const auto all = symbols_of(frequencies);
    const auto symbols = drawn(frequencies, 8 * 1000);
    std::mt19937 random{3};
    std::array<std::array<std::uint32_t, 8>, 2> states;
    states[0].fill(rans_least);
    states[1].fill(rans_least);
    std::array<std::vector<std::uint16_t>, 2> words{std::vector<std::uint16_t>(2 * 8000 + 8),
                                                    std::vector<std::uint16_t>(2 * 8000 + 8)};
    std::array<std::uint16_t*, 2> to{words[0].data() + words[0].size(),
                                     words[1].data() + words[1].size()};
    for (std::size_t at = 0; at != symbols.size(); at += 8) {
      std::array<std::uint32_t, 8> bits{};
      for (std::uint32_t& its : bits) {
        const auto width = static_cast<std::uint32_t>(random() % 17);
        its = width << 16 | static_cast<std::uint32_t>(random() & ((1U << width) - 1));
      }
      const auto step = [&](const RansEightLanes& lanes, std::size_t i) {
        to[i] = lanes.put_bits(states[i].data(), bits.data(), to[i]);
        to[i] = lanes.put_symbols(states[i].data(), all.data(), &symbols[at], to[i]);
      };
      step(vector, 0);
      step(scalar, 1);
    }
    CHECK(states[0] == states[1]);
    const std::span got{to[0], words[0].data() + words[0].size()};
    const std::span expected{to[1], words[1].data() + words[1].size()};
    REQUIRE(got.size() == expected.size());
    CHECK(std::memcmp(got.data(), expected.data(), got.size_bytes()) == 0);
  }
}

TEST_CASE("what an encoder puts a stream gives back, and ends") {
  for (const RansFrequencies& frequencies : some_frequencies()) {
    constexpr std::size_t steps = 500;
    const auto symbols = drawn(frequencies, steps * warp_lanes);
    RansEncoder encoder{std::span{&frequencies, 1}};
    encoder.begin(steps);
    for (std::size_t at = symbols.size(); at != 0; at -= warp_lanes) {
      encoder.put_symbols(symbols.data() + at - warp_lanes);
    }
    std::vector<std::byte> bytes;
    encoder.end(bytes);
    const auto table = frequencies.table();
    RansStream<HostLanes> stream{table.data(), bytes.data(),
                                 static_cast<std::uint32_t>(bytes.size())};
    std::size_t right = 0;
    for (std::size_t at = 0; at != symbols.size(); at += warp_lanes) {
      stream.symbols([&](unsigned lane, std::uint32_t symbol) {
        right += symbol == symbols[at + lane] ? 1U : 0U;
      });
    }
    CHECK(right == symbols.size());
    CHECK(stream.ended());
  }
}
