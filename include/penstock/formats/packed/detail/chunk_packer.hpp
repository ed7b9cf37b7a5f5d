// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/packed.hpp>
#include <penstock/formats/packed/detail/class_packer.hpp>
#include <penstock/formats/packed/detail/column_code.hpp>
#include <penstock/formats/packed/detail/rans_encoder.hpp>
#include <penstock/sources/detail/value_type.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace penstock::detail {

/// The symbol of a rank, and the bits that follow it.
struct RankCode {
  std::uint16_t bits{};
  std::uint8_t symbol{};
  std::uint8_t width : 7 {};
  bool known : 1 {}; ///< Whether the value has a rank, and the symbol a frequency.

  static constexpr RankCode of(std::uint32_t rank) noexcept {
    if (rank < 16) {
      return {0, static_cast<std::uint8_t>(rank), 0, true};
    }
    const auto width = static_cast<unsigned>(std::bit_width(std::uint64_t{rank})) - 4;
    return {static_cast<std::uint16_t>(rank & ((1U << width) - 1)),
            static_cast<std::uint8_t>(8 * width + (rank >> width)),
            static_cast<std::uint8_t>(width & 0x7F), true};
  }
};

/// Packs chunks of one column, one after the other.
class ChunkPacker {
 public:
  ChunkPacker(ValueType type, ColumnCode code)
      : type_{type}, code_{std::move(code)}, encoder_{code_.frequencies} {
    if (code_.codec == PackedCodec::ranked) {
      const auto most = std::max_element(code_.ranked.begin(), code_.ranked.end());
      code_of_.resize(most == code_.ranked.end() ? 0 : std::size_t{*most} + 1);
      for (std::uint32_t rank = 0; rank != code_.ranked.size(); ++rank) {
        RankCode& its = code_of_[code_.ranked[rank]];
        its = RankCode::of(rank);
        its.known = encoder_.knows(its.symbol);
      }
    }
    if (code_.codec == PackedCodec::classes) {
      class_packer_.emplace(code_);
    }
  }

  const ColumnCode& code() const noexcept { return code_; }
  /// Returns the packed bytes, valid until the next call, and how they are packed: as the column,
  /// or raw if that is not smaller. `chunk` has 1 value or more.
  std::pair<PackedCodec, std::span<const std::byte>> pack(std::span<const std::byte> chunk) {
    packed_.clear();
    const bool done = code_.codec == PackedCodec::bits      ? bits(chunk)
                      : code_.codec == PackedCodec::bytes   ? bytes(chunk)
                      : code_.codec == PackedCodec::float16 ? float16(chunk)
                      : code_.codec == PackedCodec::ranked  ? ranked(chunk)
                      : code_.codec == PackedCodec::classes ? classes(chunk)
                                                            : false;
    if (!done || packed_.size() >= chunk.size()) {
      return {PackedCodec::raw, chunk};
    }
    return {code_.codec, packed_};
  }

