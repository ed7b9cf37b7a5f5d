// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/detail/turns/changes.hpp>
#include <penstock/detail/turns/turn_sequencer.hpp>
#include <penstock/ring/ring.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace penstock::detail {

/// How far a Reader is ahead of the last stage: it takes a credit for each unit before it reads it,
/// and the last stage, or one that leaves the unit out, gives the credit back. Its workers take
/// credits in turn, in the order of their tickets; the others wait. Any thread gives back.
template <class Policy = RingPolicy> class Ahead {
  using Atomics = typename Policy::Atomics;
  using Number = typename Atomics::template Atomic<std::uint64_t>;

 public:
  /// `most` units, each record being `units_a_record` of them, may be out at once. For a Reader of
  /// so many workers.
  explicit Ahead(std::uint64_t most, std::uint64_t units_a_record = 1, std::size_t workers = 1)
      : most_{most}, units_a_record_{units_a_record}, turns_{workers} {
    reset();
  }

  /// Says, before the first run, how many credits a batch of the last stage may take to come: so
  /// many that stages which fill batches never keep all of them.
  void needs(std::uint64_t credits) noexcept {
    needs_ = credits;
    reset();
  }
  std::uint64_t needs() const noexcept { return needs_; }
  std::uint64_t most() const noexcept { return most_; }
  /// Returns how many records so many credits are.
  std::uint64_t records(std::uint64_t credits) const noexcept { return credits / units_a_record_; }

  /// Adds, before the first run, a bell to ring when is_short() becomes true.
  void on_short(Doorbell<Policy>* bell) { bells_.push_back(bell); }
  /// Returns whether a worker waits for credits. Any thread.
  bool is_short() const noexcept { return short_.load(Atomics::relaxed) != 0; }

  /// Has all credits, and the turn of ticket 0. No other thread may be inside.
  [[gnu::cold]] void reset() noexcept {
    left_.store(most_, Atomics::relaxed);
    spare_.store(spare(0), Atomics::relaxed);
    turns_.reset();
    short_.store(0, Atomics::relaxed);
    changes_.reopen();
  }
  /// End it: nobody takes any more. Async-signal-safe.
  /// @{
  [[gnu::cold]] void stop() noexcept {
    turns_.stop();
    changes_.close();
  }
  void fail() noexcept { stop(); }
  /// @}

  /// Blocks until it is a ticket's turn, and returns true; false if it was ended.
  [[gnu::cold]] bool await_turn(std::uint64_t ticket) noexcept { return turns_.await(ticket); }
  /// In its turn, takes `wanted` credits; or fewer, at least one, if it is not `whole` and others
  /// may wait for more than are left. Blocks until there are as many. Returns 0 if it was ended.
  [[gnu::cold]] std::uint64_t take(std::uint64_t wanted, bool whole) noexcept {
    std::uint64_t taken = 0;
    const bool there = changes_.await([&] {
      const std::uint64_t least = whole ? wanted : std::min(wanted, spare_.load(Atomics::relaxed));
      // Pairs with give_back(): what is read now comes after what was used up.
      taken = std::min(left_.load(Atomics::acquire), wanted);
      tell_short(taken < least);
      return taken >= least;
    });
    if (there) {
      left_.fetch_sub(taken, Atomics::relaxed);
    }
    return there ? taken : 0;
  }
  /// Ends a turn; the next ticket's begins.
  [[gnu::cold]] void pass(std::uint64_t ticket) noexcept { turns_.pass(ticket + 1); }

  /// Gives credits back. Never blocks.
  void give_back(std::uint64_t credits) noexcept {
    if (credits != 0) {
      left_.fetch_add(credits, Atomics::release); // pairs with take()
      changes_.tell();
    }
  }
  /// Says that the application's loop keeps so many credits in leases while it asks for the next
  /// batch. Returns whether enough are left for one. One thread.
  [[gnu::cold]] bool keep(std::uint64_t credits) noexcept {
    if (credits + needs_ > most_) {
      return false;
    }
    if (spare_.load(Atomics::relaxed) != spare(credits)) {
      spare_.store(spare(credits), Atomics::relaxed);
      changes_.tell();
    }
    return true;
  }

 private:
  // How many credits come back by themselves, whatever the stages keep: it is safe to wait for
  // them, and slots of one record after the other would be slow.
  std::uint64_t spare(std::uint64_t kept) const noexcept {
    return most_ - kept < needs_ ? 1 : most_ - kept - needs_ + 1;
  }

  [[gnu::cold]] void tell_short(bool is) noexcept {
    if (is != is_short()) {
      short_.store(is ? 1 : 0, Atomics::relaxed);
      for (std::size_t i = 0; is && i != bells_.size(); ++i) {
        bells_[i]->ring(); // who hears it sees the store
      }
    }
  }
  const std::uint64_t most_;
  const std::uint64_t units_a_record_;
  std::uint64_t needs_{1};
  alignas(cache_line) Number left_{0};
  Number spare_{0}; // what take() may wait for
  Number short_{0}; // whether take() waits
  Vector<Doorbell<Policy>*> bells_;
  Changes<Policy> changes_;     // of what take() looks at: only the worker that has the turn waits
  TurnSequencer<Policy> turns_; // by ticket
};

/// What so many `credits` of `units` units leave to the `kept` first of them: as many for each,
/// rounded down.
std::uint64_t credits_of(std::uint64_t credits, std::uint64_t units, std::uint64_t kept) noexcept;

#if PENSTOCK_BODIES
PENSTOCK_INLINE std::uint64_t credits_of(std::uint64_t credits, std::uint64_t units,
                                         std::uint64_t kept) noexcept {
  return credits / units * kept + credits % units * kept / units;
}
#endif

} // namespace penstock::detail
