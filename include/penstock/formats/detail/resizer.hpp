// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/formats/detail/crop_box.hpp>
#include <penstock/formats/detail/resize_rows.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#if defined(__x86_64__)
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <immintrin.h>
#endif

namespace penstock::detail {

#if defined(__x86_64__)
/// PlainRows' loops by AVX2, where the processor has it and weights are few, with the same results.
class FastRows {
 public:
  template <std::size_t stride> void begin(const ResizeWeights& by, bool flip) {
    plain_.begin<stride>(by, flip);
    fast_ = has_avx2() && !by.wide();
    if (fast_) {
      lay_out<stride>(by, flip);
    }
  }

  static void down(const std::uint8_t* const* rows, const ResizeWeights& by, std::size_t y,
                   std::size_t values, std::uint16_t* out) noexcept {
    has_avx2() && !by.wide() ? sum_down(rows, by.weights(y), by.taps(), values, out)
                             : PlainRows::down(rows, by, y, values, out);
  }

  template <std::size_t stride>
  void across(const std::uint16_t* row, std::uint8_t* const* planes) const noexcept {
    if (!fast_) {
      plain_.across<stride>(row, planes);
      return;
    }
    constexpr std::size_t channels = stride == 4 ? 3 : 1;
    std::size_t x = 0;
    for (; x + at_once <= out_; x += at_once) {
      sum_across<stride>(row, x, planes, x);
    }
    if (x != out_) {
      std::uint8_t made[channels][at_once];
      std::uint8_t* to[channels];
      for (std::size_t channel = 0; channel != channels; ++channel) {
        to[channel] = made[channel];
      }
      sum_across<stride>(row, x, to, 0);
      for (std::size_t channel = 0; channel != channels; ++channel) {
        std::copy_n(made[channel], out_ - x, planes[channel] + x);
      }
    }
  }

 private:
  static constexpr std::size_t at_once = 16; // across
  static constexpr std::size_t half = 8;     // as many values as half a vector holds

  static bool has_avx2() noexcept {
    static const bool has = __builtin_cpu_supports("avx2") != 0;
    return has;
  }

  // Each half of a vector is for one value x, and the halves are for x and x + 8: weights stand as
  // they are needed, each once for each channel.
  template <std::size_t stride> void lay_out(const ResizeWeights& by, bool flip) {
    constexpr std::size_t pixels = half / stride; // in half a vector
    out_ = by.out();
    vectors_ = (by.taps() + pixels - 1) / pixels;
    taps_ = by.taps();
    const std::size_t padded = (out_ + at_once - 1) / at_once * at_once;
    first_.assign(padded, 0);
    weights_.assign(padded * vectors_ * half, 0);
    for (std::size_t x = 0; x != out_; ++x) {
      const std::size_t from = flip ? out_ - 1 - x : x;
      first_[x] = by.first(from) * stride;
      const std::size_t in_block = x % at_once;
      const std::size_t pair = x / at_once * half + in_block % half;
      std::uint16_t* const to =
          weights_.data() + pair * vectors_ * at_once + in_block / half * half;
      for (std::size_t tap = 0; tap != by.taps(); ++tap) {
        std::fill_n(to + tap / pixels * at_once + tap % pixels * stride, stride,
                    by.weights(from)[tap]);
      }
    }
  }

