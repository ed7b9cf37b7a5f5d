// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/base/splitmix.hpp>
#include <penstock/order/order.hpp>
#include <penstock/order/permutation.hpp>

#include <algorithm>
#include <cstdint>

namespace penstock::detail {

/// Which record comes at which step of one epoch: a function of both, with nothing kept.
///
/// Blocks of records are shuffled. Then `window` blocks at a time are mixed, record by record.
class Sequence {
 public:
  /// Of `size` records, at least 1.
  Sequence(const Order& order, std::uint64_t size, std::uint64_t epoch) noexcept;

  /// Returns the number of the record at a step, which is less than the size.
  std::uint64_t operator()(std::uint64_t step) const noexcept {
    if (!shuffle_) {
      return step;
    }
    if (block_ == 1) {
      return blocks_(step);
    }
    std::uint64_t at = step;
    if (window_ > 1) {
      const std::uint64_t window = place_of(step) / window_;
      const std::uint64_t begin = first_of(window * window_);
      const std::uint64_t end = first_of(std::min((window + 1) * window_, blocks_.size()));
      const Permutation mixed{end - begin, mixed_seed(), window};
      at = begin + mixed(step - begin);
    }
    const std::uint64_t place = place_of(at);
    return blocks_(place) * block_ + (at - first_of(place));
  }
  /// Returns the number of the window that mixes the record at a step.
  std::uint64_t window_of(std::uint64_t step) const noexcept { return place_of(step) / window_; }
  /// Calls f(first, count) for the records of each block of a window; for none, behind the last.
  template <class F> void each_block(std::uint64_t window, F f) const {
    const std::uint64_t end = std::min((window + 1) * window_, blocks_.size());
    for (std::uint64_t place = window * window_; place < end; ++place) {
      f(blocks_(place) * block_, first_of(place + 1) - first_of(place));
    }
  }

 private:
  // The source's last block, which may be short, comes somewhere in the middle.
  std::uint64_t place_of(std::uint64_t step) const noexcept;
  // Returns the first step of the block that comes at a place.
  std::uint64_t first_of(std::uint64_t place) const noexcept;
  // Another one than the blocks', and another in each epoch.
  std::uint64_t mixed_seed() const noexcept;

  Seed shuffle_;
  std::uint64_t epoch_;
  std::uint64_t block_;
  std::uint64_t window_;
  Permutation blocks_;
  std::uint64_t lacking_{}; // records that the short block has not
  std::uint64_t short_at_{};
};

#if PENSTOCK_BODIES
PENSTOCK_INLINE Sequence::Sequence(const Order& order, std::uint64_t size,
                                   std::uint64_t epoch) noexcept
    : shuffle_{order.shuffle}, epoch_{epoch},
      block_{std::clamp<std::uint64_t>(order.block, 1, size)},
      window_{std::clamp<std::uint64_t>(order.window, 1, size)},
      blocks_{shuffle_ ? (size - 1) / block_ + 1 : 1, shuffle_.value(), epoch} {
  if (shuffle_ && block_ != 1) {
    const std::uint64_t last = blocks_.size() - 1;
    lacking_ = blocks_.size() * block_ - size;
    short_at_ = blocks_.inverse(last);
  }
}

PENSTOCK_INLINE std::uint64_t Sequence::place_of(std::uint64_t step) const noexcept {
  return step < first_of(short_at_ + 1) ? step / block_ : (step + lacking_) / block_;
}

PENSTOCK_INLINE std::uint64_t Sequence::first_of(std::uint64_t place) const noexcept {
  return place * block_ - (place > short_at_ ? lacking_ : 0);
}

PENSTOCK_INLINE std::uint64_t Sequence::mixed_seed() const noexcept {
  return splitmix(splitmix(shuffle_.value(), 1), epoch_);
}
#endif

} // namespace penstock::detail
