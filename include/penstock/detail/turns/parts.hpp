// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/ring/ring.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace penstock::detail {

/// Deals out the parts of a ring's slots to several workers, in order, and tells the last worker to
/// finish a slot that it hands the slot on. No worker waits for another here: the ring is where a
/// worker waits for its part's slot, by await_filled() and await_free().
template <class Policy = RingPolicy> class Parts {
  using Atomics = typename Policy::Atomics;
  using Number = typename Atomics::template Atomic<std::uint64_t>;

 public:
  /// Parts of the slot of `ticket`, from number `first` to before `end`.
  struct PartRange {
    std::uint64_t ticket;
    std::size_t first;
    std::size_t end;
  };

  /// Has `parts` parts in each of a ring's `slots`.
  Parts(std::size_t slots, std::size_t parts) : slots_{slots}, parts_{parts}, left_(slots) {
    reset();
  }

  std::size_t parts() const noexcept { return parts_; }
  /// Goes back to the first part of ticket 0. No other thread may be inside.
  void reset() noexcept {
    for (std::size_t i = 0; i < slots_; ++i) {
      left_[i].parts.store(parts_, Atomics::relaxed);
    }
    next_.store(0, Atomics::relaxed);
  }
  /// Draws the next parts, `count` or as many as the slot at hand has left. Each comes once.
  PartRange draw(std::uint64_t count) noexcept {
    if (parts_ == 1) {
      return {next_.fetch_add(1, Atomics::relaxed), 0, 1};
    }
    std::uint64_t at = next_.load(Atomics::relaxed);
    std::uint64_t end = 0;
    do {
      end = at + std::min(count, parts_ - at % parts_);
    } while (!next_.compare_exchange_strong(at, end, Atomics::relaxed, Atomics::relaxed));
    const std::size_t first = at % parts_;
    return {at / parts_, first, first + (end - at)};
  }
  /// Draws all parts that the slot of `ticket`, of which some were drawn, has left: perhaps none.
  PartRange draw_rest(std::uint64_t ticket) noexcept {
    const std::uint64_t end = (ticket + 1) * parts_;
    std::uint64_t at = next_.load(Atomics::relaxed);
    while (at < end &&
           !next_.compare_exchange_strong(at, end, Atomics::relaxed, Atomics::relaxed)) {
    }
    return {ticket, at < end ? at % parts_ : parts_, parts_};
  }
  /// Says that a share is done. Returns true to the thread whose share was the slot's last: it sees
  /// what the others did to the slot, and is to claim, publish, take and release it.
  bool finish(const PartRange& share) noexcept {
    const std::uint64_t done = share.end - share.first;
    if (done == parts_) {
      return true;
    }
    Number& left = left_[share.ticket % slots_].parts;
    // Pairs with itself: releases this share, and acquires the others'.
    if (left.fetch_sub(done, Atomics::acq_rel) != done) {
      return false;
    }
    // Relaxed: the slot's release hands this on to whoever works on it in the next lap.
    left.store(parts_, Atomics::relaxed);
    return true;
  }

 private:
  struct alignas(cache_line) Left {
    Number parts{0};
  };

  const std::size_t slots_;
  const std::uint64_t parts_;
  Vector<Left> left_; // by place
  alignas(cache_line) Number next_{0};
};

} // namespace penstock::detail
