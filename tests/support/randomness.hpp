// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <vector>

// Statistics of an order of the numbers below n, fewer than 2^32. Each but fixed_points() is a
// number of standard deviations: it says how far the order is off what all n! orders give, each as
// likely.
namespace penstock::tests {

using Order = std::vector<std::uint32_t>;

/// Returns the order in which `place` puts the numbers below n.
template <class Place> Order order_of(std::size_t n, const Place& place) {
  Order order(n);
  for (std::size_t i = 0; i < n; ++i) {
    order[i] = static_cast<std::uint32_t>(place(i));
  }
  return order;
}

/// Returns an order that std::shuffle makes.
inline Order shuffled(std::size_t n, std::uint64_t seed) {
  Order order(n);
  std::iota(order.begin(), order.end(), 0U);
  std::mt19937_64 random{seed};
  std::shuffle(order.begin(), order.end(), random);
  return order;
}

/// Returns how many pairs of numbers below n, (a, b) and (b, a) both counted, have the XOR `x`,
/// which is not 0.
inline std::uint64_t pairs_with_xor(std::uint64_t n, std::uint64_t x) {
  std::uint64_t pairs = 0;
  // The numbers below the greatest power of two pair among themselves, and those above do; a number
  // above has one partner below if x has that bit.
  while (n != 0) {
    const std::uint64_t power = std::bit_floor(n);
    if (x >= 2 * power) {
      break;
    }
    n -= power;
    if (x >= power) {
      return pairs + 2 * n;
    }
    pairs += power;
  }
  return pairs;
}

/// How many different values the XOR of numbers `lag` places apart takes. Few values are a sign of
/// a mixing that copies differences from its input.
class XorOfNeighbours {
 public:
  XorOfNeighbours(std::size_t n, std::size_t lag)
      : lag_{lag}, values_{std::bit_ceil(std::uint64_t{n})} {
    const auto pairs = static_cast<double>(n - lag);
    const double all = static_cast<double>(n) * static_cast<double>(n - 1);
    double variance = 0;
    double covariance = 0;
    for (std::uint64_t x = 1; x < values_; ++x) {
      const double expected = pairs * static_cast<double>(pairs_with_xor(n, x)) / all;
      const double misses = std::exp(-expected);
      mean_ += 1 - misses;
      variance += misses * (1 - misses);
      covariance += expected * misses;
    }
    deviation_ = std::sqrt(variance - covariance * covariance / pairs);
  }

  double operator()(const Order& order) const {
    std::vector<char> seen(values_);
    std::size_t different = 0;
    for (std::size_t i = 0; i + lag_ < order.size(); ++i) {
      char& at = seen.at(order[i] ^ order[i + lag_]);
      different += at == 0 ? 1 : 0;
      at = 1;
    }
    return (static_cast<double>(different) - mean_) / deviation_;
  }

 private:
  std::size_t lag_;
  std::uint64_t values_;
  double mean_{};
  double deviation_{};
};

/// How evenly batches of `batch` records draw from a data set that is sorted by class: the
/// chi-square of the table of batches by classes. Batches are drawn without replacement, so both
/// its margins are fixed. Its mean and variance then are those of J. B. S. Haldane, in the form of
/// J. G. Dawson
/// ("A simplified expression for the variance of the chi-squared function on a contingency table",
/// Biometrika 41, 1954); a batch of b out of n has (n - b) / (n - 1) of the variance that drawing
/// with replacement would have.
inline double batches_of_classes(const Order& order, std::size_t batch, std::size_t classes) {
  const std::size_t size = order.size();
  const auto class_of = [&](std::uint32_t record) { return record * classes / size; };
  std::vector<double> of_class(classes);
  for (std::size_t record = 0; record < size; ++record) {
    ++of_class[class_of(static_cast<std::uint32_t>(record))];
  }
  const auto n = static_cast<double>(size);
  double chi_square = 0;
  double rows = 0;
  double one_over_rows = 0;
  std::vector<double> drawn(classes);
  for (std::size_t first = 0; first < size; first += batch) {
    const std::size_t end = std::min(first + batch, size);
    std::fill(drawn.begin(), drawn.end(), 0.0);
    for (std::size_t i = first; i < end; ++i) {
      ++drawn.at(class_of(order[i]));
    }
    const auto row = static_cast<double>(end - first);
    for (std::size_t c = 0; c < classes; ++c) {
      const double expected = row * of_class[c] / n;
      chi_square += (drawn[c] - expected) * (drawn[c] - expected) / expected;
    }
    ++rows;
    one_over_rows += 1 / row;
  }
  const auto columns = static_cast<double>(classes);
  const double one_over_columns = std::transform_reduce(
      of_class.begin(), of_class.end(), 0.0, std::plus{}, [](double count) { return 1 / count; });
  const double mean = (rows - 1) * (columns - 1) * n / (n - 1);
  const double v1 = (n - rows) * (rows - 1) / (n - 1);
  const double v2 = (n - columns) * (columns - 1) / (n - 1);
  const double w1 = (n * one_over_rows - rows * rows) / (n - 2);
  const double w2 = (n * one_over_columns - columns * columns) / (n - 2);
  const double variance = 2 * n / (n - 3) * (v1 - w1) * (v2 - w2) + n * n / (n - 1) * w1 * w2;
  return (chi_square - mean) / std::sqrt(variance);
}

/// Spearman's rank correlation of two orders, whose standard deviation is 1 / sqrt(n - 1).
inline double rank_correlation(const Order& a, const Order& b) {
  const auto n = static_cast<double>(a.size());
  double squares = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    squares += difference * difference;
  }
  return (1 - 6 * squares / (n * (n * n - 1))) * std::sqrt(n - 1);
}

