// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/detail/turns/sequencer.hpp>
#include <penstock/ring/ring.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace penstock::detail {

/// Up to which place in the run's order all was used up. One thread says so; any thread may ask,
/// and then sees what was done to all before it.
template <class Policy = RingPolicy> class UsedUp {
  using Atomics = typename Policy::Atomics;

 public:
  /// Returns the place.
  std::uint64_t place() const noexcept {
    return place_.load(Atomics::acquire); // pairs with set()
  }
  void set(std::uint64_t place) noexcept {
    place_.store(place, Atomics::release); // pairs with place()
  }

 private:
  typename Atomics::template Atomic<std::uint64_t> place_{0};
};

/// Finds that place where several workers finish slots in any order: behind the slots before which
/// none is open.
template <class Policy = RingPolicy> class UsedInTurn {
 public:
  /// Of a ring of so many slots; tells `all`.
  UsedInTurn(std::size_t slots, UsedUp<Policy>& all)
      : all_{all}, turns_{slots}, behind_(slots, std::uint64_t{0}) {}

  /// Forgets the last run. No other thread may be inside.
  void reset() noexcept {
    turns_.reset();
    last_ = next_ = 0;
  }
  /// Says that the slot of a ticket is used up, each once. `behind`: the place behind its last
  /// unit; 0 if it has none. Calls give_back(ticket) for it and those after it whose turn has come:
  /// a slot that went back before would be noted again while its first note is still to be read.
  template <class F> void note(std::uint64_t ticket, std::uint64_t behind, F give_back) noexcept {
    behind_[ticket % behind_.size()] = behind;
    turns_.bring(ticket, [&](std::size_t at) {
      last_ = std::max(last_, behind_[at]);
      all_.set(last_);
      give_back(next_++);
    });
  }

 private:
  UsedUp<Policy>& all_;
  Sequencer<Policy> turns_;
  Vector<std::uint64_t> behind_; // by the slot's place in the ring
  // Only the thread whose turn it is touches these.
  std::uint64_t last_{};
  std::uint64_t next_{}; // the ticket that is due
};

} // namespace penstock::detail