  [[gnu::target("avx2")]] static void sum_down(const std::uint8_t* const* rows,
                                               const std::uint16_t* weights, std::size_t taps,
                                               std::size_t values, std::uint16_t* out) noexcept {
    const __m256i zero = _mm256_setzero_si256();
    const __m256i before = _mm256_set1_epi16(static_cast<short>(taps / 2));
    for (std::size_t x = 0; x < values; x += 64) {
      __m256i a = before;
      __m256i b = before;
      __m256i c = before;
      __m256i d = before;
      for (std::size_t tap = 0; tap != taps; ++tap) {
        const __m256i weight = _mm256_set1_epi16(static_cast<short>(weights[tap]));
        const auto* const from = reinterpret_cast<const __m256i*>(rows[tap] + x);
        const __m256i low = _mm256_loadu_si256(from);
        const __m256i high = _mm256_loadu_si256(from + 1);
        a = _mm256_add_epi16(a, _mm256_mulhi_epu16(_mm256_unpacklo_epi8(zero, low), weight));
        b = _mm256_add_epi16(b, _mm256_mulhi_epu16(_mm256_unpackhi_epi8(zero, low), weight));
        c = _mm256_add_epi16(c, _mm256_mulhi_epu16(_mm256_unpacklo_epi8(zero, high), weight));
        d = _mm256_add_epi16(d, _mm256_mulhi_epu16(_mm256_unpackhi_epi8(zero, high), weight));
      }
      auto* const to = reinterpret_cast<__m256i*>(out + x);
      _mm256_storeu_si256(to, _mm256_permute2x128_si256(a, b, 0x20));
      _mm256_storeu_si256(to + 1, _mm256_permute2x128_si256(a, b, 0x31));
      _mm256_storeu_si256(to + 2, _mm256_permute2x128_si256(c, d, 0x20));
      _mm256_storeu_si256(to + 3, _mm256_permute2x128_si256(c, d, 0x31));
    }
  }

  // Sixteen values of each channel, from x on.
  template <std::size_t stride> [[gnu::target("avx2")]] void
  sum_across(const std::uint16_t* row, std::size_t x, std::uint8_t* const* planes,
             std::size_t to) const noexcept {
    const __m256i before = _mm256_set1_epi16(static_cast<short>(taps_ / 2 + 128));
    const __m256i a = sum_two<stride>(row, x, 0);
    const __m256i b = sum_two<stride>(row, x, 2);
    const __m256i c = sum_two<stride>(row, x, 4);
    const __m256i d = sum_two<stride>(row, x, 6);
    if constexpr (stride == 4) { // each is r g b x R G B X
      const __m256i even_ab = _mm256_unpacklo_epi16(a, b);
      const __m256i odd_ab = _mm256_unpackhi_epi16(a, b);
      const __m256i even_cd = _mm256_unpacklo_epi16(c, d);
      const __m256i odd_cd = _mm256_unpackhi_epi16(c, d);
      const __m256i red_green_ab = _mm256_unpacklo_epi16(even_ab, odd_ab);
      const __m256i red_green_cd = _mm256_unpacklo_epi16(even_cd, odd_cd);
      const __m256i blue_ab = _mm256_unpackhi_epi16(even_ab, odd_ab);
      const __m256i blue_cd = _mm256_unpackhi_epi16(even_cd, odd_cd);
      put(_mm256_unpacklo_epi64(red_green_ab, red_green_cd), before, planes[0] + to);
      put(_mm256_unpackhi_epi64(red_green_ab, red_green_cd), before, planes[1] + to);
      put(_mm256_unpacklo_epi64(blue_ab, blue_cd), before, planes[2] + to);
    } else { // each is four times a pair of sums
      const __m256i ab = _mm256_add_epi16(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
      const __m256i cd = _mm256_add_epi16(_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
      put(_mm256_add_epi16(_mm256_unpacklo_epi64(ab, cd), _mm256_unpackhi_epi64(ab, cd)), before,
          planes[0] + to);
    }
  }

  template <std::size_t stride> [[gnu::target("avx2")]] __m256i
  sum_two(const std::uint16_t* row, std::size_t x, std::size_t i) const noexcept {
    const __m256i a = sum_one(row, x, i);
    const __m256i b = sum_one(row, x, i + 1);
    return stride == 4 ? _mm256_add_epi16(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b))
                       : _mm256_add_epi16(_mm256_unpacklo_epi16(a, b), _mm256_unpackhi_epi16(a, b));
  }

  [[gnu::target("avx2")]] __m256i sum_one(const std::uint16_t* row, std::size_t x,
                                          std::size_t i) const noexcept {
    const auto* weight =
        reinterpret_cast<const __m256i*>(weights_.data() + (x + 2 * i) * vectors_ * half);
    const auto* low = reinterpret_cast<const __m128i*>(row + first_[x + i]);
    const auto* high = reinterpret_cast<const __m128i*>(row + first_[x + half + i]);
    __m256i sum = _mm256_setzero_si256();
    for (const auto* const end = weight + vectors_; weight != end; ++weight, ++low, ++high) {
      const __m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(low)),
                                                   _mm_loadu_si128(high), 1);
      sum = _mm256_add_epi16(sum, _mm256_mulhi_epu16(both, _mm256_loadu_si256(weight)));
    }
    return sum;
  }

