// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/row.hpp>
#include <penstock/detail/base/throwing.hpp>
#include <penstock/error.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace penstock::detail {

/// The leases that are out of one ring, each at the index of its place. One thread at a time.
template <class R> class LeasesOut {
 public:
  using Take = typename R::Take;

  LeasesOut(R& ring, std::size_t most) : ring_{ring}, most_{most}, out_(ring.slots()) {}

  std::size_t count() const noexcept { return count_; }
  Take& at(std::uint64_t ticket) noexcept { return out_[ticket % out_.size()]; }

  /// Frees withheld places, before a run, when nothing is in use. Throws if a lease is still out.
  [[gnu::cold]] void reset() {
    if (count_ != 0) {
      throw_error<Error>(
          {"penstock: ", count_,
           " batches of an earlier loop are still held: release their leases before the "
           "pipeline runs again."});
    }
    for (Take& withheld : out_) {
      withheld.release();
    }
  }
  /// Throws if the next batch could never come. To be called before asking for it.
  void check_next() const {
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
  }
  Take& keep(Take taken) noexcept {
    ++count_;
    Take& place = at(taken.ticket());
    place = std::move(taken);
    return place;
  }
  void release(std::uint64_t ticket) noexcept {
    at(ticket).release();
    --count_;
  }
  /// Forgets a lease, but keeps its place from use until the next run.
  void withhold() noexcept { --count_; }

 private:
  R& ring_;
  const std::size_t most_;
  Row<Take> out_;
  std::size_t count_{};
};

} // namespace penstock::detail
