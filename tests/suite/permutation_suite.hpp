// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Permutations on a device are those of the host. The including file defines TestDevice, and
// includes for_each for it.

#include "support/catch.hpp"

#include <penstock/device/device_array.hpp>
#include <penstock/order/permutation.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace suite {

namespace ps = penstock;

using D = TestDevice;

/// The first three numbers of an order, the one in the middle (at half its size) and the last.
struct Golden {
  std::uint64_t size;
  std::uint64_t seed;
  std::uint64_t epoch;
  std::uint64_t first[3];
  std::uint64_t middle;
  std::uint64_t last;
};

// Another program computed these, from what the headers say.
constexpr Golden golden[] = {
    {1, 0, 0, {0, 0, 0}, 0, 0},
    {2, 0, 0, {0, 1, 0}, 1, 1},
    {3, 7, 1, {2, 1, 0}, 1, 0},
    {10, 1337, 0, {8, 4, 3}, 6, 5},
    {10, 1337, 1, {3, 7, 2}, 5, 0},
    {10, 1338, 0, {2, 7, 3}, 1, 8},
    {256, 1337, 0, {141, 185, 67}, 208, 0},
    {257, 1337, 0, {256, 63, 122}, 221, 14},
    {16384, 1337, 0, {1680, 12233, 15146}, 7750, 10092},
    {16385, 1337, 0, {14480, 1719, 1622}, 14493, 8559},
    {65537, 1337, 0, {14031, 12402, 64475}, 4588, 65423},
    {1281167, 1337, 0, {129313, 210102, 224077}, 1088110, 787669},
    {1281167, 1337, 1, {659177, 913481, 453606}, 1155919, 70225},
    {1281167, 1338, 0, {175488, 1101873, 1125032}, 1036521, 579301},
    {8589934593, 0, 0, {4912901036, 3194927788, 6025693138}, 1666667621, 2531040164},
    {9223372036854775807,
     18446744073709551615U,
     18446744073709551615U,
     {7698214517083702095, 1724040595692772481, 3005120656019154078},
     3247637655649250684,
     8146234363488486634},
    {9223372036854775808U,
     1337,
     4294967296,
     {9058089799445588416, 4888374438437434576, 4357530924378291666},
     8199459474487623442,
     8496512956201227590},
};

struct Both {
  ps::Permutation permutation;
  std::uint64_t first;
  std::uint64_t* numbers;
  std::uint64_t* places;
  PENSTOCK_HD void operator()(std::size_t i) const {
    numbers[i] = permutation(first + i);
    places[i] = permutation.inverse(first + i);
  }
};

/// What the device makes of `count` places and numbers from `first` on.
struct Made {
  std::vector<std::uint64_t> numbers;
  std::vector<std::uint64_t> places;
};
inline Made made(const ps::Permutation& permutation, std::uint64_t first, std::size_t count) {
  D device;
  auto stream = device.stream();
  const auto numbers = ps::device_array<std::uint64_t>(device, count);
  const auto places = ps::device_array<std::uint64_t>(device, count);
  ps::for_each(stream, count, Both{permutation, first, numbers.data(), places.data()});
  return {numbers.read(stream), places.read(stream)};
}

TEST_CASE("golden values of permutations come out on the device") {
  for (const Golden& is : golden) {
    CAPTURE(is.size, is.seed, is.epoch);
    const ps::Permutation permutation{is.size, is.seed, is.epoch};
    const auto at = [&](std::uint64_t place) { return made(permutation, place, 1).numbers[0]; };
    for (std::uint64_t i = 0; i < 3 && i < is.size; ++i) {
      CHECK(at(i) == is.first[i]);
    }
    CHECK(at(is.size / 2) == is.middle);
    CHECK(at(is.size - 1) == is.last);
    CHECK(made(permutation, is.middle, 1).places[0] == is.size / 2);
    CHECK(made(permutation, is.last, 1).places[0] == is.size - 1);
  }
}

TEST_CASE("a permutation and its inverse are the host's on the device") {
  for (const std::uint64_t n :
       {std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{3}, std::uint64_t{1000},
        std::uint64_t{65'537}, (std::uint64_t{1} << 33) + 1, std::uint64_t{1} << 63}) {
    const ps::Permutation permutation{n, 1337, 3};
    const std::size_t count = n < 70'000 ? static_cast<std::size_t>(n) : 70'000;
    for (const std::uint64_t first : {std::uint64_t{0}, n - count}) {
      CAPTURE(n, first);
      const Made all = made(permutation, first, count);
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < count; ++i) {
        wrong += all.numbers[i] != permutation(first + i) ? 1 : 0;
        wrong += all.places[i] != permutation.inverse(first + i) ? 1 : 0;
      }
      CHECK(wrong == 0);
    }
  }
}

} // namespace suite
