// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <set>
#include <utility>
#include <vector>

namespace penstock::tests {

/// Returns choices for N parameters, such that every pair of values of every two parameters stands
/// together at least once. Parameter i has `values[i]` values. Greedy and deterministic.
template <std::size_t N>
std::vector<std::array<std::size_t, N>> all_pairs(const std::array<std::size_t, N>& values) {
  using Row = std::array<std::size_t, N>;
  std::set<std::array<std::size_t, 4>> missing;
  for (std::size_t a = 0; a < N; ++a) {
    for (std::size_t b = a + 1; b < N; ++b) {
      for (std::size_t x = 0; x < values[a]; ++x) {
        for (std::size_t y = 0; y < values[b]; ++y) {
          missing.insert({a, b, x, y});
        }
      }
    }
  }
  std::vector<Row> rows;
  while (!missing.empty()) {
    // Each row begins with a missing pair; the rest is chosen to cover most other pairs.
    const auto first = *missing.begin();
    Row row{};
    std::array<bool, N> chosen{};
    row[first[0]] = first[2];
    row[first[1]] = first[3];
    chosen[first[0]] = chosen[first[1]] = true;
    for (std::size_t i = 0; i < N; ++i) {
      if (chosen[i]) {
        continue;
      }
      std::size_t best = 0;
      for (std::size_t v = 0; v < values[i]; ++v) {
        std::size_t covers = 0;
        for (std::size_t j = 0; j < N; ++j) {
          if (chosen[j]) {
            covers += i < j ? missing.count({i, j, v, row[j]}) : missing.count({j, i, row[j], v});
          }
        }
        if (v == 0 || covers > best) {
          best = covers;
          row[i] = v;
        }
      }
      chosen[i] = true;
    }
    for (std::size_t a = 0; a < N; ++a) {
      for (std::size_t b = a + 1; b < N; ++b) {
        missing.erase({a, b, row[a], row[b]});
      }
    }
    rows.push_back(row);
  }
  return rows;
}

} // namespace penstock::tests
