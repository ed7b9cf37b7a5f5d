// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// SourceNumbers of units some of which were skipped, against a plain list of numbers.

#include "support/counted_new.hpp"

#include "support/catch.hpp"

#include <penstock/order/detail/origins.hpp>

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace ps = penstock;
namespace memory = ps::tests::memory;
using ps::detail::SourceNumbers;

namespace {

// Makes a list in which most numbers follow the one before.
std::vector<std::uint64_t> list_of(std::mt19937& random, std::size_t count) {
  std::vector<std::uint64_t> list;
  std::uint64_t number = random() % 100;
  for (std::size_t i = 0; i < count; ++i) {
    list.push_back(number);
    const auto one_of = random() % 20;
    number = one_of == 0   ? random() % 100 // an epoch's end
             : one_of == 1 ? number + (std::uint64_t{1} << 40)
             : one_of < 5  ? number + 2
                           : number + 1;
  }
  return list;
}

void tell(SourceNumbers& numbers, const std::vector<std::uint64_t>& list) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    numbers.go_on(i, list[i]);
  }
}

std::uint64_t wrong(const SourceNumbers& numbers, const std::vector<std::uint64_t>& list,
                    std::size_t from = 0) {
  std::uint64_t sum = 0;
  for (std::size_t i = from; i < list.size(); ++i) {
    sum += numbers[i] != list[i];
  }
  return sum;
}

} // namespace

TEST_CASE("each number is the one that was told, asked for in any order") {
  std::mt19937 random{1};
  for (int round = 0; round < 200; ++round) {
    CAPTURE(round);
    const auto list = list_of(random, 1 + random() % 300);
    SourceNumbers numbers;
    tell(numbers, list);
    CHECK(wrong(numbers, list) == 0);
    CHECK(numbers[list.size() + 5] == list.back() + 6);
    numbers.start(7);
    CHECK(numbers[0] == 7);
    CHECK(numbers[100] == 107);
  }
}

TEST_CASE("numbers are handed on in pieces, and put together again") {
  std::mt19937 random{2};
  for (int round = 0; round < 200; ++round) {
    CAPTURE(round);
    const auto list = list_of(random, 1 + random() % 300);
    SourceNumbers numbers;
    tell(numbers, list);
    // Pieces of many lengths, put together again.
    SourceNumbers again;
    for (std::size_t at = 0; at != list.size();) {
      const std::size_t count = std::min<std::size_t>(1 + random() % 40, list.size() - at);
      SourceNumbers piece;
      piece.go_on(0, numbers, at, count);
      for (std::size_t i = 0; i < count; ++i) {
        CHECK(piece[i] == list[at + i]);
      }
      again.go_on(at, piece, 0, count);
      at += count;
    }
    CHECK(wrong(again, list) == 0);
  }
}

TEST_CASE("what is forgotten takes no memory, and the rest is as it was") {
  std::mt19937 random{3};
  const auto list = list_of(random, 100'000);
  SourceNumbers numbers;
  std::size_t told = 0;
  const auto go_on = [&](std::size_t to) {
    std::uint64_t sum = 0;
    const std::size_t from = told;
    for (; told < to; ++told) {
      numbers.go_on(told, list[told]);
    }
    for (std::size_t i = from > 50 ? from - 50 : 0; i < to; ++i) {
      sum += numbers[i] != list[i];
    }
    numbers.forget_before(to > 50 ? to - 50 : 0);
    return sum;
  };
  std::uint64_t sum = 0;
  for (std::size_t to = 0; to < list.size() / 2; to += 1 + random() % 50) {
    sum += go_on(to);
  }
  const std::uint64_t before = memory::allocations;
  for (std::size_t to = list.size() / 2; to < list.size(); to += 1 + random() % 50) {
    sum += go_on(to);
  }
  CHECK(sum == 0);
  CHECK(memory::allocations == before);
}

TEST_CASE("numbers that were taken leave behind what can be asked, taken and told anew") {
  const std::vector<std::uint64_t> list{3, 5, 6, 9};
  SourceNumbers slot;
  SourceNumbers next;
  for (int lap = 0; lap < 3; ++lap) {
    slot.start(0);
    tell(slot, list);
    next.take(slot);
    CHECK(wrong(next, list) == 0);
    CHECK(slot[0] == list[0]);
    CHECK(slot[1] == list[0] + 1); // without the jumps, which next has
    next.take(slot);
    CHECK(next[2] == list[0] + 2);
  }
}
