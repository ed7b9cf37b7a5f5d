// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#include <cstdint>

namespace penstock::detail {

/// The batches that `.drop_last` leaves whole, as the stages of a chain say of them in turn. A run
/// that goes on must begin as far inside one as the run before it stood.
class WholeBatches {
 public:
  /// Says that a stage leaves out short batches of `records`. `by_turns`: each turn of the order
  /// has one record in them, so that a place in the order tells how far inside one it is.
  void leave_out_short(std::uint64_t records, bool by_turns) noexcept;
  /// Says that a stage makes batches of `records` of those that came.
  void make_others(std::uint64_t records) noexcept;

  /// Returns whether no stage so far leaves out any.
  bool none() const noexcept { return records_ == 0; }
  /// Returns how many records the first such stage's batches have, if places tell how far inside
  /// one they are; else 0.
  std::uint64_t by_turns() const noexcept { return by_turns_ ? records_ : 0; }
  /// Returns whether the last stage's batches may end inside one, and nothing tells where.
  bool unknown() const noexcept { return inside_ && !by_turns_; }

 private:
  std::uint64_t records_{}; // of the first stage that leaves out short ones
  std::uint64_t last_{};    // of the batches of the last
  bool by_turns_{};
  bool inside_{}; // the last stage's batches may end inside the first's
  bool again_{};  // a second stage leaves out short ones
};

#if PENSTOCK_BODIES
PENSTOCK_INLINE void WholeBatches::leave_out_short(std::uint64_t records, bool by_turns) noexcept {
  inside_ = again_ = records_ != 0;
  by_turns_ = records_ != 0 ? by_turns_ : by_turns;
  records_ = records_ != 0 ? records_ : records;
  last_ = records;
}

PENSTOCK_INLINE void WholeBatches::make_others(std::uint64_t records) noexcept {
  if (records_ != 0 && records != last_) {
    by_turns_ = by_turns_ && !again_;
    inside_ = true;
    last_ = records;
  }
}
#endif

} // namespace penstock::detail
