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
  std::uint32_t symbol;
  std::uint32_t bits;
  unsigned width;

  static constexpr RankCode of(std::uint32_t rank) noexcept {
    if (rank < 16) {
      return {rank, 0, 0};
    }
    const auto width = static_cast<unsigned>(std::bit_width(std::uint64_t{rank})) - 4;
    return {8 * width + (rank >> width), rank & ((1U << width) - 1), width};
  }
};

/// Packs chunks of one column, one after the other.
class ChunkPacker {
 public:
  ChunkPacker(ValueType type, ColumnCode code)
      : type_{type}, code_{std::move(code)}, encoder_{code_.frequencies} {
    if (code_.codec == PackedCodec::ranked) {
      const auto most = std::max_element(code_.ranked.begin(), code_.ranked.end());
      rank_of_.resize(most == code_.ranked.end() ? 0 : std::size_t{*most} + 1, unknown);
      for (std::size_t rank = 0; rank != code_.ranked.size(); ++rank) {
        rank_of_[code_.ranked[rank]] = static_cast<std::uint32_t>(rank);
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
  static constexpr std::uint32_t unknown = ~0U;

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

  /// Calls f(step, lane, value) for all values, each step after those behind it, with the last
  /// value for those that are missing in a block.
  template <class T, class F> static void backwards(std::span<const std::byte> chunk, F f) {
    const std::size_t count = chunk.size() / sizeof(T);
    const std::size_t blocks = (count + packed_block - 1) / packed_block;
    for (std::size_t step = 16 * blocks; step-- != 0;) {
      f([&](unsigned lane) {
        const std::size_t at = step / 16 * packed_block + std::size_t{16} * lane + step % 16;
        return value_at<T>(chunk, std::min(at, count - 1));
      });
    }
  }
  template <class T> static std::size_t steps(std::span<const std::byte> chunk) noexcept {
    return (chunk.size() / sizeof(T) + packed_block - 1) / packed_block * 16;
  }
  /// Appends the stream of symbol(value) of each value. Returns whether all are known.
  template <class T, class Symbol> bool stream(std::span<const std::byte> chunk, Symbol symbol) {
    for (std::size_t i = 0; i != chunk.size() / sizeof(T); ++i) {
      if (!encoder_.knows(symbol(value_at<T>(chunk, i)))) {
        return false;
      }
    }
    encoder_.begin(steps<T>(chunk));
    backwards<T>(chunk, [&](auto its) {
      for (unsigned lane = warp_lanes; lane-- != 0;) {
        encoder_.put_symbol(lane, symbol(its(lane)));
      }
    });
    encoder_.end(packed_);
    return true;
  }

  bool bytes(std::span<const std::byte> chunk) {
    return stream<std::uint8_t>(chunk, [](std::uint32_t value) { return value; });
  }
  bool float16(std::span<const std::byte> chunk) {
    const bool turned = is_turned(type_);
    packed_.resize(steps<std::uint16_t>(chunk) * warp_lanes);
    for (std::size_t i = 0; i != chunk.size() / 2; ++i) {
      packed_[i] = static_cast<std::byte>(turned_value(value_at<std::uint16_t>(chunk, i), turned));
    }
    return stream<std::uint16_t>(
        chunk, [&](std::uint32_t value) { return turned_value(value, turned) >> 8; });
  }
  bool ranked(std::span<const std::byte> chunk) {
    return type_.bytes == 2 ? ranked_of<std::uint16_t>(chunk) : ranked_of<std::uint32_t>(chunk);
  }
  template <class T> bool ranked_of(std::span<const std::byte> chunk) {
    for (std::size_t i = 0; i != chunk.size() / sizeof(T); ++i) {
      const T its = value_at<T>(chunk, i);
      const std::uint32_t rank = its < rank_of_.size() ? rank_of_[its] : unknown;
      if (rank == unknown || !encoder_.knows(RankCode::of(rank).symbol)) {
        return false;
      }
    }
    encoder_.begin(2 * steps<T>(chunk));
    backwards<T>(chunk, [&](auto its) {
      RankCode codes[warp_lanes];
      for (unsigned lane = warp_lanes; lane-- != 0;) {
        codes[lane] = RankCode::of(rank_of_[its(lane)]);
        encoder_.put_bits(lane, codes[lane].bits, codes[lane].width);
      }
      for (unsigned lane = warp_lanes; lane-- != 0;) {
        encoder_.put_symbol(lane, codes[lane].symbol);
      }
    });
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
  std::vector<std::uint32_t> rank_of_;
  std::vector<std::byte> packed_;
};

} // namespace penstock::detail
