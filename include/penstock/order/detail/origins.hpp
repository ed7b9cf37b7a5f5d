// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/ring/ring.hpp>

#include <cstddef>
#include <cstdint>

namespace penstock::detail {

/// From where in its run's order a Decoder made which of its outputs: a list of places, each with
/// the number of the first output behind it. One thread at a time notes them, in order; any thread
/// asks. Its memory is fixed: of places long ago it keeps fewer and fewer, and one that it forgot
/// is told by one before it and more outputs.
template <class Policy = RingPolicy> class OutputLog {
  using Atomics = typename Policy::Atomics;
  using Number = typename Atomics::template Atomic<std::uint64_t>;

 public:
  /// A place in the order, and how many of the outputs made from there on come before another.
  struct Origin {
    std::uint64_t place;
    std::uint64_t made;
  };

  /// Keeps at most so many places, a multiple of 4.
  explicit OutputLog(std::size_t most = 4096) : list_(most) { reset(0); }

  /// Begins a run, whose first `dropped` outputs an earlier run has given. No other thread may be
  /// inside.
  [[gnu::cold]] void reset(std::uint64_t dropped) noexcept {
    dropped_ = dropped;
    set(0, 0, 0);
    count_.store(1, Atomics::relaxed);
  }
  /// Says that output number `output`, and those after it, are made from this place on.
  void note(std::uint64_t output, std::uint64_t place) noexcept {
    const std::uint64_t version = version_.load(Atomics::relaxed);
    version_.store(version + 1, Atomics::relaxed);
    std::uint64_t count = count_.load(Atomics::relaxed);
    if (list_[count - 1].output.load(Atomics::relaxed) == output) {
      --count; // nothing was made from there
    } else if (count == list_.size()) {
      count = thin_out();
    }
    set(count, output, place);
    count_.store(count + 1, Atomics::relaxed);
    version_.store(version + 2, Atomics::release); // pairs with origin()
  }
  /// Returns where what follows the first `outputs` comes from. Waits while note() runs.
  Origin origin(std::uint64_t outputs) const noexcept {
    outputs = outputs < dropped_ ? dropped_ : outputs;
    for (;;) {
      const std::uint64_t version = version_.load(Atomics::acquire); // pairs with note()
      if (version % 2 == 0) {
        const Origin found = search(outputs);
        if (version_.load(Atomics::relaxed) == version) {
          return found;
        }
      }
      Policy::Parking::pause();
    }
  }

 private:
  struct Entry {
    Number output{0};
    Number place{0};
  };

  // Pairs with search(): who sees what was stored after the version became odd does not see it
  // even, as it was.
  void set(std::size_t at, std::uint64_t output, std::uint64_t place) noexcept {
    list_[at].output.store(output, Atomics::release);
    list_[at].place.store(place, Atomics::release);
  }
  // Forgets every second place of the older half. Returns how many are left.
  [[gnu::cold]] std::size_t thin_out() noexcept {
    const std::size_t quarter = list_.size() / 4;
    for (std::size_t at = 1; at != 3 * quarter; ++at) {
      const Entry& kept = list_[at < quarter ? 2 * at : at + quarter];
      set(at, kept.output.load(Atomics::relaxed), kept.place.load(Atomics::relaxed));
    }
    return 3 * quarter;
  }
  // Any one with as many outputs or fewer is true, and what was seen here only becomes newer.
  Origin search(std::uint64_t outputs) const noexcept {
    std::size_t first = 0;
    for (std::size_t end = count_.load(Atomics::relaxed); end - first > 1;) {
      const std::size_t middle = first + (end - first) / 2;
      if (list_[middle].output.load(Atomics::relaxed) <= outputs) {
        first = middle;
      } else {
        end = middle;
      }
    }
    // Both pair with set().
    const std::uint64_t before = list_[first].output.load(Atomics::acquire);
    return {list_[first].place.load(Atomics::acquire), outputs - before};
  }

  std::uint64_t dropped_{};
  Vector<Entry> list_;
  Number count_{0};
  Number version_{0}; // odd while note() runs
};

} // namespace penstock::detail
