// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace penstock::detail {

/// What a slot's 32 bits say: | lap | roused | halted | ended | sleeper | state, 2 bits |.
///
/// Lap and state tell whose slot it is, and every change of hands changes them. `sleeper` says that
/// a thread may sleep on the word. `ended` and `halted` are set when the ring's state changes, only
/// to make the word another one, so that sleepers look again: the next change of hands drops them.
/// `roused` is flipped for the same reason, when a thread is woken for something counted elsewhere.
template <unsigned LapBits = 26> struct RingWord {
  static constexpr unsigned most_lap_bits = 26;
  static_assert(
      LapBits >= 2 && LapBits <= most_lap_bits,
      "penstock: a lap has 2 to 26 bits: a word must not look like the one two laps ago.");

  enum State : std::uint32_t { free, full, partial, none };
  static constexpr std::uint32_t state_mask = 3, sleeper = 4, ended = 8, halted = 16, roused = 32;
  static constexpr unsigned lap_shift = 6;
  static constexpr std::uint32_t lap_mask = ((1U << LapBits) - 1) << lap_shift;

  static constexpr std::uint32_t make(std::uint64_t lap, std::uint32_t state) noexcept {
    return (static_cast<std::uint32_t>(lap << lap_shift) & lap_mask) | state;
  }
  static constexpr bool is_free(std::uint32_t word, std::uint64_t lap) noexcept {
    return (word & (lap_mask | state_mask)) == make(lap, free);
  }
  static constexpr bool is_filled(std::uint32_t word, std::uint64_t lap) noexcept {
    return (word & lap_mask) == make(lap, 0) && (word & state_mask) != free;
  }
};

} // namespace penstock::detail
