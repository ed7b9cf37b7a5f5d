// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/base/splitmix.hpp>
#include <penstock/detail/base/throwing.hpp>
#include <penstock/error.hpp>
#include <penstock/order/feistel.hpp>

#include <cassert>
#include <cstdint>

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
  // Six is the least number of rounds in which no statistic of tests/permutation_test.cpp finds
  // anything. Of sixteen orders of 2^20 numbers, in standard deviations of an order at random,
  // where orders of std::shuffle reach 2.8: what knows nothing of the network finds up to 102 in
  // two rounds, and no more than 2.5 in three; the XOR of numbers that have a half in common finds
  // 98 in three rounds, and no more than 2.7 in four or five; a statistic made for such networks
  // finds 28.5 in four and in five rounds, 2.2 in six, and 2.3 and 2.6 in seven and eight. So what
  // may be asked of a shuffle would be content with two rounds fewer. A round takes 2 ns.
  //
  // Small halves forget slowly. Of 200,000 orders of 5 numbers some come more often than others by
  // 2104 standard deviations after six rounds, 48 after twelve, 6 after sixteen, 0.8 after 20 and
  // 0.5 after 24. From 129 numbers on the pairs of numbers at two places show nothing in six
  // rounds: eight, up to where time counts, leave a margin.
  static unsigned rounds(std::uint64_t size) noexcept {
    return size > (1U << 14) ? 6 : size > (1U << 8) ? 8 : 24;
  }

  static std::uint64_t checked(std::uint64_t size) {
    if (size == 0 || size > max_size) {
      detail::throw_error<OptionError>(
          {"penstock: Permutation: its size is ", size, ", and must be from 1 to ", max_size,
           ": give the number of records, and make none where there are no records or it is not "
           "known how many."});
    }
    return size;
  }
  // Seed, epoch and size each go through the hash by themselves: a sum of two would make seed 1 in
  // epoch 0 and seed 0 in epoch 1 the same order, and equal seeds would give sources of 1000 and of
  // 1001 records nearly the same one.
  static std::uint64_t key(std::uint64_t size, std::uint64_t seed, std::uint64_t epoch) noexcept {
    return detail::splitmix(detail::splitmix(detail::splitmix(seed, 1) ^ epoch, 1) ^ size, 1);
  }

  detail::Feistel network_;
};

} // namespace penstock
