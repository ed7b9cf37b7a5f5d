// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/detail/links/host_link.hpp>
#include <penstock/error.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace penstock::detail {

/// Which units go into which batch, where several ranks must have equally many batches although
/// records may be left out: batch k of an epoch has what is left of `units` turns from turn
/// k * units on, and is shorter if any were left out.
class BatchesByTurn {
 public:
  [[gnu::cold]] BatchesByTurn(const HostLink& in, std::size_t units) : in_{in}, units_{units} {}

  /// Begins a run.
  [[gnu::cold]] void reset() noexcept;
  /// Returns whether a slot's unit goes into the batch that was begun last.
  [[gnu::cold]] bool goes_on(const HostSlot& slot, std::size_t at) const noexcept;
  /// Begins the batch that a slot's unit goes into. Throws Error if one before it was left out.
  [[gnu::cold]] void begin(const HostSlot& slot, std::size_t at);
  /// Returns how many of a slot's units from `at` on, of at most `most`, go into its batch.
  [[gnu::cold]] std::size_t together(const HostSlot& slot, std::size_t at,
                                     std::size_t most) const noexcept;
  /// To be called when there are no more units. Throws Error if a batch was left out.
  [[gnu::cold]] void end();

 private:
  const RunOrder& order() const noexcept { return *in_.order; }
  std::uint64_t first_turn() const noexcept;
  std::uint64_t batch_of(const HostSlot& slot, std::size_t at) const noexcept;
  std::uint64_t batches() const noexcept;
  void check(std::uint64_t before) const;

  const HostLink& in_;
  const std::uint64_t units_;
  std::uint64_t epoch_{};
  std::uint64_t begun_{}; // batches of that epoch
};

#if PENSTOCK_BODIES
PENSTOCK_INLINE void BatchesByTurn::reset() noexcept {
  epoch_ = order().first_epoch();
  begun_ = 0;
}

PENSTOCK_INLINE bool BatchesByTurn::goes_on(const HostSlot& slot, std::size_t at) const noexcept {
  return begun_ != 0 && slot.epoch == epoch_ && batch_of(slot, at) + 1 == begun_;
}

PENSTOCK_INLINE void BatchesByTurn::begin(const HostSlot& slot, std::size_t at) {
  for (; epoch_ != slot.epoch; ++epoch_, begun_ = 0) {
    check(batches());
  }
  const std::uint64_t batch = batch_of(slot, at);
  check(batch);
  begun_ = batch + 1;
}

PENSTOCK_INLINE std::size_t BatchesByTurn::together(const HostSlot& slot, std::size_t at,
                                                    std::size_t most) const noexcept {
  std::size_t count = 0;
  while (count != most && batch_of(slot, at + count) + 1 == begun_) {
    ++count;
  }
  return count;
}

PENSTOCK_INLINE void BatchesByTurn::end() {
  for (; epoch_ < order().epochs(); ++epoch_, begun_ = 0) {
    check(batches());
  }
}

PENSTOCK_INLINE std::uint64_t BatchesByTurn::first_turn() const noexcept {
  return epoch_ == order().first_epoch() ? order().first_turn() : 0;
}

PENSTOCK_INLINE std::uint64_t BatchesByTurn::batch_of(const HostSlot& slot,
                                                      std::size_t at) const noexcept {
  const std::uint64_t first = slot.epoch == order().first_epoch() ? order().first_turn() : 0;
  return (slot.source[at] - first * in_.layout().units_a_record) / units_;
}

PENSTOCK_INLINE std::uint64_t BatchesByTurn::batches() const noexcept {
  const bool first = epoch_ == order().first_epoch();
  const std::uint64_t turns = (first ? order().end_turn() : order().turns()) - first_turn();
  return (turns * in_.layout().units_a_record + units_ - 1) / units_;
}

PENSTOCK_INLINE void BatchesByTurn::check(std::uint64_t before) const {
  if (begun_ < before) {
    throw_error<Error>({"penstock: all records of batch ", begun_, " of epoch ", epoch_,
                        " were left out, and each of several ranks must have equally many "
                        "batches: mend what left them out, or take larger batches."});
  }
}
#endif

} // namespace penstock::detail