/// How far apart neighbours are: a third of n on average.
inline double step_of_neighbours(const Order& order) {
  const auto n = static_cast<double>(order.size());
  double steps = 0;
  for (std::size_t i = 0; i + 1 < order.size(); ++i) {
    steps += std::abs(static_cast<double>(order[i + 1]) - static_cast<double>(order[i]));
  }
  return (steps - (n * n - 1) / 3) / std::sqrt((n - 2) * (n + 1) * (4 * n - 7) / 90);
}

/// How many pairs of places that have one half of their bits in common lead to numbers that have it
/// in common too, and whose other halves differ by as much as those of the places. A Feistel
/// network of too few rounds has about twice as many as an order at random (J. Patarin, "Generic
/// attacks on Feistel schemes", Asiacrypt 2001). n is 4^k. The common half is the low or the high
/// one.
inline double kept_differences(const Order& order, bool low_in_common) {
  const unsigned bits = static_cast<unsigned>(std::bit_width(order.size() - 1)) / 2;
  const std::uint64_t mask = (std::uint64_t{1} << bits) - 1;
  const auto low = [&](std::uint64_t x) { return x & mask; };
  const auto high = [&](std::uint64_t x) { return x >> bits; };
  std::vector<std::uint64_t> kinds(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::uint64_t x = order[i];
    kinds[i] = low_in_common ? (low(i) << bits | low(x)) << bits | ((high(x) - high(i)) & mask)
                             : (high(i) << bits | high(x)) << bits | ((low(x) - low(i)) & mask);
  }
  std::sort(kinds.begin(), kinds.end());
  double pairs = 0;
  double alike = 0;
  for (std::size_t i = 1; i < kinds.size(); ++i) {
    alike = kinds[i] == kinds[i - 1] ? alike + 1 : 0;
    pairs += alike;
  }
  // Of n * mask / 2 pairs of places one in n - 1 does, nearly independent of the others.
  const double mean = static_cast<double>(mask) / 2;
  return (pairs - mean) / std::sqrt(mean);
}

/// How many numbers are at their own place: about as many as orders, by Poisson's law.
inline std::size_t fixed_points(const Order& order) {
  std::size_t fixed = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    fixed += order[i] == i ? 1U : 0U;
  }
  return fixed;
}

/// How evenly things came up that each could as often as another, by how often each did:
/// chi-square.
inline double evenness(const std::vector<double>& times) {
  const auto kinds = static_cast<double>(times.size());
  const double expected = std::accumulate(times.begin(), times.end(), 0.0) / kinds;
  double sum = 0;
  for (const double count : times) {
    sum += (count - expected) * (count - expected) / expected;
  }
  return (sum - (kinds - 1)) / std::sqrt(2 * (kinds - 1));
}

/// How evenly the n! orders of `n` numbers come up among `count`. order_with(i) returns the i-th.
template <class F>
double orders_of_few(std::size_t n, std::uint64_t count, const F& order_with) {
  std::map<Order, double> known;
  for (std::uint64_t i = 0; i < count; ++i) {
    ++known[order_with(i)];
  }
  std::vector<double> times;
  for (const auto& [order, of_order] : known) {
    times.push_back(of_order);
  }
  std::size_t orders = 1;
  for (std::size_t i = 2; i <= n; ++i) {
    orders *= i;
  }
  times.resize(orders);
  return evenness(times);
}

/// How evenly the pairs of numbers below `n` come up at place 0 and `place` of `count`
/// permutations. make(i) returns the i-th.
template <class F>
double pairs_at_places(std::size_t n, std::size_t place, std::uint64_t count, const F& make) {
  std::vector<double> times(n * (n - 1));
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto permutation = make(i);
    const std::uint64_t one = permutation(0);
    const std::uint64_t other = permutation(place);
    ++times.at(one * (n - 1) + other - (other > one ? 1 : 0));
  }
  return evenness(times);
}

/// Returns how many values the low half of a number below n has in a Permutation's network: numbers
/// so far apart have it in common.
inline std::size_t lows(std::size_t n) {
  return std::size_t{1} << (static_cast<unsigned>(std::bit_width(n - 1)) + 1) / 2;
}

/// Returns whether the longer tests are asked for.
inline bool thorough() {
  const char* const asked = std::getenv("PENSTOCK_THOROUGH");
  return asked != nullptr && *asked != '\0' && *asked != '0';
}

} // namespace penstock::tests
