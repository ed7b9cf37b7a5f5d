// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/ring/ring.hpp>

#include <cstddef>
#include <cstdint>

namespace penstock::detail {

/// Runs work in the order of its tickets, one piece after the other, although several threads bring
/// it out of order. Nobody waits: a thread that comes too early leaves its ticket behind, and the
/// thread that brings the ticket before does both. At most `places` tickets are open at a time, as
/// of a ring with as many slots.
template <class Policy = RingPolicy> class Sequencer {
  using Atomics = typename Policy::Atomics;
  enum class Stand : std::uint8_t {
    empty,
    due, // all before it is done, and no thread is at it
    here // the thread that brought it was too early
  };

 public:
  explicit Sequencer(std::size_t places) : count_{places}, places_(places) { reset(); }

  /// Makes ticket 0 the next. No other thread may be inside.
  void reset() noexcept {
    for (std::size_t i = 0; i < count_; ++i) {
      places_[i].place.store(i == 0 ? Stand::due : Stand::empty, Atomics::relaxed);
    }
  }
  /// Brings a ticket, each once. If those before it are done, calls f(place) for it and for those
  /// after it that are here. f sees what was done before, by whichever thread, and may let the
  /// ticket come that has the same place in the next lap.
  template <class F> void bring(std::uint64_t ticket, F f) noexcept {
    std::size_t at = ticket % count_;
    // Pairs with the exchange below, both ways: of a thread that is too early it releases what that
    // did, to whoever does it; else it acquires what was done before.
    if (places_[at].place.exchange(Stand::here, Atomics::acq_rel) != Stand::due) {
      return;
    }
    do {
      places_[at].place.store(Stand::empty, Atomics::relaxed);
      f(at);
      at = at + 1 == count_ ? 0 : at + 1;
      // Pairs with the exchange above.
    } while (places_[at].place.exchange(Stand::due, Atomics::acq_rel) == Stand::here);
  }

 private:
  struct alignas(cache_line) Line {
    typename Atomics::template Atomic<Stand> place{Stand::empty};
  };

  const std::size_t count_;
  Vector<Line> places_;
};

} // namespace penstock::detail
