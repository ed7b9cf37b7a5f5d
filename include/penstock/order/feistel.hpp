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
/// goes through the network again: on average in one of sqrt(size) / 2 calls at most, and for 5
/// numbers, the worst case, 0.6 times a call.
class Feistel {
 public:
  Feistel(std::uint64_t size, std::uint64_t key, unsigned rounds) noexcept
      : size_{size}, first_key_{splitmix(key, 1)}, next_key_{splitmix(key, 2)},
        low_bits_{(static_cast<std::uint32_t>(std::bit_width(size - 1)) + 1) / 2},
        highs_{static_cast<std::uint32_t>((size - 1) >> low_bits_) + 1}, rounds_{rounds} {}

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
  PENSTOCK_HD std::uint64_t once(std::uint64_t i) const noexcept {
    std::uint32_t high = high_of(i);
    std::uint32_t low = low_of(i);
    std::uint64_t key = first_key_;
    for (std::uint32_t round = 0; round < rounds_; ++round, key += next_key_) {
      if (round % 2 == 0) {
        high = modulo_highs(high + high_step(low + key));
      } else {
        low = low_of(low + mixed(high + key));
      }
    }
    return std::uint64_t{high} << low_bits_ | low;
  }
  PENSTOCK_HD std::uint64_t once_back(std::uint64_t x) const noexcept {
    std::uint32_t high = high_of(x);
    std::uint32_t low = low_of(x);
    std::uint64_t key = first_key_ + rounds_ * next_key_;
    for (std::uint32_t round = rounds_; round-- > 0;) {
      key -= next_key_;
      if (round % 2 == 0) {
        high = modulo_highs(high + highs_ - high_step(low + key));
      } else {
        low = low_of(std::uint64_t{low} - mixed(high + key));
      }
    }
    return std::uint64_t{high} << low_bits_ | low;
  }

  PENSTOCK_HD std::uint32_t high_of(std::uint64_t number) const noexcept {
    return static_cast<std::uint32_t>(number >> low_bits_);
  }
  PENSTOCK_HD std::uint32_t low_of(std::uint64_t number) const noexcept {
    return static_cast<std::uint32_t>(number & ((std::uint64_t{1} << low_bits_) - 1));
  }
  // Of a number below 2 * highs_. One below highs_ wraps round and gets great: the lesser of the
  // two is meant, which takes no branch.
  PENSTOCK_HD std::uint32_t modulo_highs(std::uint32_t number) const noexcept {
    const std::uint32_t less = number - highs_;
    return less < number ? less : number;
  }
  // A number below highs_. Some are likelier than others, by at most a share of highs_ / 2^32. A
  // division would be exact, and take longer than all the rest.
  PENSTOCK_HD std::uint32_t high_step(std::uint64_t low_and_key) const noexcept {
    return static_cast<std::uint32_t>(std::uint64_t{mixed(low_and_key)} * highs_ >> 32);
  }
  PENSTOCK_HD static std::uint32_t mixed(std::uint64_t x) noexcept {
    x *= 0x9E3779B97F4A7C15;
    x = (x ^ (x >> 32)) * 0xBF58476D1CE4E5B9;
    return static_cast<std::uint32_t>(x >> 32);
  }

  std::uint64_t size_;
  std::uint64_t first_key_; // the first round's
  std::uint64_t next_key_;  // what each further round adds to it
  std::uint32_t low_bits_;  // at most 32
  std::uint32_t highs_;     // at most 2^31: the sum of two numbers below it fits 32 bits
  std::uint32_t rounds_;
};

} // namespace penstock::detail
