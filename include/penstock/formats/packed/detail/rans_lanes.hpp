// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/host/detail/rans.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace penstock::detail {

/// How a symbol changes a state.
struct RansSymbol {
  static RansSymbol of(std::uint32_t frequency, std::uint32_t first) noexcept {
    if (frequency == 0) {
      return {};
    }
    const unsigned shift = 31U - static_cast<unsigned>(std::countl_zero(frequency));
    const std::uint64_t most = (std::uint64_t{1} << (32 + shift)) - 1;
    return {static_cast<std::uint32_t>(most / frequency), frequency | first << 13 | shift << 25};
  }

  bool known() const noexcept { return rest != 0; }
  std::uint32_t frequency() const noexcept { return rest & 0x1FFF; }
  std::uint32_t first() const noexcept { return rest >> 13 & 0xFFF; }
  unsigned shift() const noexcept { return rest >> 25; }

  std::uint32_t reciprocal; // 2^(32 + shift) over the frequency, rounded down
  std::uint32_t rest;
};

/// Which bytes of eight words come last, for each choice of some of them.
struct OrderedWords {
  constexpr OrderedWords() {
    for (unsigned choice = 0; choice != 256; ++choice) {
      unsigned at = 8 - static_cast<unsigned>(std::popcount(choice));
      for (unsigned word = 0; word != 8; ++word) {
        if ((choice >> word & 1) != 0) {
          bytes[choice][2 * at] = static_cast<std::uint8_t>(2 * word);
          bytes[choice][2 * at + 1] = static_cast<std::uint8_t>(2 * word + 1);
          ++at;
        }
      }
    }
  }

  alignas(16) std::uint8_t bytes[256][16]{};
};
inline constexpr OrderedWords ordered_words;

/// A step of eight lanes of a RansEncoder, by AVX2 where the processor has it. Words go before
/// `to`; up to 8 more are stored there, since a processor cannot guess which state is full.
class RansEightLanes {
 public:
  /// Whether this processor has AVX2.
  static bool has_avx2() noexcept {
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx2") != 0;
#else
    return false;
#endif
  }
  explicit RansEightLanes(bool by_avx2 = has_avx2()) noexcept : by_avx2_{by_avx2} {}

  /// Put a symbol in each lane, or bits, as many as the upper half of each number says. Return
  /// where the last word lies.
  /// @{
  std::uint16_t* put_symbols(std::uint32_t* states, const RansSymbol* all,
                             const std::uint16_t* symbols, std::uint16_t* to) const noexcept {
#if defined(__x86_64__)
    if (by_avx2_) {
      return vector_symbols(states, all, symbols, to);
    }
#endif
    for (unsigned lane = 8; lane-- != 0;) {
      to = put_symbol(states[lane], all[symbols[lane]], to);
    }
    return to;
  }
  std::uint16_t* put_bits(std::uint32_t* states, const std::uint32_t* bits,
                          std::uint16_t* to) const noexcept {
#if defined(__x86_64__)
    if (by_avx2_) {
      return vector_bits(states, bits, to);
    }
#endif
    for (unsigned lane = 8; lane-- != 0;) {
      const unsigned width = bits[lane] >> 16;
      to = put_word(states[lane], std::uint64_t{states[lane]} >> (32 - width) != 0, to);
      states[lane] = states[lane] << width | (bits[lane] & 0xFFFF);
    }
    return to;
  }
  /// @}

