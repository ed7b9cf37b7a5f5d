// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#include <algorithm>
#include <bit>
#include <cstdint>

namespace penstock::detail {

/// How many units each slot of an epoch gets, where slots begin small and grow: the first batch is
/// then there soon, and many workers find slots. A fixed schedule and no clock, so that equal runs
/// have equal slots: `same` slots of `first` units, as many of twice that, and on, while a slot
/// holds as many; then slots of the usual size.
class Ramp {
 public:
  /// Has slots of the usual size only.
  explicit Ramp(std::uint64_t usual) : Ramp{usual, usual, 0} {}
  /// `usual`: units of a full slot. All are at least 1, but for `same`.
  Ramp(std::uint64_t usual, std::uint64_t first, std::uint64_t same);

  /// Returns how many slots are of no usual size.
  std::uint64_t slots() const noexcept { return same_ * steps_; }
  /// Returns the first unit of a slot.
  std::uint64_t begin(std::uint64_t slot) const noexcept;
  /// Returns how many units a slot has, if the epoch has so many more.
  std::uint64_t size(std::uint64_t slot) const noexcept;
  /// Returns how many slots `units` units fill, the last perhaps in part.
  std::uint64_t slots_of(std::uint64_t units) const noexcept;

 private:
  static std::uint64_t ceil(std::uint64_t units, std::uint64_t each) noexcept;

  std::uint64_t usual_;
  std::uint64_t first_;
  std::uint64_t same_;
  unsigned steps_; // sizes below the usual one
};

#if PENSTOCK_BODIES
PENSTOCK_INLINE Ramp::Ramp(std::uint64_t usual, std::uint64_t first, std::uint64_t same)
    : usual_{usual}, first_{std::min(first, usual)}, same_{same},
      steps_{same == 0 ? 0U : static_cast<unsigned>(std::bit_width((usual - 1) / first_))} {}

PENSTOCK_INLINE std::uint64_t Ramp::begin(std::uint64_t slot) const noexcept {
  const std::uint64_t small = std::min(slot, slots());
  const std::uint64_t step = same_ == 0 ? 0 : small / same_;
  const std::uint64_t before = ((first_ << step) - first_) * same_;
  return before + (small - step * same_) * (first_ << step) + (slot - small) * usual_;
}

PENSTOCK_INLINE std::uint64_t Ramp::size(std::uint64_t slot) const noexcept {
  return slot < slots() ? first_ << slot / same_ : usual_;
}

PENSTOCK_INLINE std::uint64_t Ramp::slots_of(std::uint64_t units) const noexcept {
  for (unsigned step = 0; step != steps_; ++step) {
    const std::uint64_t each = first_ << step;
    if (units / each < same_) {
      return step * same_ + ceil(units, each);
    }
    units -= each * same_;
  }
  return slots() + ceil(units, usual_);
}

PENSTOCK_INLINE std::uint64_t Ramp::ceil(std::uint64_t units, std::uint64_t each) noexcept {
  return units / each + (units % each != 0 ? 1 : 0);
}
#endif

} // namespace penstock::detail
