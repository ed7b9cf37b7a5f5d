// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/base/splitmix.hpp>

#include <bit>
#include <cstdint>

namespace penstock::detail {

/// A permutation of the numbers below `size`, from 1 to 2^63: a Feistel network.
///
/// A number is a high half and a low half. Each round adds to one half what it makes of the other
/// half and a key, so that the same rounds the other way round give the inverse. The low half has
/// 2^k values, where 2^k is about sqrt(size), and the high half no more than are needed to reach
/// `size`. So the network permutes fewer than size + 2^k numbers. A result that is not below `size`
/// goes through the network again, and that is rare: once in sqrt(size) calls at most, or for a few
/// records twice in five calls.
template <unsigned rounds> class Feistel {
 public:
  Feistel(std::uint64_t size, std::uint64_t key) noexcept
      : size_{size}, low_bits_{(static_cast<std::uint32_t>(std::bit_width(size - 1)) + 1) / 2},
        highs_{static_cast<std::uint32_t>((size - 1) >> low_bits_) + 1} {
    for (unsigned round = 0; round < rounds; ++round) {
      keys_[round] = splitmix(key, round + 1);
    }
  }

  PENSTOCK_HD std::uint64_t size() const noexcept { return size_; }
  /// Returns how many numbers the network itself permutes.
  PENSTOCK_HD std::uint64_t domain() const noexcept { return std::uint64_t{highs_} << low_bits_; }

  /// Of a number that is not below size() they may never return.
  /// @{
  PENSTOCK_HD std::uint64_t operator()(std::uint64_t i) const noexcept {
    do {
      i = once(i);
    } while (i >= size_);
    return i;
  }
  PENSTOCK_HD std::uint64_t inverse(std::uint64_t x) const noexcept {
    do {
      x = once_back(x);
    } while (x >= size_);
    return x;
  }
  /// @}

 private:
  struct Halves {
    std::uint32_t high;
    std::uint32_t low;
  };

  PENSTOCK_HD Halves split(std::uint64_t number) const noexcept {
    return {static_cast<std::uint32_t>(number >> low_bits_),
            static_cast<std::uint32_t>(number) & low_mask()};
  }
  PENSTOCK_HD std::uint64_t joined(Halves halves) const noexcept {
    return std::uint64_t{halves.high} << low_bits_ | halves.low;
  }

  PENSTOCK_HD std::uint64_t once(std::uint64_t i) const noexcept {
    Halves halves = split(i);
    for (unsigned round = 0; round < rounds; ++round) {
      if (round % 2 == 0) {
        halves.high = modulo_highs(halves.high + high_step(halves.low, round));
      } else {
        halves.low = (halves.low + mixed(halves.high, round)) & low_mask();
      }
    }
    return joined(halves);
  }
  PENSTOCK_HD std::uint64_t once_back(std::uint64_t x) const noexcept {
    Halves halves = split(x);
    for (unsigned round = rounds; round-- > 0;) {
      if (round % 2 == 0) {
        halves.high = modulo_highs(halves.high + highs_ - high_step(halves.low, round));
      } else {
        halves.low = (halves.low - mixed(halves.high, round)) & low_mask();
      }
    }
    return joined(halves);
  }

  PENSTOCK_HD std::uint32_t low_mask() const noexcept {
    return static_cast<std::uint32_t>((std::uint64_t{1} << low_bits_) - 1);
  }
  // Of a number below 2 * highs_. One below highs_ wraps round and gets great: the lesser of the
  // two is meant, which takes no branch.
  PENSTOCK_HD std::uint32_t modulo_highs(std::uint32_t number) const noexcept {
    const std::uint32_t less = number - highs_;
    return less < number ? less : number;
  }
  // Some are likelier than others, by at most a share of highs_ / 2^32. A division would be exact,
  // and take longer than all the rest.
  PENSTOCK_HD std::uint32_t high_step(std::uint32_t low, unsigned round) const noexcept {
    return static_cast<std::uint32_t>((std::uint64_t{mixed(low, round)} * highs_) >> 32);
  }
  PENSTOCK_HD std::uint32_t mixed(std::uint32_t half, unsigned round) const noexcept {
    std::uint64_t x = (half + keys_[round]) * 0x9E3779B97F4A7C15;
    x = (x ^ (x >> 32)) * 0xBF58476D1CE4E5B9;
    return static_cast<std::uint32_t>(x >> 32);
  }

  std::uint64_t size_;
  std::uint32_t low_bits_; // at most 32
  std::uint32_t highs_;    // at most 2^31: the sum of two numbers below it fits 32 bits
  std::uint64_t keys_[rounds];
};

} // namespace penstock::detail
