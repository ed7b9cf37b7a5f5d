// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/data/packed.hpp>
#include <penstock/host/detail/lanes.hpp>
#include <penstock/host/detail/rans.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace penstock::detail {

/// 16 values of a lane, written together where they lie aligned.
template <class T> struct alignas(16) SixteenValues {
  T of[16];
};

template <class T> PENSTOCK_HD void store(std::byte* to, T value) {
#if defined(__CUDA_ARCH__)
  *reinterpret_cast<T*>(to) = value;
#else
  std::memcpy(to, &value, sizeof value);
#endif
}

/// Unpacks one chunk by one warp: see docs/packed.md. Reads nothing outside of what the chunk says
/// that it has, writes nothing outside of what is wanted of it, whatever its bytes are.
template <class Lanes> class ChunkUnpacker {
 public:
  PENSTOCK_HD explicit ChunkUnpacker(const PackedChunk& chunk) : chunk_{chunk} {}

  /// Returns whether it was whole, as far as a decoder can tell; the same for all lanes.
  PENSTOCK_HD bool run() {
    const PackedChunk& c = chunk_;
    const unsigned width = c.code.value_bytes;
    if ((width != 1 && width != 2 && width != 4 && width != 8) || c.values == 0 ||
        c.values > packed_chunk_bytes / width || c.first > c.values ||
        c.wanted > c.values - c.first || !aligned(c.packed, 16) || !aligned(c.out, width)) {
      return false;
    }
    switch (c.codec) {
    case PackedCodec::raw:
      return raw();
    case PackedCodec::bits:
      return width == 1   ? bits<std::uint8_t>()
             : width == 2 ? bits<std::uint16_t>()
             : width == 4 ? bits<std::uint32_t>()
                          : bits<std::uint64_t>();
    case PackedCodec::bytes:
      return width == 1 && c.code.table && bytes();
    case PackedCodec::float16:
      return width == 2 && c.code.table && float16();
    case PackedCodec::ranked:
      if (!c.code.table || !c.code.ranked) {
        return false;
      }
      return width == 2 ? ranked<std::uint16_t>() : width == 4 && ranked<std::uint32_t>();
    case PackedCodec::classes:
      if (!c.code.table || !c.code.ranked || !c.code.symbols || c.code.classes == 0) {
        return false;
      }
      return width == 1   ? classes<std::uint8_t>()
             : width == 2 ? classes<std::uint16_t>()
                          : width == 4 && classes<std::uint32_t>();
    }
    return false;
  }

 private:
  PENSTOCK_HD static bool aligned(const std::byte* at, std::size_t to) {
    return reinterpret_cast<std::uintptr_t>(at) % to == 0;
  }
  PENSTOCK_HD std::uint32_t blocks() const {
    return (chunk_.values + packed_block - 1) / packed_block;
  }

  /// Writes a lane's 16 values of a block, as far as they are wanted.
  template <class T>
  PENSTOCK_HD void put(std::uint32_t block, unsigned lane, const SixteenValues<T>& values) const {
    const std::uint32_t begin = block * packed_block + 16 * lane;
    const std::uint32_t end = chunk_.first + chunk_.wanted;
    const auto place = [&](std::uint32_t value) {
      return chunk_.out + std::size_t{value - chunk_.first} * sizeof(T);
    };
    if (begin >= chunk_.first && begin + 16 <= end && aligned(place(begin), 16)) {
      store(place(begin), values);
      return;
    }
    unrolled<16>([&](unsigned k) {
      if (begin + k >= chunk_.first && begin + k < end) {
        store(place(begin + k), values.of[k]);
      }
    });
  }

  PENSTOCK_HD bool raw() const {
    const std::uint32_t width = chunk_.code.value_bytes;
    if (chunk_.packed_bytes != chunk_.values * width) {
      return false;
    }
    const std::byte* const from = chunk_.packed + std::size_t{chunk_.first} * width;
    const std::uint32_t bytes = chunk_.wanted * width;
    const std::uint32_t wide = aligned(from, 16) && aligned(chunk_.out, 16) ? bytes / 16 : 0;
    Lanes::each([&](unsigned lane) {
      for (std::uint32_t i = lane; i < wide; i += warp_lanes) {
        const std::size_t at = std::size_t{16} * i;
        store(chunk_.out + at, load<SixteenValues<std::uint8_t>>(from + at));
      }
      for (std::uint32_t i = 16 * wide + lane; i < bytes; i += warp_lanes) {
        chunk_.out[i] = from[i];
      }
    });
    return true;
  }

  template <class T> PENSTOCK_HD bool bits() const {
    if (chunk_.packed_bytes < packed_bits_head) {
      return false;
    }
    const auto base = load<std::uint64_t>(chunk_.packed);
    const auto width = load<std::uint32_t>(chunk_.packed + 8);
    const std::byte* const words = chunk_.packed + packed_bits_head;
    if (width > 8 * sizeof(T)) {
      return false;
    }
    const std::uint32_t count = (chunk_.values * width + 31) / 32; // at most 2^19 bits and 31
    if (chunk_.packed_bytes != packed_bits_head + 4 * count) {
      return false;
    }
    const std::uint64_t mask = width == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << width) - 1;
    const auto word = [&](std::uint32_t at) -> std::uint64_t {
      return at < count ? load<std::uint32_t>(words + std::size_t{4} * at) : 0U;
    };
    Lanes::each([&](unsigned lane) {
      for (std::uint32_t i = lane; i < chunk_.wanted; i += warp_lanes) {
        const std::uint32_t bit = (chunk_.first + i) * width;
        const std::uint32_t at = bit / 32;
        const unsigned past = bit % 32;
        std::uint64_t value = (word(at) | word(at + 1) << 32) >> past;
        if (width + past > 64) {
          value |= word(at + 2) << (64 - past);
        }
        store(chunk_.out + i * sizeof(T), static_cast<T>((value & mask) + base));
      }
    });
    return true;
  }

  PENSTOCK_HD bool bytes() const {
    if (chunk_.packed_bytes < rans_head) {
      return false;
    }
    RansStream<Lanes> in{chunk_.code.table, chunk_.packed, chunk_.packed_bytes};
    for (std::uint32_t block = 0; block != blocks(); ++block) {
      typename Lanes::template Own<SixteenValues<std::uint8_t>> values;
      unrolled<16>([&](unsigned k) {
        in.symbols([&](unsigned lane, std::uint32_t symbol) {
          values[lane].of[k] = static_cast<std::uint8_t>(symbol);
        });
      });
      Lanes::each([&](unsigned lane) { put(block, lane, values[lane]); });
    }
    return in.ended();
  }

  PENSTOCK_HD bool float16() const {
    const std::uint32_t low_bytes = blocks() * packed_block;
    if (chunk_.packed_bytes < low_bytes + rans_head) {
      return false;
    }
    const unsigned turned = chunk_.code.turned ? 1 : 0;
    RansStream<Lanes> in{chunk_.code.table, chunk_.packed + low_bytes,
                         chunk_.packed_bytes - low_bytes};
    for (std::uint32_t block = 0; block != blocks(); ++block) {
      typename Lanes::template Own<SixteenValues<std::uint16_t>> values;
      typename Lanes::template Own<SixteenValues<std::uint8_t>> low;
      Lanes::each([&](unsigned lane) {
        low[lane] = load<SixteenValues<std::uint8_t>>(chunk_.packed + block * packed_block +
                                                      std::size_t{16} * lane);
      });
      unrolled<16>([&](unsigned k) {
        in.symbols([&](unsigned lane, std::uint32_t symbol) {
          const std::uint32_t value = symbol << 8 | low[lane].of[k];
          values[lane].of[k] = static_cast<std::uint16_t>(value >> turned | (value & turned) << 15);
        });
      });
      Lanes::each([&](unsigned lane) { put(block, lane, values[lane]); });
    }
    return in.ended();
  }

  template <class T> PENSTOCK_HD bool ranked() const {
    if (chunk_.packed_bytes < rans_head) {
      return false;
    }
    RansStream<Lanes> in{chunk_.code.table, chunk_.packed, chunk_.packed_bytes};
    typename Lanes::template Own<bool> beyond;
    Lanes::each([&](unsigned lane) { beyond[lane] = false; });
    for (std::uint32_t block = 0; block != blocks(); ++block) {
      typename Lanes::template Own<SixteenValues<T>> values;
      unrolled<16>([&](unsigned k) {
        typename Lanes::template Own<std::uint32_t> symbols;
        in.symbols([&](unsigned lane, std::uint32_t symbol) {
          symbols[lane] = symbol < packed_rank_symbols ? symbol : 0;
          beyond[lane] = beyond[lane] || symbol >= packed_rank_symbols;
        });
        in.bits([&](unsigned lane) { return packed_rank_bits(symbols[lane]); },
                [&](unsigned lane, std::uint32_t bits) {
                  const std::uint32_t symbol = symbols[lane];
                  const std::uint32_t rank =
                      symbol < 16 ? symbol : (symbol % 8 + 8) << packed_rank_bits(symbol) | bits;
                  values[lane].of[k] = of_rank<T>(rank, beyond[lane]);
                });
      });
      Lanes::each([&](unsigned lane) { put(block, lane, values[lane]); });
    }
    const bool ended = in.ended();
    return !Lanes::any([&](unsigned lane) { return beyond[lane]; }) && ended;
  }

  template <class T> PENSTOCK_HD bool classes() const {
    if (chunk_.packed_bytes < rans_head) {
      return false;
    }
    RansStream<Lanes> in{chunk_.code.table, chunk_.packed, chunk_.packed_bytes};
    typename Lanes::template Own<bool> beyond;
    Lanes::each([&](unsigned lane) { beyond[lane] = false; });
    for (std::uint32_t block = 0; block != blocks(); ++block) {
      typename Lanes::template Own<SixteenValues<T>> values;
      typename Lanes::template Own<std::uint32_t> before; // the class of the value before
      Lanes::each([&](unsigned lane) { before[lane] = 0; });
      unrolled<16>([&](unsigned k) {
        typename Lanes::template Own<std::uint32_t> entries;
        in.symbols_by([&](unsigned lane) { return before[lane]; },
                      [&](unsigned lane, std::uint32_t symbol) {
                        entries[lane] = chunk_.code.symbols[symbol];
                        const std::uint32_t its = PackedSymbol::of(entries[lane]).its_class;
                        const bool known = its < chunk_.code.classes;
                        beyond[lane] = beyond[lane] || !known;
                        before[lane] = known ? its : 0;
                      });
        const auto put_rank = [&](unsigned lane, std::uint32_t bits) {
          const std::uint32_t rank = PackedSymbol::of(entries[lane]).rank + bits;
          values[lane].of[k] = of_rank<T>(rank, beyond[lane]);
        };
        if constexpr (sizeof(T) == 1) { // a symbol stands for one value
          Lanes::each([&](unsigned lane) { put_rank(lane, 0); });
        } else {
          in.bits([&](unsigned lane) { return PackedSymbol::of(entries[lane]).bits; }, put_rank);
        }
      });
      Lanes::each([&](unsigned lane) { put(block, lane, values[lane]); });
    }
    const bool ended = in.ended();
    return !Lanes::any([&](unsigned lane) { return beyond[lane]; }) && ended;
  }

  /// Returns the value of a rank; sets `beyond` if there is none.
  template <class T> PENSTOCK_HD T of_rank(std::uint32_t rank, bool& beyond) const {
    const bool known = rank < chunk_.code.ranks;
    beyond = beyond || !known;
    return static_cast<T>(known ? chunk_.code.ranked[rank] : 0);
  }

  const PackedChunk chunk_;
};

} // namespace penstock::detail
