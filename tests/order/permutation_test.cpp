// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Permutations are permutations for every number of records, and as random as what std::shuffle
// makes. Each statistic must also find a weak order that is planted for it.

#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/randomness.hpp"

#include <penstock/host/algorithm.hpp>
#include <penstock/host/device.hpp>
#include <penstock/order/permutation.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

using TestDevice = penstock::HostDevice;

#include "suite/permutation_suite.hpp"

namespace {

namespace ps = penstock;
using namespace penstock::tests;
using ps::detail::Feistel;

constexpr std::uint64_t power(unsigned bits) {
  return std::uint64_t{1} << bits;
}

/// Checks that each number below n comes once, and that the inverse leads back.
void check_all(std::uint64_t n, std::uint64_t seed, std::uint64_t epoch) {
  const ps::Permutation permutation{n, seed, epoch};
  std::vector<char> seen(n);
  std::size_t wrong = 0;
  for (std::uint64_t i = 0; i < n; ++i) {
    const std::uint64_t x = permutation(i);
    if (x >= n || seen[x] != 0 || permutation.inverse(x) != i) {
      ++wrong;
    } else {
      seen[x] = 1;
    }
  }
  INFO("n = " << n << ", seed = " << seed << ", epoch = " << epoch);
  REQUIRE(wrong == 0);
}

/// The sizes of the statistics that need many records.
constexpr std::size_t large[] = {65'537, 1'000'000, 1'281'167, power(20) - 1, power(20) + 1};

Order order(std::size_t n, std::uint64_t seed, std::uint64_t epoch) {
  return order_of(n, ps::Permutation{n, seed, epoch});
}

/// Weak orders.
/// @{
Order of_rounds(std::size_t n, unsigned rounds, std::uint64_t key = 1337) {
  return order_of(n, Feistel{n, key, rounds});
}
Order affine(std::size_t n) {
  std::uint64_t factor = n * 618 / 1000;
  while (std::gcd(factor, n) != 1) {
    ++factor;
  }
  return order_of(n, [=](std::uint64_t i) { return (i * factor + 12'345) % n; });
}
Order rotation(std::size_t n, std::uint64_t by) {
  return order_of(n, [=](std::uint64_t i) { return (i + by) % n; });
}
/// As if the epoch were added to the seed.
Order unhashed(std::size_t n, std::uint64_t seed, std::uint64_t epoch) {
  return of_rounds(n, 6, seed + epoch);
}
/// @}

// An order at random is farther off in one of 150,000 cases. What is planted must be twice as far.
constexpr double most = 4.5;
void check_random(double deviations) {
  CHECK(std::abs(deviations) < most);
}
void check_caught(double deviations) {
  CHECK(std::abs(deviations) > 2 * most);
}

std::uint64_t seeds() {
  return thorough() ? 16 : 1;
}

} // namespace

TEST_CASE("each number comes once, for every small size") {
  for (std::uint64_t n = 1; n <= 300; ++n) {
    check_all(n, n * 31, n % 7);
  }
  for (std::uint64_t n = 1; n <= 3; ++n) {
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
      check_all(n, seed, seed / 2);
    }
  }
}

TEST_CASE("each number comes once, at powers of two and beside them, and at primes") {
  for (unsigned bits = 9; bits <= (thorough() ? 22U : 16U); ++bits) {
    for (const std::uint64_t n : {power(bits) - 1, power(bits), power(bits) + 1}) {
      check_all(n, bits, n);
    }
  }
  for (const std::uint64_t n : {262'145U, 1'048'577U, 257U, 16'381U, 65'521U, 65'539U, 104'729U}) {
    check_all(n, 1337, 1);
  }
}

TEST_CASE("a size at the limit is as good as another") {
  for (const std::uint64_t n :
       {power(32) - 1, power(32), power(32) + 1, power(33) + 1, power(62) - 1, power(62),
        power(62) + 1, power(63) - 1, power(63)}) {
    const ps::Permutation permutation{n, 1337, 5};
    std::set<std::uint64_t> numbers;
    const std::uint64_t part = n / 3;
    for (std::uint64_t i = 0; i < 1000; ++i) {
      for (const std::uint64_t place : {i, n - 1 - i, part + i, i * (n / 1000)}) {
        const std::uint64_t x = permutation(place);
        const bool right = x < n && permutation.inverse(x) == place &&
                           permutation(permutation.inverse(place)) == place;
        if (!right) {
          FAIL("n = " << n << ", place = " << place << ", number = " << x);
        }
        numbers.insert(x);
      }
    }
    CHECK(numbers.size() >= 3998); // 0 and perhaps n / 3 are among two of them
    // They reach all of it.
    CHECK(*numbers.begin() < n / 500);
    CHECK(*numbers.rbegin() > n - n / 500);
  }
}

TEST_CASE("hardly a number goes through the network twice") {
  double most_often = 0;
  for (std::uint64_t n = 1; n < 70'000; ++n) {
    const Feistel network{n, 0, 6};
    most_often =
        std::max(most_often, static_cast<double>(network.domain()) / static_cast<double>(n));
    const std::uint64_t more = network.domain() - n;
    REQUIRE(more * more < 4 * n);
  }
  CHECK(most_often == 1.6); // 8 for 5
  for (unsigned bits = 20; bits < 63; ++bits) {
    const Feistel network{power(bits) + 1, 0, 6};
    REQUIRE(network.domain() - network.size() < power(bits / 2 + 1));
  }
}

TEST_CASE("golden values of permutations") {
  for (const suite::Golden& is : suite::golden) {
    CAPTURE(is.size, is.seed, is.epoch);
    const ps::Permutation permutation{is.size, is.seed, is.epoch};
    for (std::uint64_t i = 0; i < 3 && i < is.size; ++i) {
      CHECK(permutation(i) == is.first[i]);
    }
    CHECK(permutation(is.size / 2) == is.middle);
    CHECK(permutation(is.size - 1) == is.last);
  }
}

TEST_CASE("a size of 0 or beyond 2^63 is refused") {
  const auto refused = [](std::uint64_t size) {
    const auto error = caught<ps::OptionError>([=] { ps::Permutation{size, 0, 0}; });
    CHECK(
        has(error, "Permutation: its size is " + std::to_string(size) +
                       ", and must be from 1 to 9223372036854775808: give the number of records"));
  };
  refused(0);
  refused(power(63) + 1);
  refused(std::numeric_limits<std::uint64_t>::max());
  CHECK(ps::Permutation{power(63), 0, 0}.size() == ps::Permutation::max_size);
}

TEST_CASE("a permutation is small, and copied byte by byte") {
  CHECK(std::is_trivially_copyable_v<ps::Permutation>);
  CHECK(sizeof(ps::Permutation) == 40);
  const ps::Permutation one{1000, 1, 2};
  ps::Permutation other{7, 0, 0};
  other = one;
  CHECK(other.size() == 1000);
  CHECK(other(17) == one(17));
}

TEST_CASE("few records come in every order, as often in each") {
  const std::uint64_t count = thorough() ? 200'000 : 20'000;
  for (std::size_t n = 2; n <= (thorough() ? 7U : 5U); ++n) {
    CAPTURE(n);
    check_random(orders_of_few(n, count, [n](std::uint64_t seed) { return order(n, seed, 0); }));
    check_random(orders_of_few(n, count, [n](std::uint64_t epoch) { return order(n, 7, epoch); }));
    check_random(orders_of_few(n, count, [n](std::uint64_t seed) { return shuffled(n, seed); }));
  }
  check_caught(orders_of_few(3, count, [](std::uint64_t seed) { return rotation(3, seed); }));
  check_caught(orders_of_few(4, count, [](std::uint64_t key) { return of_rounds(4, 4, key); }));
  check_caught(orders_of_few(5, count, [](std::uint64_t key) { return of_rounds(5, 6, key); }));
}

TEST_CASE("two places have every pair of numbers, as often each") {
  const std::uint64_t count = thorough() ? 1'000'000 : 100'000;
  for (const std::size_t n : {8U, 17U, 100U, 257U}) {
    for (const std::size_t place : {std::size_t{1}, lows(n), n - 1}) {
      CAPTURE(n, place);
      check_random(pairs_at_places(
          n, place, count, [n](std::uint64_t seed) { return ps::Permutation{n, seed, 0}; }));
    }
  }
  check_caught(
      pairs_at_places(17, 1, count, [](std::uint64_t key) { return Feistel{17, key, 6}; }));
  check_caught(
      pairs_at_places(100, 1, count, [](std::uint64_t key) { return Feistel{100, key, 4}; }));
}

TEST_CASE("the XOR of neighbours takes as many values as at random") {
  for (const std::size_t n : large) {
    const XorOfNeighbours of_neighbours{n, 1};
    const XorOfNeighbours of_rows{n, lows(n)};
    for (std::uint64_t seed = 0; seed < seeds(); ++seed) {
      CAPTURE(n, seed);
      const Order records = order(n, seed, 0);
      check_random(of_neighbours(records));
      check_random(of_rows(records));
    }
  }
  const std::size_t n = 65'537;
  const XorOfNeighbours of_neighbours{n, 1};
  const XorOfNeighbours of_rows{n, lows(n)};
  for (std::uint64_t seed = 1; seed <= seeds(); ++seed) {
    check_random(of_neighbours(shuffled(n, seed)));
    check_random(of_rows(shuffled(n, seed)));
  }
  check_caught(of_neighbours(of_rounds(n, 2)));
  check_caught(of_neighbours(affine(n)));
  check_caught(of_neighbours(rotation(n, 12'345)));
  check_caught(of_rows(of_rounds(n, 3)));
}

TEST_CASE("batches draw from classes as at random") {
  for (const std::size_t n : large) {
    for (std::uint64_t seed = 0; seed < seeds(); ++seed) {
      CAPTURE(n, seed);
      const Order records = order(n, seed, 0);
      check_random(batches_of_classes(records, 256, 64));
      check_random(batches_of_classes(records, 32, 10));
      check_random(batches_of_classes(records, lows(n), 100));
    }
  }
  const std::size_t n = 65'537;
  for (std::uint64_t seed = 1; seed <= seeds(); ++seed) {
    check_random(batches_of_classes(shuffled(n, seed), 256, 64));
    check_random(batches_of_classes(shuffled(n, seed), 32, 10));
  }
  check_caught(batches_of_classes(of_rounds(n, 2, 2), 256, 64)); // with two keys of three
  check_caught(batches_of_classes(rotation(n, 12'345), 256, 64));
  check_caught(batches_of_classes(affine(n), 256, 64)); // more evenly than at random
}

TEST_CASE("no two epochs and no two seeds are correlated") {
  for (const std::size_t n : {std::size_t{1000}, std::size_t{65'537}, std::size_t{1'000'000}}) {
    for (std::uint64_t seed = 0; seed < (n < 100'000 ? 4 * seeds() : seeds()); ++seed) {
      CAPTURE(n, seed);
      const Order one = order(n, seed, 0);
      const Order next_epoch = order(n, seed, 1);
      const Order next_seed = order(n, seed + 1, 0);
      check_random(rank_correlation(one, next_epoch));
      check_random(rank_correlation(one, next_seed));
      check_random(rank_correlation(next_epoch, next_seed));
      check_random(rank_correlation(one, rotation(n, 0)));
      const bool same = next_epoch == next_seed; // Catch2 would print all of both
      CHECK_FALSE(same);
    }
  }
  const std::size_t n = 65'537;
  check_random(rank_correlation(shuffled(n, 1), shuffled(n, 2)));
  check_caught(rank_correlation(unhashed(n, 7, 1), unhashed(n, 8, 0)));
  check_caught(rank_correlation(rotation(n, 7), rotation(n, 8)));
}

TEST_CASE("orders of 1000 and of 1001 records are not correlated") {
  const auto correlation = [](const Order& one, Order longer) {
    std::erase(longer, 1000U);
    return rank_correlation(one, longer);
  };
  check_random(correlation(order(1000, 1337, 0), order(1001, 1337, 0)));
  check_caught(correlation(of_rounds(1000, 24), of_rounds(1001, 24)));
}

TEST_CASE("halves of numbers do not show what the network made of them") {
  const std::size_t n = power(16);
  for (std::uint64_t seed = 0; seed < 4 * seeds(); ++seed) {
    CAPTURE(seed);
    check_random(kept_differences(order(n, seed, 0), true));
    check_random(kept_differences(order(n, seed, 0), false));
  }
  check_random(kept_differences(shuffled(n, 1), true));
  check_random(kept_differences(shuffled(n, 1), false));
  check_caught(kept_differences(of_rounds(n, 5), true));
  check_caught(kept_differences(of_rounds(n, 4), true));
  check_caught(kept_differences(of_rounds(n, 4), false));
}

TEST_CASE("neighbours are a third of all records apart, and few records stay where they are") {
  for (const std::size_t n : large) {
    CAPTURE(n);
    check_random(step_of_neighbours(order(n, 0, 0)));
  }
  const std::size_t n = 65'537;
  check_random(step_of_neighbours(shuffled(n, 1)));
  check_caught(step_of_neighbours(rotation(n, 1)));
  check_caught(step_of_neighbours(affine(n)));

  const auto fixed = [](const auto& order_with) {
    double sum = 0;
    for (std::uint64_t epoch = 0; epoch < 400; ++epoch) {
      sum += static_cast<double>(fixed_points(order_with(epoch)));
    }
    return (sum - 400) / std::sqrt(400.0);
  };
  check_random(
      fixed([](std::uint64_t epoch) { return order_of(300, ps::Permutation{300, 0, epoch}); }));
  check_random(fixed([](std::uint64_t epoch) { return shuffled(300, epoch); }));
  check_caught(fixed([](std::uint64_t epoch) { return rotation(300, 1 + epoch % 299); }));
}
