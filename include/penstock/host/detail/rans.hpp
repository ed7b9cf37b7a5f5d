// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/host/detail/lanes.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace penstock::detail {

/// Frequencies add up to 2 to this.
inline constexpr unsigned rans_bits = 12;
/// The entries of a table that says which symbol a state stands for.
inline constexpr std::uint32_t rans_entries = 1U << rans_bits;
/// The least state between steps.
inline constexpr std::uint32_t rans_least = 1U << 16;
/// The bytes of all lanes' states, with which a stream begins.
inline constexpr std::uint32_t rans_head = 4 * warp_lanes;

/// Reads a value that lies aligned for its type.
template <class T> PENSTOCK_HD T load(const std::byte* from) {
#if defined(__CUDA_ARCH__)
  return *reinterpret_cast<const T*>(from);
#else
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
#endif
}

/// An entry of the table: a symbol, its frequency, and which of its states this is.
PENSTOCK_HD constexpr std::uint32_t rans_entry(std::uint32_t symbol, std::uint32_t frequency,
                                               std::uint32_t place) {
  return symbol | (frequency - 1) << 8 | place << 20;
}

/// Decodes the stream that docs/packed.md describes. Reads within `bytes`, whatever they are, and
/// within the `rans_entries` of each table. `in` is aligned to 4 bytes.
template <class Lanes> class RansStream {
 public:
  /// `bytes` is at least `rans_head`.
  PENSTOCK_HD RansStream(const std::uint32_t* table, const std::byte* in, std::uint32_t bytes)
      : table_{table}, words_{in + rans_head}, count_{(bytes - rans_head) / 2},
        odd_{bytes % 2 != 0} {
    Lanes::each(
        [&](unsigned lane) { state_[lane] = load<std::uint32_t>(in + std::size_t{4} * lane); });
  }

  /// Takes one symbol for each lane: calls f(lane, symbol).
  template <class F> PENSTOCK_HD void symbols(F f) {
    symbols_by([](unsigned) { return 0U; }, f);
  }
  /// Takes one symbol for each lane, by table number which(lane): calls f(lane, symbol).
  template <class Which, class F> PENSTOCK_HD void symbols_by(Which which, F f) {
    Lanes::each([&](unsigned lane) {
      std::uint32_t& state = state_[lane];
      const std::uint32_t entry = table_[which(lane) * rans_entries + state % rans_entries];
      state = ((entry >> 8 & (rans_entries - 1)) + 1) * (state >> rans_bits) + (entry >> 20);
      f(lane, entry & 0xFF);
    });
    refill();
  }
  /// Takes width(lane) bits, at most 16, for each lane: calls f(lane, bits).
  template <class Width, class F> PENSTOCK_HD void bits(Width width, F f) {
    Lanes::each([&](unsigned lane) {
      std::uint32_t& state = state_[lane];
      const unsigned bits = width(lane);
      f(lane, state & ((1U << bits) - 1));
      state >>= bits;
    });
    refill();
  }
  /// Returns whether all was taken, and nothing else, as the encoder put it.
  PENSTOCK_HD bool ended() {
    const bool wrong = Lanes::any([&](unsigned lane) { return state_[lane] != rans_least; });
    return !wrong && at_ == count_ && !odd_;
  }

 private:
  PENSTOCK_HD void refill() {
    at_ +=
        Lanes::in_turn([&](unsigned lane) { return state_[lane] < rans_least; },
                       [&](unsigned lane, bool takes, unsigned before) {
                         // All lanes read, since a processor cannot guess which take. Beyond the
                         // end at_ gets larger than count_, which ended() sees.
                         const std::uint32_t at = at_ + before;
                         const std::uint32_t word =
                             at < count_ ? load<std::uint16_t>(words_ + std::size_t{2} * at) : 0U;
                         const std::uint32_t mask = 0U - static_cast<std::uint32_t>(takes);
                         state_[lane] = state_[lane] << (mask & 16) | (mask & word);
                       });
  }

  const std::uint32_t* table_;
  const std::byte* words_;
  std::uint32_t count_;
  bool odd_;
  std::uint32_t at_ = 0; // the same for all lanes
  typename Lanes::template Own<std::uint32_t> state_;
};

} // namespace penstock::detail
