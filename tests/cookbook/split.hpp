// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/order/permutation.hpp>
#include <penstock/penstock.hpp>
#include <penstock/sources/where.hpp>

#include <cstdint>
#include <utility>
#include <vector>

namespace ps = penstock;

/// Two parts of a source, each record in one of them.
template <class Source> struct Split {
  ps::Subset<Source> training;
  ps::Subset<Source> validation;
};

/// Deals the records out at random to `folds` folds, the same each time, and returns one of them
/// for validation, and all others.
template <class Source>
Split<Source> split(Source source, std::uint64_t folds, std::uint64_t fold = 0) {
  source.open();
  const ps::Permutation order{source.size(), 42, 0};
  std::vector<std::uint64_t> training;
  std::vector<std::uint64_t> validation;
  for (std::uint64_t record = 0; record != source.size(); ++record) {
    (order.inverse(record) % folds == fold ? validation : training).push_back(record);
  }
  return {ps::where(source, std::move(training)), ps::where(source, std::move(validation))};
}
