// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// How random are permutations of so many rounds? Prints the largest deviation of sixteen keys for
// each statistic, in standard deviations of an order at random. docs/order.md and
// penstock/order/permutation.hpp have these figures; tests/order/permutation_test.cpp checks what
// they say.

#include "support/randomness.hpp"

#include <penstock/order/permutation.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iomanip>
#include <iostream>
#include <string>
#include <vector>

namespace {

namespace ps = penstock;
using namespace penstock::tests;
using ps::detail::Feistel;

constexpr std::uint64_t keys = 16;

void print(const std::string& name, const std::vector<double>& values) {
  std::cout << std::left << std::setw(14) << name << std::right << std::fixed
            << std::setprecision(1);
  for (const double value : values) {
    std::cout << std::setw(10) << value;
  }
  std::cout << std::endl;
}

void of_many(std::size_t n) {
  const XorOfNeighbours of_neighbours{n, 1};
  const XorOfNeighbours of_rows{n, lows(n)};
  const bool halves = std::has_single_bit(n);
  std::cout << '\n'
            << n << " records: XOR of neighbours, of numbers " << lows(n)
            << " places apart; batches of 256 and 64 classes, of 32 and 10; rank correlation with "
               "the next key; step between neighbours"
            << (halves ? "; kept differences of high halves, of low ones\n" : "\n");
  const auto row = [&](const std::string& name, const auto& order_with) {
    std::vector<double> largest(halves ? 8 : 6);
    for (std::uint64_t key = 0; key < keys; ++key) {
      const Order one = order_with(key);
      std::vector<double> deviations{of_neighbours(one),
                                     of_rows(one),
                                     batches_of_classes(one, 256, 64),
                                     batches_of_classes(one, 32, 10),
                                     rank_correlation(one, order_with(key + 1)),
                                     step_of_neighbours(one)};
      if (halves) {
        deviations.push_back(kept_differences(one, true));
        deviations.push_back(kept_differences(one, false));
      }
      for (std::size_t i = 0; i < largest.size(); ++i) {
        largest[i] = std::max(largest[i], std::abs(deviations[i]));
      }
    }
    print(name, largest);
  };
  row("std::shuffle", [n](std::uint64_t seed) { return shuffled(n, seed); });
  for (unsigned rounds = 2; rounds <= 8; ++rounds) {
    row(std::to_string(rounds) + " rounds",
        [&](std::uint64_t key) { return order_of(n, Feistel{n, key, rounds}); });
  }
  row("Permutation", [n](std::uint64_t seed) { return order_of(n, ps::Permutation{n, seed, 0}); });
}

void of_few() {
  std::cout << "\n2 to 7 records: orders, each as often among 200,000\n";
  const auto orders = [](const std::string& name, const auto& order_with) {
    std::vector<double> values;
    for (std::size_t n = 2; n <= 7; ++n) {
      values.push_back(orders_of_few(
          n, 200'000, [&order_with, n](std::uint64_t i) { return order_with(n, i); }));
    }
    print(name, values);
  };
  orders("std::shuffle", [](std::size_t n, std::uint64_t seed) { return shuffled(n, seed); });
  for (const unsigned rounds : {6U, 8U, 12U, 16U, 20U, 24U, 28U}) {
    orders(std::to_string(rounds) + " rounds", [rounds](std::size_t n, std::uint64_t key) {
      return order_of(n, Feistel{n, key, rounds});
    });
  }
  orders("Permutation", [](std::size_t n, std::uint64_t seed) {
    return order_of(n, ps::Permutation{n, seed, 0});
  });

  std::cout << "\n8, 16, 17, 33, 64, 129, 256, 257, 513 and 1025 records: pairs of numbers at two "
               "places, each as often among 2,000,000; the largest of three places beside 0\n";
  const auto pairs = [](const std::string& name, const auto& make) {
    std::vector<double> values;
    for (const std::size_t n : {8U, 16U, 17U, 33U, 64U, 129U, 256U, 257U, 513U, 1025U}) {
      double largest = 0;
      for (const std::size_t place : {std::size_t{1}, lows(n), n - 1}) {
        const double deviation = pairs_at_places(
            n, place, 2'000'000, [&make, n](std::uint64_t i) { return make(n, i); });
        largest = std::max(largest, std::abs(deviation));
      }
      values.push_back(largest);
    }
    print(name, values);
  };
  for (const unsigned rounds : {4U, 6U, 8U, 10U, 12U, 16U, 20U, 24U}) {
    pairs(std::to_string(rounds) + " rounds",
          [rounds](std::size_t n, std::uint64_t key) { return Feistel{n, key, rounds}; });
  }
  pairs("Permutation",
        [](std::size_t n, std::uint64_t seed) { return ps::Permutation{n, seed, 0}; });
}

} // namespace

int main() {
  for (const std::size_t n : {std::size_t{16'385}, std::size_t{65'536}, std::size_t{65'537},
                              std::size_t{1'281'167}, std::size_t{1} << 20}) {
    of_many(n);
  }
  of_few();
}
