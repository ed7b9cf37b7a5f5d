// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace penstock::detail {

/// The numbers that XXH32 and XXH64 are made of, as their specification has them (xxHash,
/// doc/xxhash_spec.md).
template <std::unsigned_integral Word> struct XxNumbers;
template <> struct XxNumbers<std::uint32_t> {
  static constexpr std::array<std::uint32_t, 5> primes{0x9E37'79B1, 0x85EB'CA77, 0xC2B2'AE3D,
                                                       0x27D4'EB2F, 0x1656'67B1};
  static constexpr int turn = 13;
  static constexpr std::array turns{1, 7, 12, 18};
  static constexpr std::array shifts{15, 13, 16};
};
template <> struct XxNumbers<std::uint64_t> {
  static constexpr std::array<std::uint64_t, 5> primes{0x9E37'79B1'85EB'CA87, 0xC2B2'AE3D'27D4'EB4F,
                                                       0x1656'67B1'9E37'79F9, 0x85EB'CA77'C2B2'AE63,
                                                       0x27D4'EB2F'1656'67C5};
  static constexpr int turn = 31;
  static constexpr std::array turns{1, 7, 12, 18};
  static constexpr std::array shifts{33, 29, 32};
};

/// Returns xxHash's XXH32 or XXH64 of bytes, with the seed 0: the checksums of zstd and LZ4.
template <std::unsigned_integral Word> Word xxhash(std::span<const std::byte> bytes) noexcept {
  using Its = XxNumbers<Word>;
  constexpr auto& prime = Its::primes;
  constexpr bool wide = sizeof(Word) == 8;
  static_assert(std::endian::native == std::endian::little);
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  const auto take = [&]<class T>(T) {
    T word;
    std::memcpy(&word, at, sizeof word);
    at += sizeof word;
    left -= sizeof word;
    return static_cast<Word>(word);
  };
  const auto round = [&](Word lane, Word word) {
    return static_cast<Word>(std::rotl<Word>(lane + word * prime[1], Its::turn) * prime[0]);
  };
  Word sum = prime[4];
  if (left >= 4 * sizeof(Word)) {
    std::array<Word, 4> lanes{static_cast<Word>(prime[0] + prime[1]), prime[1], Word{0},
                              static_cast<Word>(Word{0} - prime[0])};
    while (left >= sizeof lanes) {
      for (Word& lane : lanes) {
        lane = round(lane, take(Word{}));
      }
    }
    sum = 0;
    for (std::size_t i = 0; i != lanes.size(); ++i) {
      sum += std::rotl<Word>(lanes[i], Its::turns[i]);
    }
    if constexpr (wide) {
      for (const Word lane : lanes) {
        sum = (sum ^ round(0, lane)) * prime[0] + prime[3];
      }
    }
  }
  sum += static_cast<Word>(bytes.size());
  if constexpr (wide) {
    while (left >= 8) {
      sum = std::rotl<Word>(sum ^ round(0, take(Word{})), 27) * prime[0] + prime[3];
    }
    if (left >= 4) {
      sum = std::rotl<Word>(sum ^ take(std::uint32_t{}) * prime[0], 23) * prime[1] + prime[2];
    }
    while (left != 0) {
      sum = std::rotl<Word>(sum ^ take(std::uint8_t{}) * prime[4], 11) * prime[0];
    }
  } else {
    while (left >= 4) {
      sum = std::rotl<Word>(sum + take(Word{}) * prime[2], 17) * prime[3];
    }
    while (left != 0) {
      sum = std::rotl<Word>(sum + take(std::uint8_t{}) * prime[4], 11) * prime[0];
    }
  }
  sum = (sum ^ sum >> Its::shifts[0]) * prime[1];
  sum = (sum ^ sum >> Its::shifts[1]) * prime[2];
  return sum ^ sum >> Its::shifts[2];
}

} // namespace penstock::detail
