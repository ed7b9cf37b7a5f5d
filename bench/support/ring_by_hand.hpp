// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// The least that passing slots on takes, without penstock: nobody sleeps, and nothing can be
// stopped, ended or given back late. Their speed is the limit for a Ring.

#include <penstock/parking.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace penstock_bench {

/// One thread to one other: an array and two counters.
template <class Of> class ByHand {
 public:
  explicit ByHand(std::size_t slots) : slots_(slots) {}
  void put(std::uint64_t number) {
    const std::uint64_t next = putter_.counter.load(std::memory_order_relaxed);
    if (next == putter_.known) {
      putter_.look(taker_.counter, slots_.size(), slots_.size() / 4);
    }
    slots_[putter_.place].number = number;
    putter_.step(next + 1, slots_.size());
  }
  std::uint64_t take() {
    const std::uint64_t next = taker_.counter.load(std::memory_order_relaxed);
    if (next == taker_.known) {
      taker_.look(putter_.counter, 0, slots_.size() / 4);
    }
    const std::uint64_t number = slots_[taker_.place].number;
    taker_.step(next + 1, slots_.size());
    return number;
  }

 private:
  struct alignas(128) Side {
    std::atomic<std::uint64_t> counter{0}; // the other side looks at it
    alignas(128) std::uint64_t known{0};   // how far the other side lets this one go
    std::size_t place{0};

    // A thread that went on at every single slot would have the counters' lines move each time.
    void look(const std::atomic<std::uint64_t>& other, std::uint64_t ahead, std::uint64_t enough) {
      const std::uint64_t next = known;
      for (int looks = 0; known == next || (looks < 16 && known < next + enough); ++looks) {
        if (looks != 0) {
          penstock::SpinThenFutex::pause();
        }
        // Pairs with the release of step().
        known = other.load(std::memory_order_acquire) + ahead;
      }
    }
    void step(std::uint64_t next, std::size_t slots) {
      place = place + 1 == slots ? 0 : place + 1;
      counter.store(next, std::memory_order_release);
    }
  };

  std::vector<Of> slots_;
  Side putter_;
  Side taker_;
};

/// Many threads to one: tickets from one counter, and cells that say which ticket they hold.
class ByHandTickets {
 public:
  /// `slots` is a power of two.
  explicit ByHandTickets(std::size_t slots) : cells_(slots) {}
  void reset() {
    tickets_ = 0;
    taken_ = 0;
    for (Cell& cell : cells_) {
      cell.sequence = 0;
    }
  }
  /// Draws tickets below `count` and fills their cells, until none are left.
  void put_all(std::uint64_t count) {
    std::uint64_t taken = 0;
    for (std::uint64_t ticket = draw(); ticket < count; ticket = draw()) {
      // Pairs with the release of take().
      while (ticket >= taken + cells_.size() &&
             ticket >= (taken = taken_.load(std::memory_order_acquire)) + cells_.size()) {
        penstock::SpinThenFutex::pause();
      }
      Cell& cell = at(ticket);
      cell.number = ticket;
      cell.sequence.store(ticket + 1, std::memory_order_release);
    }
  }
  /// Takes a ticket's number; to be called in the order of the tickets.
  std::uint64_t take(std::uint64_t ticket) {
    const Cell& cell = at(ticket);
    // Pairs with the release of put_all().
    while (cell.sequence.load(std::memory_order_acquire) != ticket + 1) {
      penstock::SpinThenFutex::pause();
    }
    const std::uint64_t number = cell.number;
    taken_.store(ticket + 1, std::memory_order_release);
    return number;
  }
  /// Draws the next ticket.
  std::uint64_t draw() { return tickets_.fetch_add(1, std::memory_order_relaxed); }

 private:
  struct alignas(64) Cell {
    std::atomic<std::uint64_t> sequence{0};
    std::uint64_t number{0};
  };
  Cell& at(std::uint64_t ticket) { return cells_[ticket & (cells_.size() - 1)]; }

  alignas(64) std::atomic<std::uint64_t> tickets_{0};
  alignas(64) std::atomic<std::uint64_t> taken_{0};
  alignas(64) std::vector<Cell> cells_;
};

} // namespace penstock_bench
