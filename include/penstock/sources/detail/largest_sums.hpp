// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

namespace penstock::detail {

/// The largest of many numbers: no more than 4096 of them take memory.
class Largest {
 public:
  static constexpr std::size_t most = 4096;

  bool empty() const noexcept { return kept_.empty(); }
  /// Returns the number that another must exceed to be kept.
  std::uint64_t least() const noexcept { return kept_.size() < most ? 0 : kept_.front(); }
  void add(std::uint64_t number);
  void add(const Largest& others);
  /// Returns those that are not 0, the largest first.
  std::vector<std::uint64_t> sorted() &&;

 private:
  std::vector<std::uint64_t> kept_; // the front is the least
};

/// How many bytes the longest of many records have together: room for as many, whichever they are.
class LargestSums {
 public:
  LargestSums() = default;
  /// Takes the bytes of the longest records.
  explicit LargestSums(Largest bytes);

  /// Returns what any `records` records have together at most. Of more than 4096 it takes the rest
  /// to be as long as number 4096.
  std::uint64_t of(std::uint64_t records) const noexcept;

 private:
  std::vector<std::uint64_t> sums_;
  std::uint64_t least_{}; // 0: all records of more than 0 bytes are there
};

#if PENSTOCK_BODIES
PENSTOCK_INLINE void Largest::add(std::uint64_t number) {
  if (number > least()) {
    if (kept_.size() == most) {
      std::pop_heap(kept_.begin(), kept_.end(), std::greater<>{});
      kept_.pop_back();
    }
    kept_.push_back(number);
    std::push_heap(kept_.begin(), kept_.end(), std::greater<>{});
  }
}

PENSTOCK_INLINE void Largest::add(const Largest& others) {
  for (const std::uint64_t number : others.kept_) {
    add(number);
  }
}

PENSTOCK_INLINE std::vector<std::uint64_t> Largest::sorted() && {
  std::sort_heap(kept_.begin(), kept_.end(), std::greater<>{});
  return std::move(kept_);
}

PENSTOCK_INLINE LargestSums::LargestSums(Largest bytes) : sums_{std::move(bytes).sorted()} {
  least_ = sums_.size() < Largest::most ? 0 : sums_.back();
  std::partial_sum(sums_.begin(), sums_.end(), sums_.begin());
}

PENSTOCK_INLINE std::uint64_t LargestSums::of(std::uint64_t records) const noexcept {
  if (records == 0 || sums_.empty()) {
    return 0;
  }
  const std::uint64_t more = records > sums_.size() ? records - sums_.size() : 0;
  const std::uint64_t sum = sums_[records - more - 1];
  const bool fits = least_ == 0 || more <= (~std::uint64_t{0} - sum) / least_;
  return fits ? sum + more * least_ : ~std::uint64_t{0};
}
#endif

} // namespace penstock::detail