  [[gnu::target("avx2")]] static void put(__m256i sums, __m256i before, std::uint8_t* to) noexcept {
    const __m256i words = _mm256_srli_epi16(_mm256_add_epi16(sums, before), 8);
    _mm_storeu_si128(
        reinterpret_cast<__m128i*>(to),
        _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
  }

  bool fast_{};
  PlainRows plain_;
  std::size_t out_{};
  std::size_t taps_{};
  std::size_t vectors_{};
  std::vector<std::size_t> first_;
  std::vector<std::uint16_t> weights_;
};
#else
using FastRows = PlainRows;
#endif

/// Pixels in memory, row by row, of 1 byte (grey) or 4 (red, green, blue, and one that does not
/// count). row_slack bytes behind the last may be read.
struct Pixels {
  const std::uint8_t* data;
  std::size_t width, height;
};

/// What is wanted of a picture: its size, and whether its decoder may shrink it.
struct Wanted {
  std::size_t width, height;
  bool scaled;
};
/// A picture, and the part of it that is taken.
struct DecodedPicture {
  Pixels pixels;
  CropBox box;
};

/// Resizes parts of pictures, of 1 or 4 bytes a pixel, to one size, into planes: 1 or 3. It
/// keeps what it has worked out and its memory, so each thread has one. Rows = PlainRows is for
/// tests.
template <std::size_t stride, class Rows = FastRows> class Resizer {
  static_assert(stride == 1 || stride == 4);

 public:
  /// Will make pictures of this size, at least 1 each.
  Resizer(std::size_t width, std::size_t height) : width_{width}, height_{height} {}

  /// Writes planes of width x height bytes to `out`. The part must lie in the picture.
  void operator()(const Pixels& from, const CropBox& box, bool flip, std::uint8_t* out) {
    const ResizeWeights& across = of(across_, box.width, width_);
    const ResizeWeights& down = of(down_, box.height, height_);
    const std::size_t values = box.width * stride;
    row_.resize(std::max(row_.size(), values + across.taps() * stride + row_slack));
    rows_.resize(down.taps());
    loops_.template begin<stride>(across, flip);
    for (std::size_t y = 0; y != height_; ++y) {
      for (std::size_t tap = 0; tap != rows_.size(); ++tap) {
        const std::size_t row = std::min(down.first(y) + tap, box.height - 1); // behind: weighs 0
        rows_[tap] = from.data + ((box.top + row) * from.width + box.left) * stride;
      }
      loops_.down(rows_.data(), down, y, values, row_.data());
      const std::size_t plane = width_ * height_;
      std::uint8_t* const at = out + y * width_;
      const std::array<std::uint8_t*, 3> planes{at, at + plane, at + 2 * plane};
      loops_.template across<stride>(row_.data(), planes.data());
    }
  }

 private:
  // Of the lengths that crops have, some come again, as do those of whole pictures.
  using Known = std::array<ResizeWeights, 64>;

  static const ResizeWeights& of(Known& known, std::size_t in, std::size_t out) {
    ResizeWeights& here = known[in % known.size()];
    if (here.in() != in) {
      here = ResizeWeights{in, out};
    }
    return here;
  }

  std::size_t width_;
  std::size_t height_;
  Known across_;
  Known down_;
  Rows loops_;
  std::vector<const std::uint8_t*> rows_;
  std::vector<std::uint16_t> row_;
};

} // namespace penstock::detail
