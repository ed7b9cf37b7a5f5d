// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/ring/ring_types.hpp>

#include <cstdint>

namespace penstock::detail {

/// Whether a ring still hands out slots, and up to which ticket. All threads read it all the time,
/// and it is written at most three times a run: it has a cache line that stays with all of them.
template <class Policy> class RingState {
  using Atomics = typename Policy::Atomics;
  template <class T> using Atomic = typename Atomics::template Atomic<T>;

 public:
  /// Returns the ring's state: never `open` to a thread that over() told of the end.
  Flow state() const noexcept {
    const Flow flow = flow_.load(Atomics::relaxed);
    return flow == Flow::open && end_.load(Atomics::relaxed) != never ? Flow::ended : flow;
  }
  std::uint64_t end_ticket() const noexcept { return end_.load(Atomics::relaxed); }
  /// Returns whether this ticket will never be handed out.
  bool over(std::uint64_t ticket) const noexcept {
    return ticket >= closed_.load(Atomics::acquire); // pairs with set_end() and set_halted()
  }

  /// Sets the end. Returns false if there was one before, which then stays. Whatever this thread
  /// hands over afterwards, over() knows the end to whoever has it.
  bool set_end(std::uint64_t ticket) noexcept {
    std::uint64_t before = never;
    const bool first =
        end_.compare_exchange_strong(before, ticket, Atomics::relaxed, Atomics::relaxed);
    std::uint64_t closed = never;
    // Pairs with over(). Not a store, which could undo set_halted(). The thread that was first may
    // not have come to this.
    closed_.compare_exchange_strong(closed, first ? ticket : before, Atomics::release,
                                    Atomics::relaxed);
    return first;
  }
  /// Sets `stopped` or `failed`, unless either was set before, and returns whether it did. Whatever
  /// this thread hands over afterwards, over() knows the halt to whoever has it.
  bool set_halted(Flow flow) noexcept {
    Flow open = Flow::open;
    const bool first =
        flow_.compare_exchange_strong(open, flow, Atomics::relaxed, Atomics::relaxed);
    // Pairs with over(). The thread that was first may not have come to this.
    closed_.store(0, Atomics::release);
    return first;
  }
  /// Opens the ring, without an end.
  void reopen() noexcept {
    closed_.store(never, Atomics::relaxed);
    end_.store(never, Atomics::relaxed);
    flow_.store(Flow::open, Atomics::relaxed);
  }

 private:
  static constexpr std::uint64_t never = ~std::uint64_t{0};

  alignas(cache_line) Atomic<std::uint64_t> closed_{never}; // no ticket from here on, for any cause
  Atomic<std::uint64_t> end_{never};
  Atomic<Flow> flow_{Flow::open}; // open, stopped or failed: the end is only in end_
};

} // namespace penstock::detail
