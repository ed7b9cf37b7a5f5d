// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/links/host_link.hpp>

#include <cstddef>
#include <cstdint>

namespace penstock::detail {

/// The groups of a slot's units: those of `each` turns that follow each other from a multiple of
/// `each` on. Units that were left out are missing in their group, and move no other.
class TurnGroups {
 public:
  TurnGroups(const HostSlot& slot, std::uint64_t each) noexcept : slot_{slot}, each_{each} {
    if (slot.units == 0) {
      return;
    }
    const std::uint64_t last = slot.source[slot.units - 1];
    none_missing_ = last - slot.source[0] == slot.units - 1;
    if (each == 1) {
      count_ = slot.units;
    } else {
      first_ = slot.source[0] / each;
      count_ = last / each - first_ + 1;
    }
  }

  std::size_t count() const noexcept { return count_; }
  /// Returns the first unit of a group; of group count(), the slot's units.
  std::size_t begin(std::size_t group) const noexcept {
    if (each_ == 1 || group == 0 || group == count_) {
      return group == count_ ? slot_.units : group;
    }
    const std::uint64_t turn = (first_ + group) * each_;
    if (none_missing_) {
      return turn - slot_.source[0];
    }
    std::size_t begin = 0;
    for (std::size_t end = slot_.units; begin != end;) {
      const std::size_t middle = begin + (end - begin) / 2;
      slot_.source[middle] < turn ? begin = middle + 1 : end = middle;
    }
    return begin;
  }
  /// Returns the turn with which a group begins.
  std::uint64_t turn(std::size_t group) const noexcept {
    return each_ == 1 ? slot_.source[group] : (first_ + group) * each_;
  }

 private:
  const HostSlot& slot_;
  const std::uint64_t each_;
  std::uint64_t first_{}; // of all the source's groups
  std::size_t count_{};
  bool none_missing_{};
};

} // namespace penstock::detail
