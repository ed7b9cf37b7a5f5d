// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/decoders/detail/resize_weights.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace penstock::detail {

/// How many bytes may be read behind a row's last value.
inline constexpr std::size_t row_slack = 16;

/// The loops of a resize, in plain C++. Pixels have `stride` bytes, each resized alone.
struct PlainRows {
  static std::uint8_t byte_of(std::int32_t sum, unsigned shift) noexcept {
    const std::int32_t value = sum >> shift;
    return static_cast<std::uint8_t>(value > 255 ? 255 : value);
  }
  static std::int32_t half(unsigned shift) noexcept {
    return static_cast<std::int32_t>(std::uint32_t{1} << shift >> 1);
  }

  /// Makes a row of weights.out() pixels of one with weights.in(); mirrored, if `flip`.
  template <std::size_t stride> static void across(const std::uint8_t* in, std::uint8_t* out,
                                                   const ResizeWeights& by, bool flip) noexcept {
    const std::size_t taps = by.taps();
    for (std::size_t x = 0; x != by.out(); ++x) {
      const std::uint8_t* const from = in + by.first(x) * stride;
      std::uint8_t* const to = out + (flip ? by.out() - 1 - x : x) * stride;
      const std::int16_t* const weights = by.weights(x);
      for (std::size_t channel = 0; channel != stride; ++channel) {
        std::int32_t sum = half(by.shift());
        for (std::size_t tap = 0; tap != taps; ++tap) {
          sum += from[tap * stride + channel] * weights[tap];
        }
        to[channel] = byte_of(sum, by.shift());
      }
    }
  }

  /// Makes one row of `bytes` bytes of by.taps() such rows.
  static void down(const std::uint8_t* const* rows, const std::int16_t* weights, std::size_t taps,
                   unsigned shift, std::size_t bytes, std::uint8_t* out) noexcept {
    for (std::size_t x = 0; x != bytes; ++x) {
      std::int32_t sum = half(shift);
      for (std::size_t tap = 0; tap != taps; ++tap) {
        sum += rows[tap][x] * weights[tap];
      }
      out[x] = byte_of(sum, shift);
    }
  }

  /// Takes pixels of four bytes apart: three planes of `count` bytes.
  static void split(const std::uint8_t* in, std::size_t count, std::uint8_t* const* out) noexcept {
    for (std::size_t x = 0; x != count; ++x) {
      out[0][x] = in[4 * x];
      out[1][x] = in[4 * x + 1];
      out[2][x] = in[4 * x + 2];
    }
  }
};

#if defined(__SSE2__)
/// PlainRows' loops in instructions that every x86-64 has, with the same results: sums are of whole
/// numbers, so their order does not matter.
struct FastRows {
  static std::int32_t pair(const std::int16_t* weights) noexcept {
    std::int32_t both;
    std::memcpy(&both, weights, sizeof both);
    return both;
  }

  template <std::size_t stride> static void across(const std::uint8_t* in, std::uint8_t* out,
                                                   const ResizeWeights& by, bool flip) noexcept {
    if constexpr (stride != 4) {
      PlainRows::across<stride>(in, out, by, flip);
      return;
    } else {
      const std::size_t taps = by.taps();
      const __m128i zero = _mm_setzero_si128();
      const __m128i half = _mm_set1_epi32(PlainRows::half(by.shift()));
      const __m128i shift = _mm_cvtsi32_si128(static_cast<int>(by.shift()));
      for (std::size_t x = 0; x != by.out(); ++x) {
        const std::uint8_t* const from = in + by.first(x) * 4;
        const std::int16_t* const weights = by.weights(x);
        __m128i sum = half;
        for (std::size_t tap = 0; tap != taps; tap += 2) {
          const __m128i two = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from + tap * 4));
          // r g b x R G B X -> r R g G b B x X
          const __m128i turns = _mm_unpacklo_epi8(two, _mm_srli_si128(two, 4));
          sum = _mm_add_epi32(sum, _mm_madd_epi16(_mm_unpacklo_epi8(turns, zero),
                                                  _mm_set1_epi32(pair(weights + tap))));
        }
        const __m128i words = _mm_packs_epi32(_mm_sra_epi32(sum, shift), zero);
        const int pixel = _mm_cvtsi128_si32(_mm_packus_epi16(words, zero));
        std::memcpy(out + (flip ? by.out() - 1 - x : x) * 4, &pixel, sizeof pixel);
      }
    }
  }

  static void down(const std::uint8_t* const* rows, const std::int16_t* weights, std::size_t taps,
                   unsigned shift, std::size_t bytes, std::uint8_t* out) noexcept {
    const __m128i zero = _mm_setzero_si128();
    const __m128i half = _mm_set1_epi32(PlainRows::half(shift));
    const __m128i by = _mm_cvtsi32_si128(static_cast<int>(shift));
    std::size_t x = 0;
    for (; x + 16 <= bytes; x += 16) {
      __m128i sums[4] = {half, half, half, half};
      for (std::size_t tap = 0; tap != taps; tap += 2) {
        const __m128i weight = _mm_set1_epi32(pair(weights + tap));
        const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[tap] + x));
        const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[tap + 1] + x));
        const __m128i low = _mm_unpacklo_epi8(a, b);
        const __m128i high = _mm_unpackhi_epi8(a, b);
        const auto add = [&](__m128i& sum, __m128i both) {
          sum = _mm_add_epi32(sum, _mm_madd_epi16(both, weight));
        };
        add(sums[0], _mm_unpacklo_epi8(low, zero));
        add(sums[1], _mm_unpackhi_epi8(low, zero));
        add(sums[2], _mm_unpacklo_epi8(high, zero));
        add(sums[3], _mm_unpackhi_epi8(high, zero));
      }
      const __m128i low = _mm_packs_epi32(_mm_sra_epi32(sums[0], by), _mm_sra_epi32(sums[1], by));
      const __m128i high = _mm_packs_epi32(_mm_sra_epi32(sums[2], by), _mm_sra_epi32(sums[3], by));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + x), _mm_packus_epi16(low, high));
    }
    for (; x != bytes; ++x) {
      std::int32_t sum = PlainRows::half(shift);
      for (std::size_t tap = 0; tap != taps; ++tap) {
        sum += rows[tap][x] * weights[tap];
      }
      out[x] = PlainRows::byte_of(sum, shift);
    }
  }

  static void split(const std::uint8_t* in, std::size_t count, std::uint8_t* const* out) noexcept {
    const __m128i low = _mm_set1_epi32(0xFF);
    std::size_t x = 0;
    for (; x + 16 <= count; x += 16) {
      const auto* const from = reinterpret_cast<const __m128i*>(in + 4 * x);
      const __m128i p[4] = {_mm_loadu_si128(from), _mm_loadu_si128(from + 1),
                            _mm_loadu_si128(from + 2), _mm_loadu_si128(from + 3)};
      for (int channel = 0; channel != 3; ++channel) {
        const auto of = [&](__m128i pixels) {
          return _mm_and_si128(_mm_srli_epi32(pixels, 8 * channel), low);
        };
        const __m128i words_a = _mm_packs_epi32(of(p[0]), of(p[1]));
        const __m128i words_b = _mm_packs_epi32(of(p[2]), of(p[3]));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(out[channel] + x),
                         _mm_packus_epi16(words_a, words_b));
      }
    }
    std::uint8_t* const rest[3] = {out[0] + x, out[1] + x, out[2] + x};
    PlainRows::split(in + 4 * x, count - x, rest);
  }
};
#else
using FastRows = PlainRows;
#endif

} // namespace penstock::detail
