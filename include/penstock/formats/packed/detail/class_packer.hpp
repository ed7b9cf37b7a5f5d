// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/packed.hpp>
#include <penstock/formats/packed/detail/column_code.hpp>
#include <penstock/formats/packed/detail/rans_encoder.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace penstock::detail {

/// Packs chunks of one column by PackedCodec::classes, one after the other.
class ClassPacker {
 public:
  explicit ClassPacker(const ColumnCode& code) : encoder_{code.frequencies} {
    const auto most = std::max_element(code.ranked.begin(), code.ranked.end());
    step_of_.resize(most == code.ranked.end() ? 0 : std::size_t{*most} + 1);
    // From the last one back, since those that stand for nothing say that they stand for rank 0.
    for (auto symbol = static_cast<std::uint32_t>(code.symbols.size()); symbol-- != 0;) {
      const auto its = PackedSymbol::of(code.symbols[symbol]);
      const std::size_t end =
          std::min(code.ranked.size(), std::size_t{its.rank} + (std::size_t{1} << its.bits));
      for (std::size_t rank = its.rank; rank < end; ++rank) {
        step_of_[code.ranked[rank]] = {symbol, static_cast<std::uint16_t>(rank - its.rank),
                                       static_cast<std::uint8_t>(its.bits),
                                       static_cast<std::uint8_t>(its.its_class), true};
      }
    }
  }

  /// Appends the stream of a chunk's values. Returns whether all are known.
  template <class T> bool pack(std::span<const std::byte> chunk, std::vector<std::byte>& to) {
    const std::size_t count = chunk.size() / sizeof(T);
    const std::size_t places = (count + packed_block - 1) / packed_block * packed_block;
    symbols_.resize(places);
    bits_.resize(places);
    std::uint32_t before = 0;
    for (std::size_t i = 0; i != places; ++i) {
      const T value = value_at<T>(chunk, std::min(i, count - 1));
      if (value >= step_of_.size() || !step_of_[value].known) {
        return false;
      }
      const Step& its = step_of_[value];
      const std::uint32_t symbol = its.symbol + (i % 16 == 0 ? 0 : before) * rans_symbols;
      if (!encoder_.knows(symbol)) {
        return false;
      }
      before = its.its_class;
      const std::size_t place =
          i / packed_block * packed_block + i % 16 * warp_lanes + i / 16 % warp_lanes;
      symbols_[place] = static_cast<std::uint16_t>(symbol);
      bits_[place] = its.bits | std::uint32_t{its.width} << 16;
    }
    constexpr bool follow = sizeof(T) != 1; // else no bits follow
    encoder_.begin(places / warp_lanes * (follow ? 2 : 1));
    for (std::size_t at = places; at != 0; at -= warp_lanes) {
      if constexpr (follow) {
        encoder_.put_bits(bits_.data() + at - warp_lanes);
      }
      encoder_.put_symbols(symbols_.data() + at - warp_lanes);
    }
    encoder_.end(to);
    return true;
  }

 private:
  struct Step {
    std::uint32_t symbol{}; // of a table
    std::uint16_t bits{};
    std::uint8_t width{};
    std::uint8_t its_class{};
    bool known{};
  };

  RansEncoder encoder_;
  std::vector<Step> step_of_;          // of each value
  std::vector<std::uint16_t> symbols_; // of a chunk and of all tables, in the order of steps
  std::vector<std::uint32_t> bits_;    // and those that follow them, with their number above
};

} // namespace penstock::detail
