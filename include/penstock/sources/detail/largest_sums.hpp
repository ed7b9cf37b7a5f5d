// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace penstock::detail {

/// How many bytes the longest of many records have together: room for as many, whichever they are.
class LargestSums {
 public:
  LargestSums() = default;
  /// Takes the bytes of each record.
  explicit LargestSums(std::vector<std::uint64_t> bytes) {
    const std::size_t some = std::min(most, bytes.size());
    const auto end = bytes.begin() + static_cast<std::ptrdiff_t>(some);
    std::partial_sort(bytes.begin(), end, bytes.end(), std::greater<>{});
    std::uint64_t sum = 0;
    for (auto at = bytes.begin(); at != end; ++at) {
      sums_.push_back(sum += *at);
      least_ = *at;
    }
  }

  /// Returns what any `records` records have together at most. Of more than 4096 it takes the rest
  /// to be as long as number 4096.
  std::uint64_t of(std::uint64_t records) const noexcept {
    if (records == 0 || sums_.empty()) {
      return 0;
    }
    const std::uint64_t more = records > sums_.size() ? records - sums_.size() : 0;
    const std::uint64_t sum = sums_[records - more - 1];
    const bool fits = least_ == 0 || more <= (~std::uint64_t{0} - sum) / least_;
    return sums_.size() < most ? sum : fits ? sum + more * least_ : ~std::uint64_t{0};
  }

 private:
  static constexpr std::size_t most = 4096;

  std::vector<std::uint64_t> sums_;
  std::uint64_t least_{};
};

} // namespace penstock::detail
