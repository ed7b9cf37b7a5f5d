// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/ring/detail/mpmc_ring.hpp>
#include <penstock/ring/detail/spsc_ring.hpp>
#include <penstock/ring/ring_types.hpp>

#include <cstddef>
#include <type_traits>

namespace penstock::detail {

/// A ring's slots, in one of two forms: for one thread on each side, or for many on one of them. A
/// form that the ring is known never to have costs nothing.
template <class Slot, class Policy, RingKind Kind> class RingSlots {
 public:
  static constexpr bool maybe_one = Kind != RingKind::with_many; // to one
  static constexpr bool maybe_many = Kind != RingKind::one_to_one;

  RingSlots(std::size_t slots, Side claimers, Side takers)
      : one_to_one_{!maybe_many || (maybe_one && claimers == Side::one && takers == Side::one)},
        spsc_{one_to_one_ ? slots : 0}, mpmc_{one_to_one_ ? 0 : slots, claimers, takers} {}

  /// Calls f with the slots, in the form that they have.
  /// @{
  template <class F> decltype(auto) with(F f) { return with(*this, f); }
  template <class F> decltype(auto) with(F f) const { return with(*this, f); }
  /// @}
  /// Return the slots in one form: that for one to one has no slots if the ring has many, and in
  /// the other form only many may be asked for.
  /// @{
  SpscRing<Slot, Policy>& one() noexcept { return spsc_; }
  MpmcRing<Slot, Policy>& many() noexcept { return mpmc_; }
  /// @}

 private:
  struct Absent {
    explicit Absent(std::size_t /*slots*/, Side = {}, Side = {}) noexcept {}
  };

  template <class Self, class F> static decltype(auto) with(Self& self, F& f) {
    if constexpr (!maybe_many) {
      return f(self.spsc_);
    } else if constexpr (!maybe_one) {
      return f(self.mpmc_);
    } else {
      return self.one_to_one_ ? f(self.spsc_) : f(self.mpmc_);
    }
  }

  const bool one_to_one_;
  [[no_unique_address]] std::conditional_t<maybe_one, SpscRing<Slot, Policy>, Absent> spsc_;
  [[no_unique_address]] std::conditional_t<maybe_many, MpmcRing<Slot, Policy>, Absent> mpmc_;
};

} // namespace penstock::detail
