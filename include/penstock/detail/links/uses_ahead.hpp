// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/detail/turns/ahead.hpp>
#include <penstock/device/fence.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace penstock::detail {

/// Gives the credits of batches in device memory back when the device is seen done with them: the
/// consumer's thread notes what each use ends, and the device thread looks.
template <AnyDevice D> class UsesAhead {
  using Number = StdAtomics::Atomic<std::uint64_t>;

 public:
  /// Keeps the last `most` uses in mind.
  UsesAhead(Ahead<>& ahead, std::size_t most) : ahead_{ahead}, uses_(most) {}

  /// Notes, after a use was recorded, that it ends `credits`, together with what was recorded in
  /// `others` so far. Only the consumer's thread calls it.
  [[gnu::cold]] void note(std::uint64_t serial, std::uint64_t credits,
                          const Timeline<D>& others) noexcept {
    noted_ += credits;
    Use& use = uses_[serial % uses_.size()];
    use.others.store(others.was_recorded(), StdAtomics::relaxed);
    use.credits.store(noted_, StdAtomics::release); // pairs with look()
  }
  /// Gives back the credits of all uses that are over; returns true while it waits for others. Only
  /// the device thread calls it.
  [[gnu::cold]] bool look(Timeline<D>& uses, Timeline<D>& others) {
    std::uint64_t serial = uses.was_reached();
    while (uses.reached(serial + 1)) {
      ++serial;
    }
    const Use& use = uses_[serial % uses_.size()];
    // Pairs with note(): if this is what a later use in the same place noted, that one's record is
    // seen below.
    const std::uint64_t credits = use.credits.load(StdAtomics::acquire);
    const std::uint64_t other = use.others.load(StdAtomics::relaxed);
    if (uses.was_recorded() >= serial + uses_.size() || !others.reached(other)) {
      return true;
    }
    // Less, if the use is not noted yet.
    if (credits > given_) {
      ahead_.give_back(credits - std::exchange(given_, credits));
    }
    return false;
  }
  /// Forgets the last run, before the next.
  [[gnu::cold]] void reset() noexcept {
    for (Use& use : uses_) {
      use.credits.store(0, StdAtomics::relaxed);
    }
    noted_ = given_ = 0;
  }

 private:
  struct Use {
    Number credits{0}; // of all uses up to this one
    Number others{0};  // a serial
  };

  Ahead<>& ahead_;
  Vector<Use> uses_;      // by serial
  std::uint64_t noted_{}; // by the consumer's thread
  std::uint64_t given_{}; // by the device thread
};

} // namespace penstock::detail
