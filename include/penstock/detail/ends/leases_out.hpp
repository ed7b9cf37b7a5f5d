// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/detail/turns/ahead.hpp>
#include <penstock/error.hpp>
#include <penstock/lease.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace penstock::detail {

/// Refuses a stream that is to use a leased batch besides the loop's: one of another kind, or a
/// third. `other`: the second, if there is one.
[[gnu::cold]] void check_second(const StreamHandle& stream, const StreamHandle& other,
                                bool of_device);

/// The leases that are out of one ring, each at the index of its place. One thread at a time.
template <class R> class LeasesOut {
 public:
  using Take = typename R::Take;

  /// `ahead`, unless it is null, is told how many credits they keep.
  LeasesOut(R& ring, std::size_t most, Ahead<>* ahead)
      : ring_{ring}, most_{most}, ahead_{ahead}, out_(ring.slots()),
        kept_(ahead ? ring.slots() : 0) {}

  std::size_t count() const noexcept { return count_; }
  Take& at(std::uint64_t ticket) noexcept { return out_[ticket % out_.size()]; }

  /// Frees withheld places, before a run, when nothing is in use, and those of so many leases that
  /// have strayed. Throws if a lease is still out.
  [[gnu::cold]] void reset(std::size_t strays) {
    count_ -= strays;
    if (count_ != 0) {
      throw_error<Error>({"penstock: leases of an earlier loop are still held, ", count_,
                          " in all: release them before the pipeline runs again."});
    }
    credits_ = 0;
    for (Take& withheld : out_) {
      withheld.release();
    }
  }
  /// Returns whether the next batch can come while these are out.
  bool has_room() const noexcept {
    return count_ < most_ && !out_[ring_.was_taken() % out_.size()] &&
           (!ahead_ || ahead_->keep(credits_));
  }
  /// Throws if it could never come. To be called before asking for it.
  void check_next() const {
    if (count_ >= most_ || out_[ring_.was_taken() % out_.size()] || ahead_) [[unlikely]] {
      look_closer();
    }
  }
  /// Keeps a lease, whose units keep `credits`.
  Take& keep(Take taken, std::uint64_t credits) noexcept {
    ++count_;
    if (ahead_) {
      credits_ += kept_[taken.place()] = credits;
    }
    Take& place = at(taken.ticket());
    place = std::move(taken);
    return place;
  }
  void release(std::uint64_t ticket) noexcept {
    withhold(ticket);
    at(ticket).release();
  }
  /// Forgets a lease, but keeps its place from use: until it is released, or the next run.
  void withhold(std::uint64_t ticket) noexcept {
    --count_;
    if (ahead_) {
      credits_ -= kept_[at(ticket).place()];
    }
  }

 private:
  [[gnu::cold]] void look_closer() const {
    if (count_ >= most_) {
      throw_error<Error>(
          {"penstock: ", count_,
           " batches are held, as many as may be at once: release one before asking for the "
           "next, or give the stage before the loop more depth."});
    }
    const Take& place = out_[ring_.was_taken() % out_.size()];
    if (place) {
      throw_error<Error>(
          {"penstock: batch number ", place.ticket(),
           " of this run is still held, and its place is the next to be filled: release it, "
           "or give the stage before the loop more depth."});
    }
    if (ahead_ && !ahead_->keep(credits_)) {
      throw_error<Error>(
          {"penstock: the batches that are held keep ", ahead_->records(credits_), " of the ",
           ahead_->records(ahead_->most()),
           " records that the Reader may be ahead, and the next "
           "batch may need ",
           ahead_->records(ahead_->needs()),
           ": release one before asking for the next, or give the Reader more .ahead."});
    }
  }

  R& ring_;
  const std::size_t most_;
  Ahead<>* const ahead_;
  Vector<Take> out_;
  std::size_t count_{};
  std::uint64_t credits_{};    // of all that are out
  Vector<std::uint64_t> kept_; // of each, by place; none without `ahead`
};

#if PENSTOCK_BODIES
PENSTOCK_INLINE void check_second(const StreamHandle& stream, const StreamHandle& other,
                                  bool of_device) {
  if (!of_device) {
    throw OptionError{"penstock: used_on() was given a stream of another device's kind."};
  }
  if (other && other.stream != stream.stream) {
    throw OptionError{"penstock: used_on() was given a third stream: let one of them wait for an "
                      "event of the other."};
  }
}
#endif

} // namespace penstock::detail