 private:
  bool bits(std::span<const std::byte> chunk) {
    const bool negative = type_.kind == 'i';
    switch (type_.bytes) {
    case 1:
      return negative ? bits_of<std::int8_t>(chunk) : bits_of<std::uint8_t>(chunk);
    case 2:
      return negative ? bits_of<std::int16_t>(chunk) : bits_of<std::uint16_t>(chunk);
    case 4:
      return negative ? bits_of<std::int32_t>(chunk) : bits_of<std::uint32_t>(chunk);
    default:
      return negative ? bits_of<std::int64_t>(chunk) : bits_of<std::uint64_t>(chunk);
    }
  }
  template <class T> bool bits_of(std::span<const std::byte> chunk) {
    using U = std::make_unsigned_t<T>;
    const std::size_t count = chunk.size() / sizeof(T);
    T least = value_at<T>(chunk, 0);
    T most = least;
    for (std::size_t i = 1; i != count; ++i) {
      least = std::min(least, value_at<T>(chunk, i));
      most = std::max(most, value_at<T>(chunk, i));
    }
    const auto base = static_cast<U>(least);
    const auto width = static_cast<unsigned>(
        std::bit_width(std::uint64_t{static_cast<U>(static_cast<U>(most) - base)}));
    const std::size_t bytes = packed_bits_head + (count * width + 31) / 32 * 4;
    if (bytes >= chunk.size()) {
      return false;
    }
    const std::uint64_t head[2]{base, width};
    packed_.resize(bytes);
    std::memcpy(packed_.data(), head, sizeof head);
    std::byte* to = packed_.data() + packed_bits_head;
    std::uint64_t word = 0;
    unsigned filled = 0; // bits of the word, less than 32 between values
    const auto add = [&](std::uint64_t some, unsigned its) { // at most 32
      word |= some << filled;
      for (filled += its; filled >= 32; filled -= 32, word >>= 32) {
        std::memcpy(to, &word, 4);
        to += 4;
      }
    };
    for (std::size_t i = 0; i != count; ++i) {
      const std::uint64_t some = static_cast<U>(value_at<U>(chunk, i) - base);
      add(some & 0xFFFF'FFFFU, std::min(width, 32U));
      if (width > 32) {
        add(some >> 32, width - 32);
      }
    }
    if (filled != 0) {
      std::memcpy(to, &word, 4);
    }
    return true;
  }

  /// Returns the number of values, made a multiple of a block's.
  static std::size_t in_blocks(std::size_t count) noexcept {
    return (count + packed_block - 1) / packed_block * packed_block;
  }
  /// Calls f(place, i) for each of so many values, and for the last again instead of those that are
  /// missing in a block. Places are in the order of steps: a step's lanes side by side.
  template <class F> static void in_steps(std::size_t count, F f) {
    const auto block = [&](std::size_t begin, auto value_of) {
      for (std::size_t k = 0; k != 16; ++k) {
        for (std::size_t lane = 0; lane != warp_lanes; ++lane) {
          f(begin + k * warp_lanes + lane, value_of(begin + 16 * lane + k));
        }
      }
    };
    const std::size_t whole = count / packed_block * packed_block;
    for (std::size_t begin = 0; begin != whole; begin += packed_block) {
      block(begin, [](std::size_t i) { return i; });
    }
    if (whole != count) {
      block(whole, [&](std::size_t i) { return std::min(i, count - 1); });
    }
  }
  /// Appends the stream of symbols_ if all are `known`. Returns whether they are.
  bool stream(bool known) {
    if (!known) {
      return false;
    }
    encoder_.begin(symbols_.size() / warp_lanes);
    for (std::size_t at = symbols_.size(); at != 0; at -= warp_lanes) {
      encoder_.put_symbols(symbols_.data() + at - warp_lanes);
    }
    encoder_.end(packed_);
    return true;
  }

  bool bytes(std::span<const std::byte> chunk) {
    symbols_.resize(in_blocks(chunk.size()));
    bool known = true;
    in_steps(chunk.size(), [&](std::size_t place, std::size_t i) {
      const auto symbol = std::to_integer<std::uint16_t>(chunk[i]);
      symbols_[place] = symbol;
      known &= encoder_.knows(symbol);
    });
    return stream(known);
  }
  bool float16(std::span<const std::byte> chunk) {
    const bool turned = is_turned(type_);
    const std::size_t count = chunk.size() / 2;
    packed_.resize(in_blocks(count));
    symbols_.resize(in_blocks(count));
    bool known = true;
    in_steps(count, [&](std::size_t place, std::size_t i) {
      const std::uint32_t its = turned_value(value_at<std::uint16_t>(chunk, i), turned);
      packed_[i] = static_cast<std::byte>(its);
      symbols_[place] = static_cast<std::uint16_t>(its >> 8);
      known &= encoder_.knows(its >> 8);
    });
    return stream(known);
  }
  bool ranked(std::span<const std::byte> chunk) {
    return type_.bytes == 2 ? ranked_of<std::uint16_t>(chunk) : ranked_of<std::uint32_t>(chunk);
  }
  template <class T> bool ranked_of(std::span<const std::byte> chunk) {
    const std::size_t count = chunk.size() / sizeof(T);
    symbols_.resize(in_blocks(count));
    bits_.resize(in_blocks(count));
    bool known = true;
    in_steps(count, [&](std::size_t place, std::size_t i) {
      const T its = value_at<T>(chunk, i);
      const RankCode code = its < code_of_.size() ? code_of_[its] : RankCode{};
      known &= code.known;
      symbols_[place] = code.symbol;
      bits_[place] = code.bits | std::uint32_t{code.width} << 16;
    });
    if (!known) {
      return false;
    }
    encoder_.begin(symbols_.size() / warp_lanes * 2);
    for (std::size_t at = symbols_.size(); at != 0; at -= warp_lanes) {
      encoder_.put_bits(bits_.data() + at - warp_lanes);
      encoder_.put_symbols(symbols_.data() + at - warp_lanes);
    }
    encoder_.end(packed_);
    return true;
  }

  bool classes(std::span<const std::byte> chunk) {
    return type_.bytes == 1   ? class_packer_->pack<std::uint8_t>(chunk, packed_)
           : type_.bytes == 2 ? class_packer_->pack<std::uint16_t>(chunk, packed_)
                              : class_packer_->pack<std::uint32_t>(chunk, packed_);
  }

  ValueType type_;
  ColumnCode code_;
  RansEncoder encoder_;
  std::optional<ClassPacker> class_packer_; // of that codec
  std::vector<RankCode> code_of_;           // of each value
  std::vector<std::uint16_t> symbols_;      // of a chunk, in the order of steps
  std::vector<std::uint32_t> bits_;         // and those that follow them, with their number above
  std::vector<std::byte> packed_;
};

} // namespace penstock::detail
