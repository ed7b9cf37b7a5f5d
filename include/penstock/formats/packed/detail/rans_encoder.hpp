// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/formats/packed/detail/rans_lanes.hpp>
#include <penstock/host/detail/rans.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <span>
#include <vector>

namespace penstock::detail {

/// How many symbols there are.
inline constexpr std::uint32_t rans_symbols = 256;

/// How often symbols come, in parts of `rans_entries`: what both sides of a stream must know.
struct RansFrequencies {
  std::array<std::uint16_t, rans_symbols> of{};

  /// Makes them of counts. A symbol that never came has none; if no symbol came, 0 has all.
  static RansFrequencies of_counts(const std::array<std::uint64_t, rans_symbols>& counts) {
    RansFrequencies made;
    const auto all = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
    if (all == 0) {
      made.of[0] = rans_entries;
      return made;
    }
    std::uint32_t sum = 0;
    for (std::size_t symbol = 0; symbol != counts.size(); ++symbol) {
      const double share = static_cast<double>(counts[symbol]) / static_cast<double>(all);
      const auto part = static_cast<std::uint32_t>(share * rans_entries + 0.5);
      made.of[symbol] = static_cast<std::uint16_t>(counts[symbol] == 0 ? 0U : std::max(part, 1U));
      sum += made.of[symbol];
    }
    while (sum != rans_entries) { // the most frequent ones pay for what was rounded, a little each
      std::uint16_t& most = *std::max_element(made.of.begin(), made.of.end());
      const std::uint32_t step =
          sum < rans_entries ? rans_entries - sum
                             : std::min(sum - rans_entries, std::max<std::uint32_t>(most / 8U, 1));
      most = static_cast<std::uint16_t>(sum < rans_entries ? most + step : most - step);
      sum = sum < rans_entries ? sum + step : sum - step;
    }
    return made;
  }
  /// Returns whether they add up.
  bool fit() const { return std::accumulate(of.begin(), of.end(), 0U) == rans_entries; }

  /// Returns the table for decoders. The frequencies must fit.
  std::vector<std::uint32_t> table() const {
    std::vector<std::uint32_t> entries;
    entries.reserve(rans_entries);
    for (std::uint32_t symbol = 0; symbol != of.size(); ++symbol) {
      for (std::uint32_t place = 0; place != of[symbol]; ++place) {
        entries.push_back(rans_entry(symbol, of[symbol], place));
      }
    }
    return entries;
  }
};

/// Writes streams for RansStream. What the decoder takes first is put last: lanes from the last one
/// down, in steps from the last one back. Symbols count on from one table to the next.
class RansEncoder {
 public:
  explicit RansEncoder(std::span<const RansFrequencies> tables) {
    for (const RansFrequencies& table : tables) {
      std::uint32_t first = 0;
      for (const std::uint32_t its : table.of) {
        symbols_.push_back(RansSymbol::of(its, first));
        first += its;
      }
    }
  }

  /// Returns whether the symbol has a frequency: no other one can be put.
  bool knows(std::uint32_t symbol) const noexcept { return symbols_[symbol].known(); }
  /// Begins a stream of at most so many steps.
  void begin(std::size_t steps) {
    state_.fill(rans_least);
    // A step puts a word a lane at most, and stores 8 more before the first.
    words_.resize(std::max(words_.size(), steps * warp_lanes + 8));
    to_ = words_.data() + words_.size();
  }
  /// Puts a symbol for each lane.
  void put_symbols(const std::uint16_t* symbols) noexcept {
    for (unsigned lane = warp_lanes; lane != 0; lane -= 8) {
      const unsigned from = lane - 8;
      to_ = eight_.put_symbols(&state_[from], symbols_.data(), symbols + from, to_);
    }
  }
  /// Puts bits for each lane: the lower half of its number, as many as the upper half says, at most
  /// 16; the others are 0.
  void put_bits(const std::uint32_t* bits) noexcept {
    for (unsigned lane = warp_lanes; lane != 0; lane -= 8) {
      to_ = eight_.put_bits(&state_[lane - 8], bits + lane - 8, to_);
    }
  }
  /// Appends the stream.
  void end(std::vector<std::byte>& to) const {
    const auto states = std::as_bytes(std::span{state_});
    const auto words = std::as_bytes(std::span{to_, words_.data() + words_.size()});
    to.insert(to.end(), states.begin(), states.end());
    to.insert(to.end(), words.begin(), words.end());
  }

 private:
  std::vector<RansSymbol> symbols_;
  std::array<std::uint32_t, warp_lanes> state_{};
  std::vector<std::uint16_t> words_; // from to_ on
  std::uint16_t* to_ = nullptr;
  RansEightLanes eight_;
};

} // namespace penstock::detail
