// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/base/splitmix.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/error.hpp>

#include <bit>
#include <cassert>
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
  Feistel(std::uint64_t size, std::uint64_t key, unsigned rounds) noexcept;

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

#if PENSTOCK_BODIES
PENSTOCK_INLINE Feistel::Feistel(std::uint64_t size, std::uint64_t key, unsigned rounds) noexcept
    : size_{size}, first_key_{splitmix(key, 1)}, next_key_{splitmix(key, 2)},
      low_bits_{(static_cast<std::uint32_t>(std::bit_width(size - 1)) + 1) / 2},
      highs_{static_cast<std::uint32_t>((size - 1) >> low_bits_) + 1}, rounds_{rounds} {}
#endif

} // namespace penstock::detail

namespace penstock {

/// The numbers from 0 to size() - 1 in an order that looks random, such as the order in which an
/// epoch reads its records. It is a pure function of size, seed and epoch, the same on every
/// machine, on the host and on the GPU. It needs no memory and no state: any place of the order
/// costs the same. It is trivially copyable and has 40 bytes, so it can be a kernel's argument. Any
/// number of threads may use one at once. It blocks nowhere.
///
/// It is made for shuffling, not for secrets: who sees some of the order can find out the rest.
class Permutation {
 public:
  /// The greatest size.
  static constexpr std::uint64_t max_size = std::uint64_t{1} << 63;

  /// Orders the numbers below `size`, which is from 1 to max_size. Any seed and any epoch are good;
  /// orders of another seed, epoch or size have nothing to do with this one. Host only. Throws
  /// OptionError if the size is 0 or more than max_size.
  Permutation(std::uint64_t size, std::uint64_t seed, std::uint64_t epoch)
      : network_{checked(size), key(size, seed, epoch), rounds(size)} {}

  /// Returns how many numbers there are. Host and GPU.
  PENSTOCK_HD std::uint64_t size() const noexcept { return network_.size(); }

  /// Returns the number at place `i` of the order. `i` must be below size(): of another the call
  /// may never return. About 12 ns on the host, and up to 130 ns if there are 256 numbers or fewer.
  /// Host and GPU.
  PENSTOCK_HD std::uint64_t operator()(std::uint64_t i) const noexcept {
    assert(i < size() && "penstock: a Permutation has no place from its size() on");
    return network_(i);
  }
  /// Returns the place of number `x` in the order: `p.inverse(p(i))` is `i`. `x` must be below
  /// size(): of another the call may never return. Costs what operator() does. Host and GPU.
  PENSTOCK_HD std::uint64_t inverse(std::uint64_t x) const noexcept {
    assert(x < size() && "penstock: a Permutation has no number from its size() on");
    return network_.inverse(x);
  }

 private:
  // Six is the least number of rounds in which no statistic of tests/order/permutation_test.cpp
  // finds anything. Of sixteen orders of 2^20 numbers, in standard deviations of an order at
  // random, where orders of std::shuffle reach 2.8: what knows nothing of the network finds up to
  // 102 in two rounds, and no more than 2.5 in three; the XOR of numbers that have a half in common
  // finds 98 in three rounds, and no more than 2.7 in four or five; a statistic made for such
  // networks finds 28.5 in four and in five rounds, 2.2 in six, and 2.3 and 2.6 in seven and eight.
  // So what may be asked of a shuffle would be content with two rounds fewer. A round takes 2 ns.
  //
  // Small halves forget slowly. Of 200,000 orders of 5 numbers some come more often than others by
  // 2104 standard deviations after six rounds, 48 after twelve, 6 after sixteen, 0.8 after 20 and
  // 0.5 after 24. From 129 numbers on the pairs of numbers at two places show nothing in six
  // rounds: eight, up to where time counts, leave a margin.
  static unsigned rounds(std::uint64_t size) noexcept;

  static std::uint64_t checked(std::uint64_t size);
  // Seed, epoch and size each go through the hash by themselves: a sum of two would make seed 1 in
  // epoch 0 and seed 0 in epoch 1 the same order, and equal seeds would give sources of 1000 and of
  // 1001 records nearly the same one.
  static std::uint64_t key(std::uint64_t size, std::uint64_t seed, std::uint64_t epoch) noexcept;

  detail::Feistel network_;
};

#if PENSTOCK_BODIES
PENSTOCK_INLINE unsigned Permutation::rounds(std::uint64_t size) noexcept {
  return size > (1U << 14) ? 6 : size > (1U << 8) ? 8 : 24;
}

PENSTOCK_INLINE std::uint64_t Permutation::checked(std::uint64_t size) {
  if (size == 0 || size > max_size) {
    detail::throw_error<OptionError>(
        {"penstock: Permutation: its size is ", size, ", and must be from 1 to ", max_size,
         ": give the number of records, and make none where there are no records or it is not "
         "known how many."});
  }
  return size;
}

PENSTOCK_INLINE std::uint64_t Permutation::key(std::uint64_t size, std::uint64_t seed,
                                               std::uint64_t epoch) noexcept {
  return detail::splitmix(detail::splitmix(detail::splitmix(seed, 1) ^ epoch, 1) ^ size, 1);
}
#endif

} // namespace penstock
