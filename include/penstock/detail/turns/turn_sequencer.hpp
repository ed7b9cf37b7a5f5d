// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/detail/turns/changes.hpp>
#include <penstock/ring/ring.hpp>

#include <cstddef>
#include <cstdint>

namespace penstock::detail {

/// Lets workers go one after the other, in the order of their numbers. Each sleeps in a place of
/// its number's own, so that a turn wakes one of them and not all. Numbers may be left out: the
/// worker that has a turn says which number is next.
template <class Policy = RingPolicy> class TurnSequencer {
  using Atomics = typename Policy::Atomics;

 public:
  /// For so many workers, at least 1.
  [[gnu::cold]] explicit TurnSequencer(std::size_t workers) : places_(workers) {}

  /// Gives number 0 the turn. No other thread may be inside.
  [[gnu::cold]] void reset() noexcept {
    turn_.store(0, Atomics::relaxed);
    for (std::size_t i = 0; i != places_.size(); ++i) {
      places_[i].changes.reopen();
    }
  }
  /// Ends them: nobody gets a turn any more. Async-signal-safe.
  [[gnu::cold]] void stop() noexcept {
    for (std::size_t i = 0; i != places_.size(); ++i) {
      places_[i].changes.close();
    }
  }
  /// Returns whether it is a number's turn. A worker that has the turn sees what was done in the
  /// turns before.
  bool is(std::uint64_t number) const noexcept {
    return turn_.load(Atomics::acquire) == number; // pairs with pass()
  }
  /// Blocks until it is a number's turn, and returns true; false if they were ended.
  bool await(std::uint64_t number) noexcept {
    return place_of(number).await([&] { return is(number); });
  }
  /// Ends a turn; that of `next` begins. Never blocks.
  void pass(std::uint64_t next) noexcept {
    turn_.store(next, Atomics::release); // pairs with is()
    place_of(next).tell();
  }

 private:
  struct alignas(cache_line) Waiting {
    Changes<Policy> changes;
  };

  // Numbers that wait at a time may have any distance from each other: a hash spreads them all.
  Changes<Policy>& place_of(std::uint64_t number) noexcept {
    return places_[(number * 0x9e3779b97f4a7c15U >> 32U) % places_.size()].changes;
  }

  alignas(cache_line) typename Atomics::template Atomic<std::uint64_t> turn_{0};
  Vector<Waiting> places_;
};

} // namespace penstock::detail
