// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Which record comes at which step: each once an epoch, blocks together, windows mixed, and as
// random as Order::batch_variance() says.

#include "support/catch.hpp"

#include <penstock/order/detail/sequence.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

namespace {

namespace ps = penstock;
using ps::detail::Sequence;
using Records = std::vector<std::uint64_t>;

Records records_of(const ps::Order& order, std::uint64_t size, std::uint64_t epoch) {
  const Sequence sequence{order, size, epoch};
  Records records(size);
  for (std::uint64_t step = 0; step < size; ++step) {
    records[step] = sequence(step);
  }
  return records;
}
bool each_once(Records records) {
  std::sort(records.begin(), records.end());
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (records[i] != i) {
      return false;
    }
  }
  return true;
}

/// Returns the mean over batches of chi-square over its degrees of freedom, against 64 classes into
/// which the records fall by their numbers.
double variance_of(const Records& records, std::size_t batch) {
  constexpr std::size_t classes = 64;
  const double expected = static_cast<double>(batch) / classes;
  double sum = 0;
  std::size_t batches = 0;
  for (std::size_t begin = 0; begin + batch <= records.size(); begin += batch, ++batches) {
    std::vector<double> count(classes, 0);
    for (std::size_t i = begin; i != begin + batch; ++i) {
      ++count[records[i] * classes / records.size()];
    }
    for (const double n : count) {
      sum += (n - expected) * (n - expected) / expected;
    }
  }
  return sum / static_cast<double>(batches) / (classes - 1);
}

TEST_CASE("Each record comes once an epoch, whatever the block and the window") {
  for (std::uint64_t size = 1; size <= 70; ++size) {
    for (const std::uint64_t block : {0, 1, 2, 3, 7, 16, 64, 100}) {
      for (const std::uint64_t window : {1, 2, 3, 5, 100}) {
        for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
          CAPTURE(size, block, window, epoch);
          const ps::Order order{.shuffle = 11, .block = block, .window = window};
          REQUIRE(each_once(records_of(order, size, epoch)));
        }
      }
    }
  }
  CHECK(each_once(records_of({.shuffle = 3, .block = 1000, .window = 16}, 128'113, 1)));
}

TEST_CASE("Without a seed records come as they lie") {
  const Records records = records_of({.block = 8}, 50, 2);
  for (std::size_t step = 0; step < records.size(); ++step) {
    REQUIRE(records[step] == step);
  }
}

TEST_CASE("A block stays together, as it lies, and comes at another place in each epoch") {
  constexpr std::uint64_t size = 103;
  constexpr std::uint64_t block = 10;
  std::set<Records> orders;
  for (std::uint64_t epoch = 0; epoch < 4; ++epoch) {
    const Records records = records_of({.shuffle = 5, .block = block}, size, epoch);
    Records blocks;
    for (std::size_t step = 0; step < size;) {
      const std::uint64_t number = records[step] / block;
      blocks.push_back(number);
      const std::uint64_t end = std::min(size, (number + 1) * block);
      for (std::uint64_t record = number * block; record < end; ++record, ++step) {
        REQUIRE(records[step] == record);
      }
    }
    REQUIRE(blocks.size() == 11);
    orders.insert(blocks);
  }
  CHECK(orders.size() == 4);
}

TEST_CASE("A window mixes the records of its blocks, and no others") {
  constexpr std::uint64_t size = 1003;
  constexpr std::uint64_t block = 10;
  constexpr std::uint64_t window = 8;
  const Records together = records_of({.shuffle = 5, .block = block}, size, 1);
  const Records mixed = records_of({.shuffle = 5, .block = block, .window = window}, size, 1);
  std::size_t moved = 0;
  for (std::size_t step = 0; step < size; ++step) {
    moved += mixed[step] / block != together[step] / block ? 1 : 0;
  }
  CHECK(moved > size / 2);
  // The blocks of a window are those that come next to each other without mixing.
  std::vector<std::uint64_t> order_of_blocks;
  for (std::size_t step = 0; step < size; ++step) {
    if (order_of_blocks.empty() || order_of_blocks.back() != together[step] / block) {
      order_of_blocks.push_back(together[step] / block);
    }
  }
  std::size_t step = 0;
  for (std::size_t first = 0; first < order_of_blocks.size(); first += window) {
    const std::size_t end = std::min<std::size_t>(first + window, order_of_blocks.size());
    const std::set<std::uint64_t> inside{
        order_of_blocks.begin() + static_cast<std::ptrdiff_t>(first),
        order_of_blocks.begin() + static_cast<std::ptrdiff_t>(end)};
    std::size_t count = 0;
    for (const std::uint64_t number : inside) {
      count += std::min(size, (number + 1) * block) - number * block;
    }
    for (const std::size_t stop = step + count; step != stop; ++step) {
      REQUIRE(inside.count(mixed[step] / block) == 1);
    }
  }
  CHECK(step == size);
}

TEST_CASE("Windows are mixed in another way in each epoch, and of each seed") {
  constexpr std::uint64_t size = 200;
  std::set<Records> ways;
  for (const std::uint64_t seed : {1, 2}) {
    for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
      const Records together = records_of({.shuffle = seed, .block = 10}, size, epoch);
      const Records mixed = records_of({.shuffle = seed, .block = 10, .window = 4}, size, epoch);
      Records way; // where each record would be without mixing
      for (std::size_t step = 0; step < 40; ++step) {
        way.push_back(static_cast<std::uint64_t>(
            std::find(together.begin(), together.end(), mixed[step]) - together.begin()));
      }
      ways.insert(way);
    }
  }
  CHECK(ways.size() == 6);
}

TEST_CASE("Shuffles are as good as batch_variance() says, where records lie sorted by class") {
  constexpr std::uint64_t size = 320'000;
  constexpr std::size_t batch = 256;
  for (const ps::Order& order :
       {ps::Order{.shuffle = 1}, ps::Order{.shuffle = 1, .block = 10, .window = 256},
        ps::Order{.shuffle = 1, .block = 100, .window = 64},
        ps::Order{.shuffle = 1, .block = 1000, .window = 16},
        ps::Order{.shuffle = 1, .block = 1000, .window = 64}, ps::Order{.shuffle = 1, .block = 500},
        ps::Order{}}) {
    const double measured = variance_of(records_of(order, size, 0), batch);
    const double stated = order.batch_variance(batch, size);
    CAPTURE(order.block, order.window, measured, stated);
    // Of 1250 batches a random order's mean is within one per cent. Half a class lies in a block of
    // 500, so the formula, which is for classes larger than blocks, is an upper bound there.
    REQUIRE(measured < stated * 1.15);
    REQUIRE(measured > stated * 0.8);
  }
}

} // namespace