 private:
  static std::uint16_t* put_symbol(std::uint32_t& state, const RansSymbol& its,
                                   std::uint16_t* to) noexcept {
    const std::uint32_t frequency = its.frequency();
    to = put_word(state, state > (frequency << (32 - rans_bits)) - 1, to);
    // To divide takes as long as all else. This quotient is right, or too small by 1, since the
    // reciprocal is too small by less than 2^-32 of what it is.
    const auto about =
        static_cast<std::uint32_t>(std::uint64_t{state} * its.reciprocal >> 32 >> its.shift());
    const std::uint32_t left = state - about * frequency;
    const auto more = static_cast<std::uint32_t>(left >= frequency);
    state = ((about + more) << rans_bits) + left - (frequency & (0U - more)) + its.first();
    return to;
  }
  static std::uint16_t* put_word(std::uint32_t& state, bool full, std::uint16_t* to) noexcept {
    to[-1] = static_cast<std::uint16_t>(state);
    state >>= 16U * static_cast<unsigned>(full);
    return to - static_cast<std::ptrdiff_t>(full);
  }

#if defined(__x86_64__)
  [[gnu::target("avx2")]] static std::uint16_t* vector_symbols(std::uint32_t* states,
                                                               const RansSymbol* all,
                                                               const std::uint16_t* symbols,
                                                               std::uint16_t* to) noexcept {
    const __m256i ones = _mm256_set1_epi32(1);
    __m256i reciprocal;
    __m256i rest;
    load(all, symbols, reciprocal, rest);
    const __m256i frequency = _mm256_and_si256(rest, _mm256_set1_epi32(0x1FFF));
    const __m256i most =
        _mm256_sub_epi32(_mm256_slli_epi32(frequency, 32 - static_cast<int>(rans_bits)), ones);
    __m256i state = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(states));
    state = put_words(state, _mm256_cmpeq_epi32(_mm256_min_epu32(state, most), state), to);
    const __m256i even = _mm256_srli_epi64(_mm256_mul_epu32(state, reciprocal), 32);
    const __m256i odd =
        _mm256_mul_epu32(_mm256_srli_epi64(state, 32), _mm256_srli_epi64(reciprocal, 32));
    const __m256i about =
        _mm256_srlv_epi32(_mm256_blend_epi32(even, odd, 0xAA), _mm256_srli_epi32(rest, 25));
    const __m256i left = _mm256_sub_epi32(state, _mm256_mullo_epi32(about, frequency));
    const __m256i right = _mm256_cmpgt_epi32(frequency, left); // -1 where `about` is
    const __m256i quotient = _mm256_add_epi32(about, _mm256_add_epi32(right, ones));
    const __m256i first = _mm256_and_si256(_mm256_srli_epi32(rest, 13), _mm256_set1_epi32(0xFFF));
    state = _mm256_add_epi32(_mm256_slli_epi32(quotient, rans_bits),
                             _mm256_sub_epi32(left, _mm256_andnot_si256(right, frequency)));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(states), _mm256_add_epi32(state, first));
    return to;
  }
  [[gnu::target("avx2")]] static std::uint16_t*
  vector_bits(std::uint32_t* states, const std::uint32_t* bits, std::uint16_t* to) noexcept {
    const __m256i its = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bits));
    const __m256i width = _mm256_srli_epi32(its, 16);
    __m256i state = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(states));
    // A shift by 32 leaves 0.
    const __m256i above = _mm256_srlv_epi32(state, _mm256_sub_epi32(_mm256_set1_epi32(32), width));
    state = put_words(state, _mm256_cmpeq_epi32(above, _mm256_setzero_si256()), to);
    state = _mm256_or_si256(_mm256_sllv_epi32(state, width),
                            _mm256_and_si256(its, _mm256_set1_epi32(0xFFFF)));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(states), state);
    return to;
  }

  /// Loads two by two: to gather takes three times as long.
  [[gnu::target("avx2")]] static void load(const RansSymbol* all, const std::uint16_t* symbols,
                                           __m256i& reciprocal, __m256i& rest) noexcept {
    const __m256 low = two_and_two(all, symbols, symbols + 4);
    const __m256 high = two_and_two(all, symbols + 2, symbols + 6);
    reciprocal = _mm256_castps_si256(_mm256_shuffle_ps(low, high, 0x88));
    rest = _mm256_castps_si256(_mm256_shuffle_ps(low, high, 0xDD));
  }
  [[gnu::target("avx2")]] static __m256 two_and_two(const RansSymbol* all,
                                                    const std::uint16_t* some,
                                                    const std::uint16_t* others) noexcept {
    return _mm256_insertf128_ps(_mm256_castps128_ps256(two(all, some)), two(all, others), 1);
  }
  [[gnu::target("avx2")]] static __m128 two(const RansSymbol* all,
                                            const std::uint16_t* symbols) noexcept {
    const auto* const first = reinterpret_cast<const __m128i*>(all + symbols[0]);
    const auto* const second = reinterpret_cast<const __m64*>(all + symbols[1]);
    return _mm_loadh_pi(_mm_castsi128_ps(_mm_loadl_epi64(first)), second);
  }
  /// Puts the lower halves of the states that do not `keep` them before `to`.
  [[gnu::target("avx2")]] static __m256i put_words(__m256i state, __m256i keep,
                                                   std::uint16_t*& to) noexcept {
    const auto kept = static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(keep)));
    const unsigned choice = kept ^ 0xFF;
    const __m256i halves = _mm256_shuffle_epi8(
        state, _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, -1, -1, -1, -1, -1, -1, -1, -1, 0, 1, 4,
                                5, 8, 9, 12, 13, -1, -1, -1, -1, -1, -1, -1, -1));
    const __m128i words = _mm256_castsi256_si128(_mm256_permute4x64_epi64(halves, 0x08));
    const __m128i bytes =
        _mm_load_si128(reinterpret_cast<const __m128i*>(ordered_words.bytes[choice]));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to - 8), _mm_shuffle_epi8(words, bytes));
    to -= std::popcount(choice);
    return _mm256_blendv_epi8(_mm256_srli_epi32(state, 16), state, keep);
  }
#endif

  bool by_avx2_;
};

} // namespace penstock::detail
