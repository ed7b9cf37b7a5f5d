// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/bell.hpp>
#include <penstock/detail/config.hpp>
#include <penstock/detail/ring_word.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace penstock {

/// What a ring's two sides see. `ended`: no more will be published than what there is. `stopped`
/// and `failed`: nothing more is handed out to either side.
enum class Flow : std::uint8_t { open, ended, stopped, failed };

namespace detail {

/// A ring's slots, each with the word that says whose it is: how slots change hands and how threads
/// wait for that, and the ring's state, which all of them see. Who may take which ticket is Ring's.
template <class Slot, class Policy> class RingCells {
  using Atomics = typename Policy::Atomics;
  using Parking = typename Policy::Parking;
  template <class T> using Atomic = typename Atomics::template Atomic<T>;

 public:
  using Words = RingWord<Policy::lap_bits>;

  explicit RingCells(std::size_t slots) : slots_{slots}, cells_{std::make_unique<Cell[]>(slots)} {}

  std::size_t slots() const noexcept { return slots_; }
  std::size_t place(std::uint64_t ticket) const noexcept { return ticket % slots_; }
  Slot& slot(std::uint64_t ticket) const noexcept { return cells_[place(ticket)].slot; }
  /// Never `open` to a thread that over() told of the end.
  Flow state() const noexcept {
    const Flow flow = flow_.load(Atomics::relaxed);
    return flow == Flow::open && end_.load(Atomics::relaxed) != never ? Flow::ended : flow;
  }
  bool halted() const noexcept { return flow_.load(Atomics::relaxed) != Flow::open; }
  std::uint64_t end_ticket() const noexcept { return end_.load(Atomics::relaxed); }
  /// Whether this ticket will never be handed out.
  bool over(std::uint64_t ticket) const noexcept { return halted() || ticket >= end_ticket(); }
  /// Pairs with hand_over(): who sees the slot in his hands sees what the other side left in it.
  std::uint32_t look(std::uint64_t ticket) const noexcept {
    return word(ticket).load(Atomics::acquire);
  }
  bool is_free(std::uint64_t ticket) const noexcept {
    return Words::is_free(look(ticket), lap(ticket));
  }
  bool is_filled(std::uint64_t ticket) const noexcept {
    return Words::is_filled(look(ticket), lap(ticket));
  }
  /// Block until it is so; false if it will not be.
  bool await_free(std::uint64_t ticket) noexcept { return await(ticket, Words::is_free); }
  bool await_filled(std::uint64_t ticket) noexcept { return await(ticket, Words::is_filled); }

  /// To the taking side (`state` of full, partial, none), and back.
  void publish(std::uint64_t ticket, std::uint32_t state, Bell<Policy>* bell) noexcept {
    hand_over(ticket, Words::make(lap(ticket), state), bell);
  }
  void release(std::uint64_t ticket, Bell<Policy>* bell) noexcept {
    hand_over(ticket, Words::make(lap(ticket) + 1, Words::free), bell);
  }

  /// The first end counts. False if there was one before.
  bool end_at(std::uint64_t ticket) noexcept {
    std::uint64_t end = never;
    if (!end_.compare_exchange_strong(end, ticket, Atomics::relaxed, Atomics::relaxed)) {
      return false;
    }
    announce(Words::ended);
    return true;
  }
  /// False if the ring has stopped or failed before.
  bool halt(Flow flow) noexcept {
    Flow open = Flow::open;
    if (!flow_.compare_exchange_strong(open, flow, Atomics::relaxed, Atomics::relaxed)) {
      return false;
    }
    announce(Words::halted);
    return true;
  }

  /// All slots free, in lap 0. No other thread inside.
  void reset() noexcept {
    for (std::size_t i = 0; i < slots_; ++i) {
      cells_[i].word.store(Words::make(0, Words::free), Atomics::relaxed);
    }
    end_.store(never, Atomics::relaxed);
    flow_.store(Flow::open, Atomics::relaxed);
  }

 private:
  // A line of its own, since the two sides write it in turn.
  struct alignas(cache_line) Cell {
    Atomic<std::uint32_t> word{Words::make(0, Words::free)};
    Slot slot{};
  };
  static constexpr std::uint64_t never = ~std::uint64_t{0};

  std::uint64_t lap(std::uint64_t ticket) const noexcept { return ticket / slots_; }
  Atomic<std::uint32_t>& word(std::uint64_t ticket) const noexcept {
    return cells_[place(ticket)].word;
  }

  bool await(std::uint64_t ticket, bool (*ready)(std::uint32_t, std::uint64_t)) noexcept {
    for (int looks = 0;;) {
      std::uint32_t seen = look(ticket);
      if (ready(seen, lap(ticket))) {
        return true;
      }
      // If announce() comes after this look, the word will not be `seen` any more.
      if (over(ticket)) {
        return false;
      }
      if constexpr (Parking::sleeps) {
        if (looks == Parking::spins) {
          if ((seen & Words::sleeper) ||
              word(ticket).compare_exchange_strong(seen, seen | Words::sleeper, Atomics::relaxed,
                                                   Atomics::relaxed)) {
            Parking::sleep(word(ticket), seen | Words::sleeper);
          }
          continue;
        }
        ++looks;
      }
      Parking::pause();
    }
  }

  void hand_over(std::uint64_t ticket, std::uint32_t next, Bell<Policy>* bell) noexcept {
    if constexpr (Parking::sleeps) {
      // Pairs with look(). An exchange, so that a sleeper's bit is seen, and so that what
      // announce() released is not cut off from those who read this word later.
      if (word(ticket).exchange(next, Atomics::release) & Words::sleeper) {
        Parking::wake(word(ticket));
      }
    } else {
      word(ticket).store(next, Atomics::release); // pairs with look()
    }
    if (bell) {
      bell->ring();
    }
  }

  // Makes every word another one and wakes its sleepers, so that all look at the ring's state. Each
  // bit is set once a run: a word that did not change would let a sleeper oversleep.
  void announce(std::uint32_t bit) noexcept {
    for (std::size_t i = 0; i < slots_; ++i) {
      // Pairs with look(): who sees the bit, or what came after it, sees the state.
      if (cells_[i].word.fetch_or(bit, Atomics::release) & Words::sleeper) {
        Parking::wake(cells_[i].word);
      }
    }
  }

  const std::size_t slots_;
  std::unique_ptr<Cell[]> cells_;
  alignas(cache_line) Atomic<std::uint64_t> end_{never};
  Atomic<Flow> flow_{Flow::open}; // open, stopped or failed: the end is end_'s alone
};

} // namespace detail
} // namespace penstock
