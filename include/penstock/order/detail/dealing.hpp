// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/order/order.hpp>

#include <algorithm>
#include <cstdint>

namespace penstock::detail {

/// Deals the steps of an epoch, from `begin` to before `end`, out to ranks, in rounds: each rank
/// takes a block of steps in turn. What is left after the last whole round is one more round, of
/// the largest blocks that it has, and behind these one step a rank, as far as there are any: then
/// what becomes of the uneven ones changes no other step of a round that is begun.
///
///   7 steps, 2 ranks, blocks of 2     0 0 1 1 | 0 1 and one uneven
class Dealing {
 public:
  /// `block` is at least 1.
  Dealing(std::uint64_t begin, std::uint64_t end, std::uint64_t block, const Ranks& ranks,
          Uneven uneven) noexcept;

  /// Returns how many steps this rank has, and the most that a rank has.
  /// @{
  std::uint64_t count() const noexcept { return in_rounds_ + last_; }
  std::uint64_t most() const noexcept { return in_rounds_ + most_last_; }
  /// @}
  std::uint64_t begin() const noexcept { return begin_; }
  /// Returns this rank's i-th step.
  std::uint64_t step(std::uint64_t i) const noexcept;

  /// Where all ranks stand that took `i` steps each, fewer than most(): behind which step, and how
  /// many of the block after it.
  struct Dealt {
    std::uint64_t step;
    std::uint64_t inside;
  };
  Dealt place(std::uint64_t i) const noexcept;
  /// Returns the step at which all ranks stand between blocks again, after place(i).
  std::uint64_t next_round(std::uint64_t i) const noexcept;

 private:
  std::uint64_t begin_;
  std::uint64_t end_;
  std::uint64_t rank_;
  std::uint64_t world_;
  std::uint64_t block_;
  std::uint64_t in_rounds_;  // of this rank's steps, those in whole rounds
  std::uint64_t last_round_; // its first step
  std::uint64_t last_;       // of this rank's steps, those in it
  std::uint64_t most_last_;  // of any rank's
  std::uint64_t each_last_;  // of every rank's, but for the uneven ones
};

#if PENSTOCK_BODIES
PENSTOCK_INLINE Dealing::Dealing(std::uint64_t begin, std::uint64_t end, std::uint64_t block,
                                 const Ranks& ranks, Uneven uneven) noexcept
    : begin_{begin}, end_{end}, rank_{ranks.rank}, world_{ranks.world}, block_{block} {
  const std::uint64_t rounds = (end - begin) / world_ / block_;
  in_rounds_ = rounds * block_;
  last_round_ = begin + rounds * block_ * world_;
  const std::uint64_t rest = end - last_round_;
  each_last_ = rest / world_;
  const std::uint64_t uneven_ones = rest % world_;
  const bool one_more =
      uneven == Uneven::repeat ? uneven_ones != 0 : uneven == Uneven::keep && rank_ < uneven_ones;
  last_ = each_last_ + (one_more ? 1 : 0);
  most_last_ = each_last_ + (uneven != Uneven::drop && uneven_ones != 0 ? 1 : 0);
}

PENSTOCK_INLINE std::uint64_t Dealing::step(std::uint64_t i) const noexcept {
  if (i < in_rounds_) {
    return begin_ + i / block_ * block_ * world_ + rank_ * block_ + i % block_;
  }
  const std::uint64_t in_last = i - in_rounds_;
  const std::uint64_t step = last_round_ + (in_last < each_last_ ? each_last_ * rank_ + in_last
                                                                 : each_last_ * world_ + rank_);
  return step < end_ ? step : (step - end_) % end_;
}

PENSTOCK_INLINE Dealing::Dealt Dealing::place(std::uint64_t i) const noexcept {
  if (world_ == 1) {
    return {begin_ + i, 0};
  }
  if (i < in_rounds_) {
    return {begin_ + i / block_ * block_ * world_, i % block_};
  }
  return {last_round_, i - in_rounds_};
}

PENSTOCK_INLINE std::uint64_t Dealing::next_round(std::uint64_t i) const noexcept {
  return i < in_rounds_ ? begin_ + (i / block_ + 1) * block_ * world_ : end_;
}
#endif

} // namespace penstock::detail
