// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shape.hpp"

#include <penstock/config.hpp>
#include <penstock/order/order.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace transformer {

/// Returns a number that depends on each bit of `x`: other numbers give others, with no pattern.
/// The steps are those of SplitMix64.
PENSTOCK_HD constexpr std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// What a row drops.
struct DropRow {
  std::uint64_t key;
  std::uint32_t threshold; ///< A value is dropped if its 16 random bits are below it.

  /// Returns the bits of two columns, bit 3 of whose numbers differs: low those of `column`, where
  /// that bit must be 0, high those of the other. The tensor cores' threads have such columns
  /// together. The multipliers are those of the hash lowbias32.
  PENSTOCK_HD std::uint32_t two(std::uint32_t column) const {
    std::uint32_t x = column * 0x9e3779b1U + static_cast<std::uint32_t>(key);
    x = (x ^ (x >> 16)) * 0x7feb352dU;
    x ^= static_cast<std::uint32_t>(key >> 32);
    x = (x ^ (x >> 15)) * 0x846ca68bU;
    return x ^ (x >> 16);
  }
  PENSTOCK_HD bool keeps_low(std::uint32_t bits) const { return (bits & 0xffffU) >= threshold; }
  PENSTOCK_HD bool keeps_high(std::uint32_t bits) const { return bits >> 16 >= threshold; }
  PENSTOCK_HD bool keeps(std::uint32_t column) const {
    const std::uint32_t bits = two(column & ~8U);
    return (column & 8U) != 0 ? keeps_high(bits) : keeps_low(bits);
  }
};

/// What one site of the model drops in one pass. Which values these are follows from the seed, the
/// site, the sample, and a value's row of the sample and column alone: whoever asks again gets the
/// same answer. Samples are numbered over all steps and ranks, as an order deals them out. So a
/// window loses the same values however ranks and micro-batches share a step.
struct Drops {
  std::uint64_t seed = 0;
  const std::uint64_t* pass = nullptr; ///< The pass's number, in device memory.
  std::uint32_t site = 0;
  std::uint32_t threshold = 0;   ///< Out of 65536 values so many are dropped; 0 turns dropout off.
  std::uint32_t sample_rows = 1; ///< Rows that a sample has at this site.
  std::uint32_t samples = 1;     ///< Of a pass of one rank.
  std::uint32_t rank = 0;
  std::uint32_t world = 1;

  explicit operator bool() const noexcept { return threshold != 0; }
  /// Returns the factor of what is kept, with which sums stay as large as before.
  PENSTOCK_HD float scale() const { return 65536.0F / static_cast<float>(65536 - threshold); }
  /// Takes a row's number in the pass.
  PENSTOCK_HD DropRow row(std::uint64_t number) const {
    const auto of_pass = static_cast<std::uint32_t>(number); // memory has room for no more
    const std::uint64_t sample = (*pass * samples + of_pass / sample_rows) * world + rank;
    return {mixed(mixed(mixed(seed + sample) + site) + of_pass % sample_rows), threshold};
  }
};

/// Dropout of a whole model: one value out of 1 / `rate` becomes 0.
struct Dropout {
  float rate = 0;
  std::uint64_t seed = 0;
  const std::uint64_t* pass = nullptr; ///< In device memory; it may be null if the rate is 0.
  Shape shape = {};                    ///< Of a pass.
  penstock::Ranks ranks = {};

  /// Return what each site drops.
  /// @{
  Drops embeddings() const noexcept { return at(0); }
  Drops attention(std::size_t block) const noexcept { // probabilities
    return at(1 + 3 * block, shape.heads);
  }
  Drops project(std::size_t block) const noexcept { return at(2 + 3 * block); }
  Drops down(std::size_t block) const noexcept { return at(3 + 3 * block); }
  /// @}

 private:
  Drops at(std::size_t site, std::size_t rows_of_token = 1) const noexcept {
    return {.seed = mixed(seed),
            .pass = pass,
            .site = static_cast<std::uint32_t>(site),
            .threshold = static_cast<std::uint32_t>(std::lround(rate * 65536.0F)),
            .sample_rows = static_cast<std::uint32_t>(rows_of_token * shape.tokens),
            .samples = static_cast<std::uint32_t>(shape.batch),
            .rank = ranks.rank,
            .world = ranks.world};
  }
};

} // namespace transformer
