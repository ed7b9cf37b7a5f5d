// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/throwing.hpp>
#include <penstock/detail/links/ramp.hpp>
#include <penstock/sources/source.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace penstock::detail {

/// Which units of its source each slot of a Reader holds.
class SlotRanges {
 public:
  /// Units of one epoch.
  struct Range {
    std::uint64_t epoch;
    std::uint64_t first;
    std::size_t units;
  };

  /// Deals out `in_all` units, which are the whole source `times` times, or go to its end if
  /// `in_all` is unknown_size, in slots of `usual` units. The first epoch has slots as `ramp` says.
  /// `drop_last`: an epoch's last slot is read, and left out if it is short.
  SlotRanges(std::uint64_t in_all, std::uint64_t times, std::size_t usual, const Ramp& ramp,
             bool drop_last)
      : known_{in_all != unknown_size}, units_{known_ ? in_all / times : unknown_size},
        epochs_{times}, usual_{usual}, drop_last_{drop_last}, ramp_{ramp} {
    if (known_) {
      first_epoch_ = ramp_.slots_of(units_);
      per_epoch_ = Ramp{usual}.slots_of(units_);
      slots_ = first_epoch_ + per_epoch_ * (times - 1);
    }
  }

  bool known() const noexcept { return known_; }
  /// Returns the units of an epoch, or unknown_size; how many epochs; and how many slots a run has,
  /// if it is known.
  /// @{
  std::uint64_t units() const noexcept { return units_; }
  std::uint64_t epochs() const noexcept { return epochs_; }
  std::uint64_t slots() const noexcept { return slots_; }
  /// @}
  /// Returns what a slot holds, at most if the source's size is unknown.
  Range of(std::uint64_t slot) const noexcept {
    if (!known_ || slot < first_epoch_) {
      return range(0, ramp_.begin(slot), ramp_.size(slot));
    }
    const std::uint64_t later = slot - first_epoch_;
    return range(1 + later / per_epoch_, later % per_epoch_ * usual_, usual_);
  }
  /// Returns how many of the units that were read into a slot go on with it.
  std::size_t kept(std::size_t units, bool ends_epoch) const noexcept {
    return drop_last_ && ends_epoch && units < usual_ ? 0 : units;
  }
  /// Returns how many units a slot that begins as `next` does may hold.
  std::uint64_t most(std::uint64_t slot, const Range& next) const noexcept {
    return range(next.epoch, next.first, next.epoch == 0 ? ramp_.size(slot) : usual_).units;
  }
  /// Returns the number of a range's first unit in a run.
  std::uint64_t index(const Range& range) const noexcept {
    return known_ ? range.epoch * units_ + range.first : range.first;
  }

 private:
  Range range(std::uint64_t epoch, std::uint64_t first, std::uint64_t most) const noexcept {
    return {epoch, first, static_cast<std::size_t>(std::min(units_ - first, most))};
  }

  const bool known_;
  const std::uint64_t units_;
  const std::uint64_t epochs_;
  const std::size_t usual_;
  const bool drop_last_;
  const Ramp ramp_;
  std::uint64_t first_epoch_{}; // slots in it
  std::uint64_t per_epoch_{};   // slots in each later one
  std::uint64_t slots_{};
};

/// Throws SourceError if a source gave more records than it was asked for, or fewer although its
/// size is `known`.
inline void check_count(std::size_t got, std::size_t wanted, std::uint64_t first, bool known) {
  if (got > wanted || (known && got < wanted)) {
    throw_source_error({"penstock: the source gave ", got, " records where it has ", wanted,
                        ": its size() and its read() disagree."},
                       {}, 0, first + std::min(got, wanted));
  }
}

} // namespace penstock::detail
