// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/ring/ring.hpp>

#include <chrono>
#include <cstdint>
#include <utility>

namespace penstock::detail {

/// What comes back: the number of a place that was lent.
struct Return {
  std::uint64_t ticket{};
  Return* next{}; // while it lies in the box
};

/// The box into which any thread puts what it gives back, and which one thread empties. Takes no
/// lock and allocates nothing: what is put in is the list.
template <class Policy = RingPolicy> class Returns {
  using Atomics = typename Policy::Atomics;

 public:
  /// Puts one in, which is the emptying thread's from then on; that thread wakes if it waits. Any
  /// thread; never blocks. The caller keeps the box alive.
  void put(Return& item) noexcept {
    Return* top = top_.load(Atomics::relaxed);
    do {
      item.next = top;
      // Pairs with take(): who takes it sees what was done with its batch.
    } while (!top_.compare_exchange_strong(top, &item, Atomics::release, Atomics::relaxed));
    bell_.ring();
  }
  /// Takes all out, in the order in which they were put in, as a list; null if there are none.
  Return* take() noexcept {
    Return* first = nullptr;
    if (top_.load(Atomics::relaxed) != nullptr) {
      Return* rest = top_.exchange(nullptr, Atomics::acquire); // pairs with put()
      while (rest != nullptr) {
        first = std::exchange(rest, std::exchange(rest->next, first));
      }
    }
    return first;
  }

  /// Returns how often something was put in: to be asked before take().
  std::uint32_t count() const noexcept { return bell_.count(); }
  /// Blocks until something was put in since then, or `limit` has passed; may return early.
  void wait(std::uint32_t count, std::chrono::nanoseconds limit) noexcept {
    bell_.wait(count, limit);
  }

 private:
  typename Atomics::template Atomic<Return*> top_{nullptr};
  Doorbell<Policy> bell_;
};

} // namespace penstock::detail
